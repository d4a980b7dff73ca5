/*
 * busy.h: how long each GPU was busy: union and sum of its work's intervals, concurrency, and how
 * much of the copying overlaps with kernels.
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
	uint64_t sum_ns; /* over all kinds of work */
	uint64_t first_ns, last_ns; /* start of the first piece, end of the last; 0: no work */
	uint64_t union_ns; /* time with at least one piece running, */
	uint64_t compute_ns; /* at least one kernel or graph */
	uint64_t copy_ns; /* at least one copy or memory set */
	uint64_t overlap_ns; /* both */
	uint64_t streams_ns[BUSY_LEVELS]; /* [n]: time with n streams active; [0] is unused */
	uint64_t pieces_ns[BUSY_LEVELS]; /* [n]: time with n pieces of work running */
	uint64_t max_streams, max_pieces;
};

struct busy {
	struct gpu_busy *gpus; /* parallel to struct gpus */
	size_t count;
	uint64_t untimed; /* pieces of work without times, not included above */
};

/* 0 or -ENOMEM. The columns of gpu_walk must be loaded. */
int busy_analyze(const struct gpus *gpus, const struct selection *s, struct busy *out) MUST_USE;
void busy_release(struct busy *b);

#endif
