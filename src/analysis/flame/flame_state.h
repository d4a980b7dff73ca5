/* flame_state.h: builder of flame graphs, shared by the files that add the kinds of time. */
#ifndef PITOT_ANALYSIS_FLAME_FLAME_STATE_H
#define PITOT_ANALYSIS_FLAME_FLAME_STATE_H

#include "analysis/calls.h"
#include "analysis/flame/flame.h"
#include "analysis/graph_stacks.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/thread_names.h"

/* Device and stream on which a call's work ran or for which it waited; UINT32_MAX: unknown. */
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
	uint8_t *scopes; /* by path: selected; NULL: all */
	struct graph_stacks captures; /* if options->captures */
	bool ranges_ready, gpus_ready, captures_ready;
	bool several; /* more than one process has GPU work */
	const uint32_t *stack_ids; /* of api_call */
	const uint8_t *stack_valid;
	struct call_place *places; /* by row of api_call; NULL: not needed */
	struct map prefixes; /* cache of nodes: base << 32 | row of stack_node -> node */
	struct map levels[FLAME_LEVELS]; /* key of a level -> frame */
	struct thread_names threads;
	/* process << 32 | tid -> frame, for calls and samples without a stack */
	struct map thread_frames;
	struct map function_frames; /* by row of api_function */
	uint32_t ends[STACK_ENDS]; /* by enum stack_end: frame of the note */
	VEC(uint32_t) climb;
};

/* Properties of an event that decide its levels. UINT32_MAX: unknown. */
struct flame_event {
	size_t process; /* flame_process */
	uint32_t thread, device, stream;
	uint32_t scope; /* path of the innermost scope, or SCOPE_NONE */
};

/*
 * The functions below find or add a node and return it; FLAME_NONE: out of memory. A base is the
 * node of an event's levels, below its section.
 */
uint32_t flame_base(struct flame_builder *b, enum flame_kind kind,
		    const struct flame_event *event) MUST_USE;
/* Node of a CUDA call, below its stack. */
uint32_t flame_call(struct flame_builder *b, uint32_t base, size_t process, uint32_t call) MUST_USE;
/* Node of a stack of a process; without a stack (0): of its thread, and *stackless is increased. */
uint32_t flame_sample(struct flame_builder *b, uint32_t base, size_t process, uint32_t stack,
		      uint32_t thread, uint64_t *stackless) MUST_USE;

/*
 * Node of the stack that captured a graph node, without the CUDA libraries at its inner end.
 * FLAME_NOT_CAPTURED: the stack is not recorded.
 */
#define FLAME_NOT_CAPTURED (FLAME_NONE - 1)
uint32_t flame_capture(struct flame_builder *b, uint32_t base, size_t process,
		       uint32_t stack) MUST_USE;

/* Adds an event's time to a node and to the totals of its kind. 0, or -ENOMEM for FLAME_NONE. */
int flame_add_time(struct flame_builder *b, enum flame_kind kind, uint32_t node,
		   uint64_t ns) MUST_USE;

/* Adds all GPU work. 0 or a negative code. */
int flame_add_gpu(struct flame_builder *b, struct error *e) MUST_USE;
/* Adds calls that waited or launched, depending on the kind. 0 or -ENOMEM. */
int flame_add_calls(struct flame_builder *b, enum flame_kind kind) MUST_USE;
/* Adds CPU samples or times off the CPU, depending on the kind. 0 or a negative code. */
int flame_add_samples(struct flame_builder *b, enum flame_kind kind, struct error *e) MUST_USE;
/* Adds kernel samples. 0 or a negative code. */
int flame_add_stalls(struct flame_builder *b, struct error *e) MUST_USE;
/* Adds memory. 0 or a negative code. */
int flame_add_memory(struct flame_builder *b, struct error *e) MUST_USE;
/* Loads what flame_launch needs. 0 or a negative code. */
int flame_load_work(struct flame_builder *b, struct error *e) MUST_USE;
/*
 * Node of the stack that launched a row of GPU work, from its call (or TRACE_NO_ROW) or, of a graph
 * node, from its capture. Missing stacks are counted in the section of the kind.
 */
uint32_t flame_launch(struct flame_builder *b, enum flame_kind kind, const struct event_columns *c,
		      size_t process, uint64_t row, uint32_t base, uint32_t call) MUST_USE;
#define FLAME_NO_LAUNCH "[no launch]"
/* Node of work without a launch. */
uint32_t flame_unmatched(struct flame_builder *b, uint32_t base) MUST_USE;
/* Frame of a kernel with this mangled name; FLAME_NONE: out of memory. */
uint32_t flame_kernel_frame(struct flame_builder *b, const char *name) MUST_USE;
/* Frame with a text, and a name for tools or NULL; FLAME_NONE: out of memory. */
uint32_t flame_text_frame(struct flame_builder *b, enum frame_class class,
			  const struct strbuf *text, const char *system_name) MUST_USE;
/* Finds where the work of each call ran, for the levels of calls. 0 or a negative code. */
int flame_places_init(struct flame_builder *b, struct error *e) MUST_USE;

/* Maps a sampler's view of a process to the process itself. */
static inline size_t flame_process(const struct flame_builder *b, size_t process)
{
	return trace_process(b->trace, process)->subject;
}

/* Event properties that are known from its call (row of api_call or TRACE_NO_ROW). */
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

static inline bool flame_selects(const struct flame_builder *b, enum table_id table, uint64_t row,
				 bool timed, uint64_t start_ns)
{
	const struct flame_options *o = b->options;
	bool windowed = o->since_ns || o->until_ns != UINT64_MAX;

	if (timed ? start_ns < o->since_ns || start_ns >= o->until_ns : windowed)
		return false;
	return !o->select || o->select(o->user, table, row);
}

#endif
