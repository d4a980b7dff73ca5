/*
 * cpu_use.h: where CPU time went, from samples: by process and thread, by function, and by the line
 * of the program.
 *
 * Each sample stands for its weight. It is the `self` of its innermost function and in the `total`
 * of every function of its stack, once. Lines are those of callers.h, with what they called; each
 * sample has at most one, so lines and samples without a stack sum up to all CPU time.
 */
#ifndef PITOT_ANALYSIS_CPU_USE_H
#define PITOT_ANALYSIS_CPU_USE_H

#include "analysis/callers.h"
#include "analysis/capabilities.h"
#include "analysis/filter.h"
#include "analysis/function_times.h"

struct cpu_thread {
	uint32_t process; /* the one that the recorder was inside of, where there is one */
	uint32_t thread;
	uint64_t samples, total_ns;
};

struct cpu_line {
	uint32_t caller, callee; /* CALLER_NONE */
	uint64_t samples, total_ns;
};

struct cpu_use {
	uint64_t samples, total_ns;
	uint64_t stackless, stackless_ns; /* samples without a stack */
	uint64_t inside_ns; /* by a timer inside the process */
	uint64_t kernel_ns; /* innermost frame in the operating system's kernel */
	uint64_t pauses, pause_ns; /* rows of off_cpu */
	uint64_t *kernel_by_process; /* kernel_ns by the processes that threads belong to */
	size_t processes;
	struct cpu_thread *threads; /* by time, most first */
	size_t thread_count;
	struct function_times functions; /* by self, then total */
	struct cpu_line *lines; /* by time */
	size_t line_count;
	struct capability_note way; /* how it was sampled */
	struct capability_note python; /* Python frames, where they were read from outside */
};

#endif
