/*
 * lake_merge.h: puts the rows of many objects of a table and day into few: those of one job, in the
 * order of host, rank and time.
 */
#ifndef PITOT_AGENT_LAKE_MERGE_H
#define PITOT_AGENT_LAKE_MERGE_H

#include "agent/fleet_tables.h"

#define LAKE_MADE ".compact-" /* in names of objects that were made here, and in no other */
#define LAKE_OBJECT_BYTES_MAX ((size_t)256 << 20) /* a larger one cannot be read */
#define LAKE_LARGE_BYTES (UINT64_C(2) << 20) /* one of that size that was made is not read again */

struct lake_merge {
	enum fleet_table table;
	struct fleet_rows rows;
	const char *first; /* the name of the object whose rows are the first; the caller's */
};

void lake_merge_init(struct lake_merge *m, enum fleet_table table);
void lake_merge_release(struct lake_merge *m);

bool lake_is_made(const char *name);
size_t lake_merge_rows(const struct lake_merge *m);
/* Whether the rows of an object belong to those that were read; if not, these are to be written. */
bool lake_merge_fits(const struct lake_merge *m, const char *name);
/*
 * Appends the rows of an object, all or none. Returns 0, -ENOMEM, or another negative code if they
 * cannot be read.
 */
int lake_merge_add(struct lake_merge *m, const char *name, const struct strbuf *bytes,
		   struct error *e) MUST_USE;
/*
 * Writes the rows into a new file of a folder, and forgets them. Its name, which is appended to
 * *name, is JOB.%.FROM-UNTIL.compact-TAG.parquet: of many hosts, so it names none.
 */
int lake_merge_write(struct lake_merge *m, int folder, const char *tag, struct strbuf *name,
		     struct error *e) MUST_USE;

#endif
