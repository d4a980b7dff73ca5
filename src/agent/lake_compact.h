/*
 * lake_compact.h: makes few large objects of the many small ones of a day.
 *
 * Engines list the files of a folder, so what they list must change at one moment. The objects of a
 * table and day are written into a new folder below .compact, which is exchanged with that of the
 * day (renameat2(2), RENAME_EXCHANGE): whoever lists it sees the old ones or the new ones. Object
 * storage cannot replace several objects at once, so a bucket is refused.
 *
 *	.compact/TABLE.DATE.new    is being written; whoever comes next removes it
 *	.compact/TABLE.DATE        is complete. Before the exchange its generation is the newer
 *	                           one, and it is removed; after it, the older one: the folder is
 *	                           emptied, and what agents have added meanwhile goes to the new one
 *
 * What cannot be read stays as it is.
 */
#ifndef PITOT_AGENT_LAKE_COMPACT_H
#define PITOT_AGENT_LAKE_COMPACT_H

#include "agent/lake.h"

/* What was done about a table and day. */
struct lake_compaction {
	const char *table, *date;
	uint64_t objects_before, bytes_before, objects_after, bytes_after, rows;
	uint64_t unreadable; /* objects that stay as they are */
	const char *foreign; /* a name that is no object, for which nothing was done; or NULL */
};

typedef void lake_compact_done(void *user, const struct lake_compaction *c);

/*
 * Compacts the days before that of `now_ns` (CLOCK_REALTIME, UTC) that have objects of agents.
 * Returns 0 or a negative code.
 */
int lake_compact(const struct lake *lake, uint64_t now_ns, lake_compact_done *done, void *user,
		 struct error *e) MUST_USE;

#endif
