/*
 * lake_compact.h: makes few large objects of the many small ones of a day.
 *
 * Engines list the files of a folder, so what they list must change at one moment. The objects of a
 * table and day are written into a new folder below .compact, which is exchanged with that of the
 * day (renameat2(2), RENAME_EXCHANGE): whoever lists it sees the old ones or the new ones. Object
 * storage cannot do that: lake_compact_s3.h.
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
	const char *table, *date; /* YYYY-MM-DD */
	uint64_t objects_before, bytes_before, objects_after, bytes_after, rows;
	uint64_t unreadable; /* objects that stay as they are */
	const char *foreign; /* a name that is no object, for which nothing was done; or NULL */
};

struct lake_compact_options {
	uint64_t now_ns; /* CLOCK_REALTIME: days before that one (UTC) are compacted */
	uint64_t wait_ns; /* of a bucket: the longest time for which a query reads */
	void (*done)(void *user, const struct lake_compaction *c);
	void (*waits)(void *user, uint64_t ns); /* is called before each of two times */
	void *user;
};

/* lake_compact() of a folder. */
int lake_compact_folder(const struct lake *lake, const struct lake_compact_options *options,
			struct error *e) MUST_USE;

/* Both are YYYY-MM-DD. The objects without rows are of no day. */
bool lake_is_past_day(const char *date, const char *today);

#endif
