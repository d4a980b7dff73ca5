/*
 * sass_counts.h: counts of executed instructions (table sass_value), and which deserve a hint.
 * Counts are additive: over launches, and from instructions to lines and kernels.
 */
#ifndef PITOT_ANALYSIS_SASS_COUNTS_H
#define PITOT_ANALYSIS_SASS_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

#define SASS_THREADS_MOST 32 /* threads of a warp */

enum sass_count {
	SASS_EXECUTED, /* instructions executed by warps */
	SASS_THREADS, /* active threads, summed over these */
	SASS_PREDICATED, /* active threads with a true predicate */
	SASS_SECTORS, /* sectors of global memory */
	SASS_IDEAL, /* the least possible number of sectors */
	SASS_RATED, /* sectors of the instructions with a known SASS_IDEAL */
	SASS_COUNTS,
};

struct sass_counts {
	uint64_t of[SASS_COUNTS];
	unsigned known; /* bits: measured counts */
};

/*
 * Maps the name of a metric to enum sass_count; -1: none. Sectors have metrics for all accesses and
 * for loads and stores alone; *is_part is set for the latter.
 */
int sass_count_of(const char *metric, bool *is_part);
void sass_counts_add(struct sass_counts *sum, const struct sass_counts *c);

/*
 * Append the active threads per instruction, "11.0", and the ratio of sectors to their ideal
 * number, "4.1"; nothing if unknown.
 */
void sass_threads_text(const struct sass_counts *c, struct strbuf *out);
void sass_sectors_text(const struct sass_counts *c, struct strbuf *out);

/* Whether a line or instruction deserves a hint; `whole` has the counts of all code. */
bool sass_is_divergent(const struct sass_counts *c, const struct sass_counts *whole);
bool sass_is_uncoalesced(const struct sass_counts *c, const struct sass_counts *whole);

#endif
