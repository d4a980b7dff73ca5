/*
 * calls.h: columns of api_call for analyses, and the calls that launched each piece of work.
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
	const uint8_t *function_kinds; /* by row of api_function: enum api_kind */
	uint64_t function_count;
	/* --api all: other kinds of calls than the default ones were recorded */
	bool has_all;
	/* by enum gpu_work, then row of that table: row of api_call; NULL: the table is empty */
	const uint32_t *launches[GPU_WORK_KINDS];
};

#define CALLS_COLUMNS COLUMN_BITS(api_call, start_ns, end_ns, function, thread)

/*
 * Joins the work with its calls. Call it before other columns are loaded: it temporarily needs 8
 * bytes per call and per row. 0 or a negative code.
 */
int calls_join(struct trace *t, struct error *e) MUST_USE;

/*
 * Loads the columns, api_function and the joins. The trace owns all arrays. 0 or a negative code.
 */
int calls_load(struct trace *t, struct calls *out, struct error *e) MUST_USE;

/* Counts the calls that launched kernels or graphs; loads what it needs. 0 or a negative code. */
int calls_count_launches(struct trace *t, uint64_t *count, struct error *e) MUST_USE;

static inline uint32_t calls_launch(const struct calls *c, enum gpu_work work, uint64_t row)
{
	return c->launches[work] ? c->launches[work][row] : TRACE_NO_ROW;
}

/*
 * Whether a row of GPU work is selected; timed: its start is known. A kernel filter excludes
 * copies.
 */
static inline bool calls_select(const struct calls *c, const struct selection *s,
				const struct event_columns *e, enum gpu_work work, uint64_t row,
				bool timed)
{
	return selection_has_time(s, timed, e->start_ns[row]) &&
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

/* The call if its times are known, else TRACE_NO_ROW. */
static inline uint32_t calls_timed(const struct calls *c, uint32_t call)
{
	return call != TRACE_NO_ROW && calls_kind(c, call) != api_kind_untimed ? call
									       : TRACE_NO_ROW;
}

/* Function name of *length bytes, without the version that CUPTI appends: "cudaLaunchKernel". */
const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length);

enum call_role {
	CALLS_ANY,
	CALLS_WAIT, /* calls that wait for the GPU: synchronizing calls and synchronous copies */
	CALLS_WAIT_OR_COPY, /* synchronizing calls, all copies and memory sets */
	CALLS_LAUNCH, /* launches of kernels or graphs */
};

/*
 * Visits the calls with a role, in order of process and start. Runtime functions call driver
 * functions: if both have the role, only the outer one is visited. A selection restricts the walk
 * to its processes and to calls that begin in its window; NULL: the whole trace. `visit` returns 0,
 * or a negative code that ends the walk. Returns 0, -ENOMEM, or that code.
 */
int calls_visit(const struct trace *t, const struct selection *s, const struct calls *c,
		enum call_role role, int (*visit)(void *user, uint32_t process, uint32_t row),
		void *user) MUST_USE;

/* Walks over the selected GPU work with times, by process and then by table. */
struct work_walk {
	const struct calls *calls;
	const struct selection *selection;
	struct event_columns columns; /* of the table of `work` */
	unsigned skipped; /* kinds of work to skip, as bits */
	enum gpu_work work;
	uint32_t process;
	uint64_t row;
	uint64_t next_row, end;
	uint32_t next_table; /* next table and process */
	uint32_t call; /* row of api_call that launched the row, or TRACE_NO_ROW */
	uint64_t ns; /* the row's duration */
};

static inline struct work_walk work_walk(const struct calls *c, const struct selection *s)
{
	return (struct work_walk){ .calls = c, .selection = s };
}

bool work_walk_next(struct work_walk *w);

#endif
