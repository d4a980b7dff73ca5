/*
 * cpu_use.h: CPU time from samples, by thread, by function, and by line of the program.
 *
 * The weight of each sample counts as `self` of its innermost function and, once, as `total` of
 * every function on its stack. Lines and their callees are those of callers.h; a sample has at most
 * one line, so lines and samples without a stack add up to all CPU time.
 */
#ifndef PITOT_ANALYSIS_CPU_USE_H
#define PITOT_ANALYSIS_CPU_USE_H

#include "analysis/callers.h"
#include "analysis/capabilities.h"
#include "analysis/filter.h"
#include "analysis/function_times.h"

struct cpu_thread {
	uint32_t process; /* trace_process.subject: the process as its own recorder saw it */
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
	uint64_t inside_ns; /* sampled by a timer inside the process */
	uint64_t kernel_ns; /* the innermost frame is in the operating system's kernel */
	uint64_t pauses, pause_ns; /* rows of off_cpu */
	uint64_t *kernel_by_process; /* kernel_ns by cpu_thread.process */
	size_t processes;
	struct cpu_thread *threads; /* by time, descending */
	size_t thread_count;
	struct function_times functions; /* by self, then total */
	struct cpu_line *lines; /* by time */
	size_t line_count;
	struct capability_note sampling; /* how the CPU was sampled */
	struct capability_note python; /* Python frames, if they were read from outside */
	struct capability_note symbols; /* files whose functions have no names */
};

#endif
