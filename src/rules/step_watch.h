/*
 * step_watch.h: finds whole steps of a process while it goes on, from facts in the order of time
 * (rule_watch.h).
 *
 * A step is an outermost range of a thread that a rule is about. Of several threads with steps, the
 * one that spends most time in them counts: a thread that loads data may have a hundred of its
 * batches in one step of the training.
 */
#ifndef PITOT_RULES_STEP_WATCH_H
#define PITOT_RULES_STEP_WATCH_H

#include "base/vec.h"
#include "rules/rule_watch.h"

#define STEPS_MAX 10000u

struct whole_step {
	uint64_t start_ns, end_ns;
};

struct step_thread {
	uint32_t thread;
	bool is_open;
	uint64_t key, open_ns; /* of the step that has not ended */
	uint64_t total_ns; /* of `steps` */
	VEC(struct whole_step) steps;
};

struct step_watch {
	uint32_t rules; /* bits: those that steps are about */
	uint64_t since_ns; /* steps that began before are none */
	VEC(struct step_thread) threads;
};

/* Without memory steps are missing. */
void step_watch_add(struct step_watch *w, const struct fact *f);
/*
 * Returns the thread that counts if it has `wanted` steps; with `at_end`, when no more steps
 * come, of those that have so many, or else any, the one that counts most. NULL: there is none.
 */
const struct step_thread *step_watch_find(const struct step_watch *w, size_t wanted, bool at_end,
					  uint64_t now_ns);
/* When the oldest step began that has not ended; 0: there is none. */
uint64_t step_watch_open(const struct step_watch *w);
void step_watch_release(struct step_watch *w);

#endif
