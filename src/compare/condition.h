/*
 * condition.h: conditions under which a comparison fails, such as "step > 2%":
 *
 *	QUANTITY[:PATTERN] >|< NUMBER[UNIT]
 *
 * about the change from A to B. QUANTITY is a name of QUANTITIES, PATTERN selects its parts, whose
 * sum is meant. UNIT is %, of A's value, or one of the quantity's: ns us ms s, B KiB MiB GiB, or
 * none for counts.
 */
#ifndef PITOT_COMPARE_CONDITION_H
#define PITOT_COMPARE_CONDITION_H

#include "base/strbuf.h"
#include "compare/comparison.h"

enum condition_state { CONDITION_PASSED, CONDITION_FAILED, CONDITION_UNKNOWN };
extern const char *const condition_states[]; /* in JSON */

struct condition {
	const char *text; /* as written */
	enum quantity_kind kind;
	char *pattern; /* "" for quantities without parts */
	bool above; /* else below */
	bool relative; /* the limit is a share of A's value */
	double limit; /* in the quantity's unit */
	/* Set by condition_check(). */
	enum condition_state state;
	struct sample_difference difference;
	size_t parts; /* that the pattern selects */
};

/* 0 or a negative code with the way out; release in any case. `text` must outlive it. */
int condition_parse(const char *text, struct condition *out, struct error *e) MUST_USE;
void condition_release(struct condition *c);
/*
 * Fails if the end of the interval that is nearer to 0 is beyond the limit, or with `on_point` the
 * estimate. With few runs it stays unknown if only the estimate is, and quantities of a run, which
 * hardly differ from run to run, are judged by the estimate. 0 or -ENOMEM.
 */
int condition_check(struct condition *c, const struct comparison *of, bool on_point) MUST_USE;

#endif
