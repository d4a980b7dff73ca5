/*
 * idle.h: when a GPU was idle, and why. The cause is what the thread was doing that launched the
 * work at the end of the gap. Every nanosecond of a gap has exactly one cause:
 *
 *	gap begins .......... launching call .......... returns .......... gap ends: the work starts
 *	| the thread's calls, | IDLE_LAUNCH (_COPY, …) | IDLE_QUEUED     |
 *	| or IDLE_HOST        |                        |                 |
 *
 * If the call returned before the gap began, the whole gap is IDLE_QUEUED: latency of the GPU, or a
 * dependency.
 */
#ifndef PITOT_ANALYSIS_IDLE_H
#define PITOT_ANALYSIS_IDLE_H

#include "analysis/calls.h"
#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/warmup.h"

enum idle_cause {
	IDLE_BEFORE, /* before the first work of the window */
	IDLE_AFTER, /* after the last work of the window */
	IDLE_HOST, /* outside CUDA: the program's own code on the CPU */
	IDLE_LAUNCH, /* in calls that launch kernels or graphs */
	IDLE_SYNC, /* in calls that wait */
	IDLE_COPY, /* in calls that copy or set memory */
	IDLE_MEMORY, /* in calls that allocate or release memory */
	IDLE_CALL, /* in other CUDA calls */
	IDLE_QUEUED, /* the work was already launched */
	IDLE_UNKNOWN, /* the call that launched the work is not recorded */
	IDLE_MEASURING, /* Pitot measured, whatever the thread did: see measuring.h */
	IDLE_CAUSES,
};

/* Lengths of gaps: below 1 us, 10 us, 100 us, 1 ms, 10 ms, 100 ms, and longer. */
#define IDLE_SIZES 7

#define IDLE_LONGEST 4

struct idle_gap {
	uint64_t start_ns, length_ns;
	uint64_t own_ns; /* length_ns excluding Pitot's measuring */
	uint32_t caller; /* line that launched the work at the end of the gap, or CALLER_NONE */
	enum idle_cause cause; /* the largest one */
};

/* What pauses and the pace of the work are found by; see steady.h. */
struct work_gaps {
	struct idle_gap longest[IDLE_LONGEST]; /* between work, by own_ns; own_ns 0: none */
	struct pace pace;
};

/* Idle time attributed to a line of the program. */
struct idle_line {
	uint32_t caller, callee; /* or CALLER_NONE; lines of launches have no callee */
	uint64_t count; /* samples, or gaps */
	uint64_t ns; /* excluding Pitot's measuring */
	uint64_t off_cpu_ns; /* part of ns in which the thread was off the CPU */
};

struct idle_line_list {
	GROUPS(struct idle_line) lines; /* key: caller << 32 | callee */
	size_t last; /* item that was found last, which is likely to be the next one */
};

struct idle_size {
	uint64_t below_ns; /* exclusive upper limit; UINT64_MAX: none */
	uint64_t count, total_ns;
};

struct gpu_idle {
	uint64_t total_ns; /* of all gaps, including BEFORE and AFTER */
	struct idle_size gaps[IDLE_SIZES]; /* between work, excluding BEFORE and AFTER */
	uint64_t cause_ns[IDLE_CAUSES];
	uint64_t after_sync, after_copy; /* number of gaps that began in such a call */
	struct work_gaps between;
	struct idle_line_list launched; /* gaps by the line that launched the work at their end */
};

struct idle {
	struct gpu_idle *gpus; /* parallel to struct gpus */
	size_t count;
};

/* A gap, and the call (row of api_call or TRACE_NO_ROW) that launched the work at its end. */
struct idle_visit {
	uint64_t start_ns, end_ns;
	uint32_t process, call;
};

/*
 * Visits the gaps between work of one GPU in order of time. `visit` returns 0, or a negative code
 * that ends the walk. Returns 0, -ENOMEM, or that code.
 */
int idle_gaps(const struct gpus *gpus, const struct selection *s, const struct calls *calls,
	      size_t gpu, int (*visit)(void *user, const struct idle_visit *gap),
	      void *user) MUST_USE;

/* Inserts a gap if it is one of the longest. */
void work_gaps_add(struct work_gaps *g, const struct idle_gap *gap);

/* Finds or adds a line of a list; NULL: out of memory. */
struct idle_line *idle_line_at(struct idle_line_list *list, uint32_t caller,
			       uint32_t callee) MUST_USE;

/* "host", "launch" …: stable, for JSON. */
const char *idle_cause_name(unsigned cause);

#endif
