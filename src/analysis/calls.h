/*
 * calls.h: the columns of api_call as analyses want them, and which call launched each piece of
 * work.
 */
#ifndef PITOT_ANALYSIS_CALLS_H
#define PITOT_ANALYSIS_CALLS_H

#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "trace/events.h"

struct calls {
	uint64_t rows;
	const uint64_t *start_ns, *end_ns;
	const uint32_t *functions, *threads; /* functions: rows of api_function or TRACE_NO_ROW */
	const uint8_t *function_kinds; /* of rows of api_function: enum api_kind */
	uint64_t function_count;
	/* --api all: there are calls of other kinds than those that are always watched */
	bool has_all;
	/* by enum gpu_work: row of api_call for each row of the table; NULL: empty table */
	const uint32_t *launches[GPU_WORK_KINDS];
};

#define CALLS_COLUMNS COLUMN_BITS(api_call, start_ns, end_ns, function, thread)

/*
 * Joins the work with its calls: before other columns are loaded, because that takes 12 bytes a
 * call and 8 a row that it gives back. 0 or a negative code.
 */
int calls_join(struct trace *t, struct error *e) MUST_USE;

/*
 * Loads the columns, api_function and the joins. 0 or a negative code. Everything in *out belongs
 * to the trace.
 */
int calls_load(struct trace *t, struct calls *out, struct error *e) MUST_USE;

/* How many calls launched kernels or graphs; loads what that takes. 0 or a negative code. */
int calls_count_launches(struct trace *t, uint64_t *count, struct error *e) MUST_USE;

static inline uint32_t calls_launch(const struct calls *c, enum gpu_work work, uint64_t row)
{
	return c->launches[work] ? c->launches[work][row] : TRACE_NO_ROW;
}

/*
 * Whether the selection wants a row of GPU work, and it has times. With a choice of kernels no
 * copies are wanted.
 */
static inline bool calls_want(const struct calls *c, const struct selection *s,
			      const struct event_columns *e, enum gpu_work work, uint64_t row)
{
	return event_is_timed(e, row) && selection_has_time(s, true, e->start_ns[row]) &&
	       selection_has_place(s, e->device[row], e->stream[row]) &&
	       selection_has_call(s, calls_launch(c, work, row)) &&
	       (!s->configs || (work == GPU_WORK_kernel &&
				selection_has_config(s, kernel_columns(s->trace)->config[row])));
}

static inline enum api_kind calls_kind(const struct calls *c, uint64_t row)
{
	return c->functions[row] < c->function_count
		       ? (enum api_kind)c->function_kinds[c->functions[row]]
		       : api_kind_other;
}

/* The call, if its times are known; else TRACE_NO_ROW. */
static inline uint32_t calls_timed(const struct calls *c, uint32_t call)
{
	return call != TRACE_NO_ROW && calls_kind(c, call) != api_kind_untimed ? call
									       : TRACE_NO_ROW;
}

/*
 * Name of the function without the version that CUPTI appends: "cudaLaunchKernel", length in
 * *length.
 */
const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length);

enum call_role {
	CALLS_ANY,
	CALLS_WAIT, /* for the GPU: synchronizing ones, and copies that are not asynchronous */
	CALLS_WAIT_OR_COPY, /* synchronizing ones, and all that copy or set */
	CALLS_LAUNCH, /* kernels or graphs */
};

/*
 * A runtime function calls driver functions; where both have the role, only the outermost counts.
 * Visits the outermost calls in order of process and start: with a selection, those of its
 * processes that begin in its window; NULL: all of the trace. `visit` returns 0, or a negative code
 * that ends the walk and is returned. 0, -ENOMEM, or that code.
 */
int calls_visit(const struct trace *t, const struct selection *s, const struct calls *c,
		enum call_role role, int (*visit)(void *user, uint32_t process, uint32_t row),
		void *user) MUST_USE;

/* Wanted pieces of GPU work with times: process by process, and in each table by table. */
struct work_walk {
	const struct calls *calls;
	const struct selection *selection;
	struct event_columns columns; /* of the table of `work` */
	unsigned skipped; /* kinds of work to leave out, as bits */
	enum gpu_work work;
	uint32_t process;
	uint64_t row;
	uint64_t next_row, end;
	uint32_t next_table; /* table and process to be walked next */
	uint32_t call; /* that launched the row, or TRACE_NO_ROW */
	uint64_t ns; /* the row's duration */
};

static inline struct work_walk work_walk(const struct calls *c, const struct selection *s)
{
	return (struct work_walk){ .calls = c, .selection = s };
}

bool work_walk_next(struct work_walk *w);

#endif
