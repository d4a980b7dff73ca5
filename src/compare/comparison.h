/*
 * comparison.h: two sides of runs, A and B, quantity by quantity.
 *
 * With COMPARISON_RUNS_MIN runs on each side the sample is the runs: each is one value. With fewer
 * it is the steps of all runs of a side, which says how the runs differ, but not whether another
 * run would: within_runs. Then nothing below COMPARISON_FLOOR_WITHIN is called a difference.
 *
 * The step's difference is significant if its p is below COMPARISON_P, that of other rows if its
 * false discovery rate over all rows is below COMPARISON_RATE; of times, if it is also at least
 * COMPARISON_FLOOR of the step and COMPARISON_FLOOR_NS.
 *
 * Without steps, or where the runs are not comparable, the verdict is `inconclusive`, with reasons.
 */
#ifndef PITOT_COMPARE_COMPARISON_H
#define PITOT_COMPARE_COMPARISON_H

#include "compare/measured_run.h"

#define COMPARISON_RUNS_MIN 5u /* a side: the least with which p can be below COMPARISON_P */
#define COMPARISON_STEPS_MIN 5u
#define COMPARISON_P 0.01
#define COMPARISON_RATE 0.05
#define COMPARISON_FLOOR 0.001
#define COMPARISON_FLOOR_NS 1000.0
#define COMPARISON_FLOOR_WITHIN 0.02
#define COMPARISON_CLOCK_MAX 0.02
#define COMPARISON_LAUNCHES_MAX 0.01
#define COMPARISON_SLOW_MAX 0.05 /* of the steps, by which slow ones may be more on one side */

enum verdict_kind { VERDICT_SAME, VERDICT_SLOWER, VERDICT_FASTER, VERDICT_INCONCLUSIVE };
extern const char *const comparison_verdicts[]; /* in JSON */

struct comparison_row {
	enum quantity_kind kind;
	const char *name; /* belongs to a run */
	const char *was; /* name in A, if it has another one there (renamed.h); NULL: the same */
	struct sample_difference difference;
	double rate; /* false discovery rate, over all rows that are compared */
	double mean_a, mean_b; /* of the sides' runs; parts of a quantity add up by these */
	double count_a, count_b; /* pieces in a step */
	bool in_a, in_b;
	bool is_significant;
};

struct comparison_texts {
	char **data;
	size_t count, capacity;
};

struct comparison {
	struct run_side a, b;
	bool within_runs;
	enum verdict_kind verdict;
	struct comparison_texts reasons; /* why it is inconclusive */
	struct comparison_texts notes; /* what the reader should know of the runs */
	/* the step first, then by quantity and size of the difference */
	VEC(struct comparison_row) rows;
	uint64_t seed;
};

/* The runs must outlive it. 0 or a negative code; release in any case. */
int comparison_init(struct comparison *c, struct run_side a, struct run_side b,
		    struct error *e) MUST_USE;
void comparison_release(struct comparison *c);

/* The row of a quantity without parts; NULL: no run has it. */
const struct comparison_row *comparison_row_of(const struct comparison *c, enum quantity_kind kind);
/*
 * The difference of the sum of all parts that match a pattern (as of text_matches()) by one of
 * their names; `parts` is set to their number. 0 or -ENOMEM.
 */
int comparison_sum(const struct comparison *c, enum quantity_kind kind, const char *pattern,
		   struct sample_difference *out, size_t *parts) MUST_USE;

#endif
