/*
 * step_watch.h: finds whole steps of a process while it goes on, from facts in the order of time
 * (rule_watch.h).
 *
 * A step is an outermost range of a thread that a rule is about. Of several threads with steps, the
 * one that spends most time in them counts: a thread that loads data may have a hundred of its
 * batches in one step of the training. So a thread is judged a second after its steps, when others
 * have shown theirs.
 */
#ifndef PITOT_RULES_STEP_WATCH_H
#define PITOT_RULES_STEP_WATCH_H

#include "base/vec.h"
#include "rules/rule_watch.h"

#define STEPS_MAX 10000u
#define STEPS_JUDGED_NS UINT64_C(1000000000)

struct whole_step {
	uint64_t start_ns, end_ns;
};

struct step_thread {
	uint32_t thread;
	uint32_t instance; /* of the name of its first step (struct fact) */
	bool is_scope; /* that was one of Pitot; else NVTX's */
	bool is_open;
	uint64_t key, open_ns; /* of the step that has not ended */
	uint64_t total_ns; /* of all steps, also beyond those in `steps` */
	uint64_t seen; /* steps that have ended, also before those in `steps` */
	VEC(struct whole_step) steps; /* at most those that are wanted */
	uint64_t last_call; /* correlation id of the last call in them, once all are there */
	uint64_t work_until_ns; /* end of the GPU work that was launched until then */
};

struct step_watch {
	uint32_t rules; /* bits: those that steps are about */
	size_t wanted; /* steps of a thread */
	uint64_t first; /* number of the first of them, from 1; 0: whichever comes */
	uint64_t since_ns; /* steps that began before are none */
	uint64_t last_call; /* largest correlation id of a call; set by the caller before facts */
	uint64_t work_until_ns; /* end of all GPU work */
	VEC(struct step_thread) threads;
};

/* Without memory steps are missing. */
void step_watch_add(struct step_watch *w, const struct fact *f);
/* Adds the end of GPU work, by the correlation id of its launch. */
void step_watch_work(struct step_watch *w, uint64_t correlation, uint64_t end_ns);
/*
 * Returns the thread that counts, when all facts until known_ns were added: NULL, as long as it has
 * too few steps. With `at_end`, when no more come, of those that have enough, or else any, the one
 * that counts most. Steps with numbers are those of one thread, whether it has enough or not.
 */
const struct step_thread *step_watch_find(const struct step_watch *w, bool at_end,
					  uint64_t known_ns);
/* The thread that spends most time in steps, whichever steps it has; NULL: no thread has any. */
const struct step_thread *step_watch_main(const struct step_watch *w, uint64_t known_ns);
/* Whether a thread may have begun the first step that is wanted. */
bool step_watch_has_begun(const struct step_watch *w);
/* When the oldest step began that has not ended; 0: there is none. */
uint64_t step_watch_open(const struct step_watch *w);
void step_watch_release(struct step_watch *w);

#endif
