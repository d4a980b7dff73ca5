/*
 * gpu_functions.h: GPU time (kernels, copies, memory sets) by function, from the stacks of the
 * launching calls. Self time is work that the function launched with nothing but CUDA's functions
 * in between; total time includes the functions that it called. For a model this reads as its tree
 * of modules.
 */
#ifndef PITOT_ANALYSIS_GPU_FUNCTIONS_H
#define PITOT_ANALYSIS_GPU_FUNCTIONS_H

#include "analysis/function_times.h"
#include "analysis/report.h"

struct gpu_functions {
	struct function_times functions; /* by total, then self */
	uint64_t total_ns; /* of all work with times */
	uint64_t stackless_ns; /* of work whose launch has no stack */
};

#endif
