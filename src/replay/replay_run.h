/*
 * replay_run.h: executes a plan on the GPUs of this machine.
 *
 * One thread of the host for each recorded one whose calls ran beside those of others, else one for
 * all. Calls begin in the order in which they were recorded, across threads: a call waits until the
 * one before it has returned or, if it is one that waits for the GPU, has begun. So every stream
 * gets its work in the recorded order. When a call is due, its pace decides.
 */
#ifndef PITOT_REPLAY_REPLAY_RUN_H
#define PITOT_REPLAY_REPLAY_RUN_H

#include "replay/replay_gpu.h"

struct replay_stream_result {
	uint64_t kernels, kernel_ns; /* that ended, and their times, for one repeat */
};

struct replay_result {
	VEC(uint64_t) makespans_ns; /* of the repeats that were finished */
	struct replay_stream_result *streams; /* by plan.streams */
	uint64_t executed[REPLAY_KIND_COUNT]; /* in all repeats */
	uint64_t late_ns; /* the most by which a call began after it was due */
	uint64_t order_violations; /* kernels, in all repeats */
	uint64_t substituted[SUBSTITUTION_COUNT];
	uint64_t timer_step_ns, extra_ns; /* of the first GPU */
	uint32_t gpus;
	bool stopped;
};

/* 0 also if it was stopped; E_UNSUPPORTED: no GPU, or the driver failed. Release in any case. */
int replay_run(const struct replay_plan *plan, const struct replay_settings *settings,
	       struct replay_result *out, struct error *e) MUST_USE;
void replay_result_release(struct replay_result *r);

#endif
