/* flame_build.h: what adds a recording up to a flame graph: shared by the files that do. */
#ifndef PITOT_ANALYSIS_FLAME_FLAME_BUILD_H
#define PITOT_ANALYSIS_FLAME_FLAME_BUILD_H

#include "analysis/calls.h"
#include "analysis/flame/flame.h"
#include "analysis/graph_stacks.h"
#include "analysis/scope_paths.h"
#include "analysis/thread_names.h"

#define FLAME_PREFIXES 16 /* bases with an array of their own */

/* Where a call's work ran, or what it waited for; UINT32_MAX: unknown. */
struct call_place {
	uint32_t device, stream;
};

struct flame_builder {
	struct flame *flame;
	struct trace *trace;
	const struct flame_options *options;
	struct calls calls;
	struct gpus gpus;
	struct nvtx_ranges ranges;
	uint8_t *scopes; /* by path: wanted; NULL: all */
	struct graph_stacks captures; /* if wanted */
	bool ranges_ready, gpus_ready, captures_ready;
	bool several; /* processes have work on GPUs */
	const uint32_t *stack_ids; /* of api_call */
	const uint8_t *stack_valid;
	struct call_place *places; /* by row of api_call; NULL: not needed */
	/* by base and row of stack_node: the node of the tree, 0: not met yet */
	struct flame_prefixes {
		uint32_t base; /* 0: free */
		uint32_t *nodes; /* by row */
	} prefixes[FLAME_PREFIXES];
	struct map
		other_prefixes; /* of bases that found no place there: base << 32 | row -> node */
	struct map levels[FLAME_LEVELS]; /* key of a level -> frame */
	struct thread_names threads;
	/* process << 32 | tid -> frame, for calls and samples without a stack */
	struct map thread_frames;
	uint32_t *
		function_frames; /* by row of api_function, and one more: FLAME_NONE until needed */
	uint32_t ends[STACK_ENDS]; /* frames of enum stack_end */
	VEC(uint32_t) climb;
};

/* What happened where: what levels are made of. UINT32_MAX: unknown. */
struct flame_event {
	size_t process; /* flame_process */
	uint32_t thread, device, stream;
	uint32_t scope; /* path of the innermost, or SCOPE_NONE */
};

/* Below node 0 and the section: the node of the levels. FLAME_NONE: no memory. */
uint32_t flame_base(struct flame_builder *b, enum flame_kind kind,
		    const struct flame_event *event) MUST_USE;
/* Below a base: the node of the call of CUDA, under its stack. FLAME_NONE: no memory. */
uint32_t flame_call(struct flame_builder *b, uint32_t base, size_t process, uint32_t call) MUST_USE;
/*
 * Below a base: the node of a stack of a process (stack 0: none), or of its thread where there is
 * none, which is counted. FLAME_NONE: no memory.
 */
uint32_t flame_sample(struct flame_builder *b, uint32_t base, size_t process, uint32_t stack,
		      uint32_t thread, uint64_t *stackless) MUST_USE;

/*
 * The same for the stack that captured a node of a graph, without the libraries behind the call.
 * FLAME_NOT_CAPTURED: there is no such stack.
 */
#define FLAME_NOT_CAPTURED (FLAME_NONE - 1)
uint32_t flame_capture(struct flame_builder *b, uint32_t base, size_t process,
		       uint32_t stack) MUST_USE;

/* Adds an event's time to a node and to what its kind has in all. 0, or -ENOMEM for FLAME_NONE. */
int flame_book(struct flame_builder *b, enum flame_kind kind, uint32_t node, uint64_t ns) MUST_USE;

/* Adds all work that ran on GPUs. 0 or a negative code. */
int flame_add_gpu(struct flame_builder *b, struct error *e) MUST_USE;
/* Adds calls that waited, or launched. 0 or -ENOMEM. */
int flame_add_calls(struct flame_builder *b, enum flame_kind kind) MUST_USE;
/* Adds samples, or times off the CPU. 0 or a negative code. */
int flame_add_samples(struct flame_builder *b, enum flame_kind kind, struct error *e) MUST_USE;
/* Adds samples of kernels. 0 or a negative code. */
int flame_add_stalls(struct flame_builder *b, struct error *e) MUST_USE;
/* Loads what the three below need. 0 or a negative code. */
int flame_load_work(struct flame_builder *b, struct error *e) MUST_USE;
/*
 * Below a base: the node of the stack that asked for a row of GPU work, by its call (or
 * TRACE_NO_ROW) or its capture. What is missing is counted in the section of the kind. FLAME_NONE:
 * no memory.
 */
uint32_t flame_launch(struct flame_builder *b, enum flame_kind kind, const struct event_columns *c,
		      size_t process, uint64_t row, uint32_t base, uint32_t call) MUST_USE;
#define FLAME_NO_LAUNCH "[no launch]"
/* Below a base: the node of what has no launch. FLAME_NONE: no memory. */
uint32_t flame_unmatched(struct flame_builder *b, uint32_t base) MUST_USE;
/* The frame of a kernel, by the name that the compiler made; -ENOMEM. */
int64_t flame_kernel_frame(struct stacks *s, const char *name) MUST_USE;
/* Finds out where the work of calls ran, for levels of calls. 0 or a negative code. */
int flame_places_init(struct flame_builder *b, struct error *e) MUST_USE;

/* A process that was sampled from outside is the one that the recorder was inside of. */
static inline size_t flame_process(const struct flame_builder *b, size_t process)
{
	return trace_process(b->trace, process)->of;
}

/* What a call (a row of api_call, or TRACE_NO_ROW) says about an event. */
static inline struct flame_event flame_event_of(const struct flame_builder *b, size_t process,
						uint32_t call)
{
	bool known = call != TRACE_NO_ROW;

	return (struct flame_event){
		.process = flame_process(b, process),
		.thread = known ? b->calls.threads[call] : UINT32_MAX,
		.device = UINT32_MAX,
		.stream = UINT32_MAX,
		.scope = nvtx_path_of_call(&b->ranges, call),
	};
}

static inline bool flame_wants(const struct flame_builder *b, enum table_id table, uint64_t row,
			       bool timed, uint64_t start_ns)
{
	const struct flame_options *o = b->options;
	bool windowed = o->since_ns || o->until_ns != UINT64_MAX;

	if (timed ? start_ns < o->since_ns || start_ns >= o->until_ns : windowed)
		return false;
	return !o->wanted || o->wanted(o->user, table, row);
}

#endif
