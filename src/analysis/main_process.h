/* main_process.h: finds the process whose command is the title of a recording. */
#ifndef PITOT_ANALYSIS_MAIN_PROCESS_H
#define PITOT_ANALYSIS_MAIN_PROCESS_H

#include "trace/trace.h"

/* When the next image of the process began, or the process ended. */
static inline uint64_t image_end_ns(const struct trace *t, const struct trace_process *image)
{
	uint64_t end_ns = image->end_ns;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->pid == image->pid && p->start_ns > image->start_ns)
			end_ns = MIN(end_ns, p->start_ns);
	}
	return end_ns;
}

/*
 * The process with a command that started first, or its outermost ancestor with a command. Of
 * several images (exec) the one that ran longest: `bash -c "exec python train.py"` is Python, and
 * `bash -c "python train.py; ls"` is the shell. NULL: no process has a command.
 */
static inline const struct trace_process *main_process(const struct trace *t)
{
	const struct trace_process *root = NULL, *best = NULL;
	uint64_t best_ns = 0;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (*p->command &&
		    (!root || p->start_ns < root->start_ns || p->pid == root->parent_pid))
			root = p;
	}
	for (size_t i = 0; i < trace_process_count(t) && root; i++) {
		const struct trace_process *p = trace_process(t, i);
		uint64_t end_ns = image_end_ns(t, p);

		if (*p->command && p->pid == root->pid &&
		    (!best || end_ns - p->start_ns > best_ns)) {
			best = p;
			best_ns = end_ns - p->start_ns;
		}
	}
	return best;
}

#endif
