/*
 * collective_rows.h: which rows of table `collective` a kernel carries, and the key by which ranks
 * agree on it.
 */
#ifndef PITOT_ANALYSIS_COLLECTIVE_ROWS_H
#define PITOT_ANALYSIS_COLLECTIVE_ROWS_H

#include "base/map.h"
#include "ranks/collective_match.h"
#include "trace/trace.h"

struct collective_rows {
	const struct trace *trace;
	struct map launched; /* process, correlation -> the first row, and the number of rows */
	struct map captured; /* process, graph node -> the first row, and the number of rows */
	struct map originals; /* process, graph node -> the node of which it is a clone */
	uint32_t *order; /* rows by process, correlation or node, time */
	bool *known; /* by process: has rows */
};

/* The tables must be loaded. 0 or -ENOMEM; release *r in either case. */
int collective_rows_init(struct collective_rows *r, const struct trace *t) MUST_USE;
void collective_rows_release(struct collective_rows *r);

/*
 * Fills the key of the part of a kernel, its row, size, count, datatype and root. A part that stays
 * `inferred` has no sequence number: it is its ordinal within (communicator, function). False: no
 * row is known.
 */
bool collective_rows_find(const struct collective_rows *r, uint32_t process, uint32_t kernel,
			  struct collective_part *part);

#endif
