/*
 * idle.h: when a GPU had nothing to do, and why: what the thread was doing that later launched the
 * work which ended the gap. Every nanosecond of a gap is booked on exactly one cause:
 *
 *	gap begins .......... launching call .......... returns .......... gap ends: the work starts
 *	| the thread's calls, | IDLE_LAUNCH (_COPY, …) | IDLE_QUEUED     |
 *	| or IDLE_HOST        |                        |                 |
 *
 * If the call had returned before the gap began, all of it is IDLE_QUEUED: the GPU's own latency,
 * or a dependency.
 */
#ifndef PITOT_ANALYSIS_IDLE_H
#define PITOT_ANALYSIS_IDLE_H

#include "analysis/calls.h"
#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/warmup.h"

enum idle_cause {
	IDLE_BEFORE, /* before the first work of the window */
	IDLE_AFTER, /* after the last */
	IDLE_HOST, /* outside CUDA: the program's own code on the CPU */
	IDLE_LAUNCH, /* inside calls that launch kernels or graphs */
	IDLE_SYNC, /* inside calls that wait */
	IDLE_COPY, /* inside calls that copy or set memory */
	IDLE_MEMORY, /* inside calls that allocate or release memory */
	IDLE_CALL, /* inside other CUDA calls */
	IDLE_QUEUED, /* the work had been launched */
	IDLE_UNKNOWN, /* no call is known for the work that ended the gap */
	IDLE_CAUSES,
};

/*
 * A launch reaches an idle GPU within this time. Work that was launched earlier and still had to
 * wait was held up on the GPU's side: by what ran before it, or by a dependency.
 */
#define IDLE_LAUNCH_LATENCY_NS 10000

/* Lengths of gaps: below 1 us, 10 us, 100 us, 1 ms, 10 ms, 100 ms, and longer. */
#define IDLE_SIZES 7

/*
 * The gaps between work once more, in parts that the verdict weighs; they sum to all of gaps_ns.
 * A gap below IDLE_WAIT_LIMIT_NS whose beginning found the thread that then launched waiting for
 * the GPU was made by that wait, whatever came then.
 */
enum idle_part {
	IDLE_PART_SYNC, /* gaps that began in a synchronization; in longer ones, the time in it */
	IDLE_PART_COPY, /* the same for calls that copy */
	IDLE_PART_LATENCY, /* others, launched IDLE_LAUNCH_LATENCY_NS before their work ran */
	IDLE_PART_LAUNCH, /* others below 100 us; launch calls in longer ones */
	IDLE_PART_HOST, /* the rest: mostly the program's own code for longer */
	IDLE_PART_UNKNOWN, /* gaps before work whose launch was not recorded */
	IDLE_PARTS,
};

#define IDLE_WAIT_LIMIT_NS 1000000
#define IDLE_LONGEST 4

struct idle_gap {
	uint64_t start_ns, length_ns;
	uint64_t part_ns[IDLE_PARTS];
	uint32_t caller; /* the line that launched what ended it, or CALLER_NONE */
};

/* What a line of the program has to do with gaps. */
struct idle_line {
	uint32_t caller, callee; /* CALLER_NONE; callee: not of launches */
	uint64_t count; /* samples, or gaps */
	uint64_t ns;
	uint64_t off_cpu_ns; /* of it: the thread did not run */
};

struct idle_line_list {
	GROUPS(struct idle_line) lines; /* caller << 32 | callee */
	size_t last; /* item that was asked for last: often the next one */
};

struct idle_size {
	uint64_t below_ns; /* and not below that of the size before; UINT64_MAX: no limit */
	uint64_t count, total_ns;
};

struct gpu_idle {
	uint64_t total_ns; /* of all gaps, BEFORE and AFTER included */
	struct idle_size gaps[IDLE_SIZES]; /* between work: without BEFORE and AFTER */
	uint64_t cause_ns[IDLE_CAUSES];
	uint64_t part_ns[IDLE_PARTS];
	uint64_t after_sync, after_copy; /* gaps that began in such a call */
	struct idle_gap longest[IDLE_LONGEST]; /* between work, longest first; length 0: none */
	struct pace pace;
	struct idle_line_list launched; /* gaps by the line that launched what ended them */
};

struct idle {
	struct gpu_idle *gpus; /* as in struct gpus */
	size_t count;
};

/*
 * A gap between work, and the call (a row of api_call, or TRACE_NO_ROW) that launched what ended
 * it.
 */
struct idle_visit {
	uint64_t start_ns, end_ns;
	uint32_t process, call;
};

/*
 * Visits the gaps of one GPU in order of time. `visit` returns 0, or a negative code that ends the
 * walk and is returned. 0, -ENOMEM, or that code.
 */
int idle_gaps(const struct gpus *gpus, const struct selection *s, const struct calls *calls,
	      size_t gpu, int (*visit)(void *user, const struct idle_visit *gap),
	      void *user) MUST_USE;

/* The line of a list; NULL: no memory. */
struct idle_line *idle_line_at(struct idle_line_list *list, uint32_t caller,
			       uint32_t callee) MUST_USE;

/* "host", "launch" …: stable, for JSON. */
const char *idle_cause_name(unsigned cause);

#endif
