/*
 * step_ranges.h: the steps of a process, from its rows as they come: ranges with names of steps,
 * and the GPU work that began while they lasted. Times are those of CLOCK_MONOTONIC.
 *
 * Rows of work may come before the row of the range in which the work began, since tables are
 * written one after the other; the work of the last seconds is therefore kept.
 */
#ifndef PITOT_AGENT_STEP_RANGES_H
#define PITOT_AGENT_STEP_RANGES_H

#include "analysis/steps.h"
#include "base/vec.h"

#define STEP_RANGES_MAX 4096u /* of a process, open or not yet taken */

struct step_range {
	uint64_t start_ns, end_ns; /* UINT64_MAX: it is open */
	uint64_t key; /* of its end, see step_ranges_open() */
	uint64_t work, work_ns;
	uint32_t thread, domain;
	bool is_closed;
	bool is_complete; /* all work that began before its end has been read */
	char name[STEP_NAME_MAX];
};

struct step_work {
	uint64_t start_ns, duration_ns;
};

struct step_ranges {
	VEC(struct step_range) items; /* by start */
	VEC(struct step_work) recent;
	uint64_t newest_ns; /* of work */
	uint64_t forgotten; /* steps beyond STEP_RANGES_MAX */
};

#define STEP_LEVEL (UINT64_C(1) << 63)

/*
 * A range begins; an end with the same key closes it. The key is the level, with STEP_LEVEL, of
 * ranges that nest in a thread and domain, and the id of others.
 */
void step_ranges_open(struct step_ranges *s, const struct step_range *range);
void step_ranges_close(struct step_ranges *s, const struct step_range *end);
/* All work of a batch, in any order, after the ranges of the batch. */
void step_ranges_add_work(struct step_ranges *s, const struct step_work *work, size_t count);
/*
 * Removes and returns a step that has ended and is complete: it was already closed when this was
 * called for the batch before. 1, or 0: there is none.
 */
int step_ranges_take(struct step_ranges *s, struct step_range *out);
/* The batch is over: what is closed is complete after the next one. */
void step_ranges_end_batch(struct step_ranges *s);
void step_ranges_release(struct step_ranges *s);

#endif
