/*
 * failures.h: CUDA calls that returned an error, by function, error and calling line, and whether
 * an error was fatal for the GPU context: every later call then returns that error, whatever caused
 * it. Nested calls count once; "not ready" is not a failure.
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
	size_t fatal; /* index of the first item whose error is fatal; count: none */
	/* the kernel that was launched last before it: row of kernel_config, or TRACE_NO_ROW */
	uint32_t last_config;
	uint64_t last_launches; /* number of launches of that kernel until then; else of all */
	bool has_no_record; /* of what was launched last: its kernel is not known */
	uint32_t last_caller; /* then: the line of that launch, or CALLER_NONE */
	uint32_t last_name; /* then: string with its kernel's name, or TRACE_NO_ROW */
};

/* "CUDA_ERROR_ILLEGAL_ADDRESS", or NULL for unknown codes. */
const char *failure_name(uint32_t result);
/* Whether the error makes the context unusable. */
bool failure_is_fatal(uint32_t result);

#endif
