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

/*
 * A launch reaches an idle GPU within this time. Work that was launched earlier and still waited
 * was delayed on the GPU: by previous work, or by a dependency.
 */
#define IDLE_LAUNCH_LATENCY_NS 10000

/* Lengths of gaps: below 1 us, 10 us, 100 us, 1 ms, 10 ms, 100 ms, and longer. */
#define IDLE_SIZES 7

/*
 * The parts of the gaps between work that the verdict compares; they add up to all of these gaps.
 * If the launching thread was waiting for the GPU when a gap below IDLE_WAIT_LIMIT_NS began, the
 * whole gap is attributed to that wait, whatever the thread did afterwards.
 */
enum idle_part {
	IDLE_PART_SYNC, /* gaps that began in a synchronization; of longer gaps, the time in it */
	IDLE_PART_COPY, /* the same for calls that copy */
	IDLE_PART_LATENCY, /* other gaps, if launched IDLE_LAUNCH_LATENCY_NS before the work ran */
	IDLE_PART_LAUNCH, /* other gaps below 100 us */
	IDLE_PART_CALL, /* of longer gaps, the launch calls */
	IDLE_PART_HOST, /* the rest: mostly the program's own code */
	IDLE_PART_UNKNOWN, /* gaps before work whose launch was not recorded */
	IDLE_PART_MEASURING, /* of all gaps, what Pitot measured; in none of the parts above */
	IDLE_PARTS,
};

#define IDLE_WAIT_LIMIT_NS 1000000
#define IDLE_LONGEST 4

struct idle_gap {
	uint64_t start_ns, length_ns;
	uint64_t own_ns; /* length_ns excluding IDLE_PART_MEASURING */
	uint64_t part_ns[IDLE_PARTS];
	uint32_t caller; /* line that launched the work at the end of the gap, or CALLER_NONE */
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
	uint64_t part_ns[IDLE_PARTS];
	uint64_t after_sync, after_copy; /* number of gaps that began in such a call */
	struct idle_gap longest[IDLE_LONGEST]; /* between work, by own_ns; own_ns 0: none */
	struct pace pace;
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

/* Finds or adds a line of a list; NULL: out of memory. */
struct idle_line *idle_line_at(struct idle_line_list *list, uint32_t caller,
			       uint32_t callee) MUST_USE;

/* "host", "launch" …: stable, for JSON. */
const char *idle_cause_name(unsigned cause);

#endif
