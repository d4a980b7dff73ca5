/*
 * busy.h: how long each GPU worked: the union of its intervals of work beside their sum, how much
 * of it at once, and how much of the copying is hidden behind kernels.
 */
#ifndef PITOT_ANALYSIS_BUSY_H
#define PITOT_ANALYSIS_BUSY_H

#include "analysis/gpu_walk.h"

#define BUSY_LEVELS 17 /* 0 … 15, and 16 or more */

struct work_sum {
	uint64_t count; /* pieces of work with times */
	uint64_t sum_ns; /* of their durations, cut to the window */
};

struct gpu_busy {
	struct work_sum work[GPU_WORK_KINDS];
	uint64_t sum_ns; /* of all of them */
	uint64_t first_ns, last_ns; /* start of the first piece, end of the last; 0 without any */
	uint64_t union_ns; /* at least one piece was running */
	uint64_t compute_ns; /* at least one kernel or graph */
	uint64_t copy_ns; /* at least one copy or memory set */
	uint64_t overlap_ns; /* both */
	uint64_t streams_ns[BUSY_LEVELS]; /* that many streams had work running; [0] is unused */
	uint64_t pieces_ns[BUSY_LEVELS]; /* that many pieces of work were running */
	uint64_t max_streams, max_pieces;
};

struct busy {
	struct gpu_busy *gpus; /* as in struct gpus */
	size_t count;
	uint64_t untimed; /* pieces of work without times: in no figure above */
};

/* 0 or -ENOMEM. The columns of gpu_walk must be loaded. */
int busy_analyze(const struct gpus *gpus, const struct selection *s, struct busy *out) MUST_USE;
void busy_release(struct busy *b);

#endif
