/*
 * failures.h: calls of CUDA that returned an error, by function, error and calling line, and
 * whether an error ended the GPU context: then every later call returns it, whoever caused it.
 * Nested calls count once; "not ready" is an answer, and no failure.
 */
#ifndef PITOT_ANALYSIS_FAILURES_H
#define PITOT_ANALYSIS_FAILURES_H

#include "analysis/report.h"

struct failure {
	uint32_t process;
	uint32_t function; /* row of api_function */
	uint32_t caller; /* CALLER_NONE: unknown */
	uint32_t result; /* CUresult or cudaError_t: their values agree */
	uint64_t count;
	uint64_t first_ns;
};

struct failures {
	struct failure *items; /* by first_ns */
	size_t count;
	uint64_t calls;
	size_t fatal; /* the item that first told that the context failed; count: it did not */
	/* kernel launched last before that: row of kernel_config, or TRACE_NO_ROW */
	uint32_t last_config;
	uint64_t last_launches; /* launches of a kernel of that name until then */
};

/* "CUDA_ERROR_ILLEGAL_ADDRESS", or NULL for codes that are not known. */
const char *failure_name(uint32_t result);
/* Whether the context cannot be used any more. */
bool failure_is_fatal(uint32_t result);

#endif
