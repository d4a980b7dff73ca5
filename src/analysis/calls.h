/*
 * calls.h: the columns of api_call as analyses want them, and which call launched each piece of
 * work.
 */
#ifndef PITOT_ANALYSIS_CALLS_H
#define PITOT_ANALYSIS_CALLS_H

#include "analysis/gpus.h"

struct calls {
	uint64_t rows;
	const uint64_t *start_ns, *end_ns;
	const uint32_t *functions, *threads; /* functions: rows of api_function or TRACE_NO_ROW */
	const uint8_t *function_kinds; /* of rows of api_function: enum api_kind */
	uint64_t function_count;
	bool has_all; /* --api all: there are calls of other kinds than those that are always watched */
	/* by enum gpu_work: row of api_call for each row of the table; NULL: empty table */
	const uint32_t *launches[GPU_WORK_KINDS];
};

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

static inline enum api_kind calls_kind(const struct calls *c, uint64_t row)
{
	return c->functions[row] < c->function_count
		       ? (enum api_kind)c->function_kinds[c->functions[row]]
		       : api_kind_other;
}

/*
 * Name of the function without the version that CUPTI appends: "cudaLaunchKernel", length in
 * *length.
 */
const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length);

enum call_role {
	CALLS_WAIT, /* for the GPU: synchronizing ones, and copies that are not asynchronous */
	CALLS_WAIT_OR_COPY, /* synchronizing ones, and all that copy or set */
	CALLS_LAUNCH, /* kernels or graphs */
};

/*
 * One byte a row of api_function, and one more for unknown ones: whether its calls have the role.
 * To be freed; NULL: no memory.
 */
uint8_t *calls_with_role(const struct trace *t, const struct calls *c, enum call_role role);

/*
 * A runtime function calls driver functions; where both are recorded, only the outermost counts.
 * Visits the outermost calls of a process in order of their start. `visit` returns 0, or a negative
 * code that ends the walk and is returned.
 */
int calls_outermost(const struct trace *t, const struct calls *c, size_t process,
		    const uint8_t *functions, int (*visit)(void *user, uint32_t row),
		    void *user) MUST_USE;

#endif
