/*
 * nested_ranges.h: ranges that are known with both their times become pushes and pops of threads.
 * They are added in the order of their starts, and of those that start at once, the longest first.
 * A range that does not nest in the one around it, which only damage can bring about, becomes one
 * of start and end.
 */
#ifndef PITOT_IMPORT_NESTED_RANGES_H
#define PITOT_IMPORT_NESTED_RANGES_H

#include "import/database_rows.h"

#define RANGE_OPEN UINT64_MAX /* end_ns of a range whose end is unknown, or comes as an event */

struct nested_thread {
	struct database_process *process;
	uint32_t tid;
	VEC(struct nested_open) open; /* innermost last */
};

struct nested_ranges {
	struct database_import *import;
	struct error *e;
	struct map thread_of; /* key -> item */
	VEC(struct nested_thread) threads;
	uint64_t next_range; /* for ranges without an id */
};

/* A row without values, of a thread. */
struct row_nvtx nested_row(enum nvtx_kind kind, uint64_t time_ns, uint32_t thread, uint32_t domain);
void nested_set_range(struct row_nvtx *row, uint64_t range);
/* The thread of a key; NULL: out of memory. */
struct nested_thread *nested_thread(struct nested_ranges *r, struct database_process *p,
				    uint64_t key, uint32_t tid) MUST_USE;
/* All three return 0 or a negative code. */
int nested_append(struct nested_ranges *r, struct database_process *p,
		  const struct row_nvtx *row) MUST_USE;
int nested_push(struct nested_ranges *r, struct nested_thread *t, struct row_nvtx *row,
		uint64_t end_ns) MUST_USE;
int nested_pop(struct nested_ranges *r, struct nested_thread *t, uint64_t time_ns) MUST_USE;
/* Writes the ends that are known, unless rc < 0, and frees. Returns rc or a negative code. */
int nested_end(struct nested_ranges *r, int rc);

#endif
