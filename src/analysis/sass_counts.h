/*
 * sass_counts.h: what instructions did (table sass_value), and what of it is worth a hint. Counts
 * add up: over launches, and from instructions to lines and kernels.
 */
#ifndef PITOT_ANALYSIS_SASS_COUNTS_H
#define PITOT_ANALYSIS_SASS_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define SASS_THREADS_MOST 32 /* of an instruction: a warp's */

enum sass_count {
	SASS_EXECUTED, /* by warps */
	SASS_THREADS, /* that were active, in all of these */
	SASS_PREDICATED, /* of them those with a true predicate */
	SASS_SECTORS, /* of global memory */
	SASS_IDEAL, /* as few as there could have been */
	SASS_RATED, /* sectors of instructions of which that is known */
	SASS_COUNTS,
};

struct sass_counts {
	uint64_t of[SASS_COUNTS];
	unsigned known; /* bits: was measured */
};

/*
 * What a metric counts, by its name; -1: nothing of these. Of sectors there are metrics of all, and
 * of loads and of stores; *is_part: it is one of the latter.
 */
int sass_count_of(const char *metric, bool *is_part);
void sass_counts_add(struct sass_counts *sum, const struct sass_counts *c);

/*
 * Threads an instruction, "11.0", and sectors by what they could have been, "4.1". Nothing where
 * that is not known.
 */
void sass_threads_text(const struct sass_counts *c, struct strbuf *out);
void sass_sectors_text(const struct sass_counts *c, struct strbuf *out);

/* Whether that is worth a hint, in code with these counts of `whole`: text, without a place. */
bool sass_is_divergent(const struct sass_counts *c, const struct sass_counts *whole);
bool sass_is_uncoalesced(const struct sass_counts *c, const struct sass_counts *whole);

#endif
