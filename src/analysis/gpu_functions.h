/*
 * gpu_functions.h: GPU time by the function that asked for it: kernels, copies and memory sets, by
 * the stacks of the calls that launched them. A function's self time is of work that it launched
 * without another function in between but CUDA's; its total time, of all that it or what it called
 * launched: of a model, its tree of modules.
 */
#ifndef PITOT_ANALYSIS_GPU_FUNCTIONS_H
#define PITOT_ANALYSIS_GPU_FUNCTIONS_H

#include "analysis/function_times.h"
#include "analysis/report.h"

struct gpu_functions {
	struct function_times functions; /* by total, then self */
	uint64_t total_ns; /* of the work that has times */
	uint64_t stackless_ns; /* whose launch has no stack */
};

#endif
