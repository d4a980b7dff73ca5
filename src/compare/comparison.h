/*
 * comparison.h: two sides of runs, A and B, quantity by quantity.
 *
 * The sample is the runs: each is one value, because steps of one run differ by less than runs do.
 * Where a side has fewer than SAMPLES_FEW of them, is_few, times and bytes are assumed to spread by
 * COMPARISON_SPREAD from run to run, so that only a large change is called a difference. A change
 * of the step by COMPARISON_UNSETTLED or more is then `inconclusive`, with the number of runs that
 * would settle it; the rows and conditions are judged nevertheless.
 *
 * The step's difference is significant if its p is below COMPARISON_P, that of other rows if its
 * false discovery rate over all rows is below COMPARISON_RATE, or COMPARISON_P if is_few; of times,
 * if it is also at least COMPARISON_FLOOR of the step and COMPARISON_FLOOR_NS.
 *
 * Without steps, or where the runs are not comparable, the verdict is `inconclusive`, with reasons.
 */
#ifndef PITOT_COMPARE_COMPARISON_H
#define PITOT_COMPARE_COMPARISON_H

#include "compare/measured_run.h"

#define COMPARISON_STEPS_MIN 5u
#define COMPARISON_P 0.01
#define COMPARISON_RATE 0.05
#define COMPARISON_FLOOR 0.001
#define COMPARISON_FLOOR_NS 1000.0
#define COMPARISON_SPREAD 0.03
#define COMPARISON_UNSETTLED 0.02
#define COMPARISON_RUNS_MAX 64u /* of a side, that it advises */
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
	bool is_few;
	enum verdict_kind verdict;
	struct comparison_texts reasons; /* why the sides cannot be compared */
	size_t runs_needed; /* of each side, to settle a step that few leave open; 0: none are */
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
