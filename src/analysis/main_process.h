/* main_process.h: the process that speaks for a recording. */
#ifndef PITOT_ANALYSIS_MAIN_PROCESS_H
#define PITOT_ANALYSIS_MAIN_PROCESS_H

#include "trace/trace.h"

/*
 * The process that was there first and has a command; of its images the last: a shell script that
 * ends with `exec python train.py` is that program. NULL: there is none.
 */
static inline const struct trace_process *main_process(const struct trace *t)
{
	const struct trace_process *first = NULL, *last = NULL;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (*p->command && (!first || p->start_ns < first->start_ns))
			first = p;
	}
	for (size_t i = 0; i < trace_process_count(t) && first; i++) {
		const struct trace_process *p = trace_process(t, i);

		if (*p->command && p->pid == first->pid && (!last || p->start_ns > last->start_ns))
			last = p;
	}
	return last;
}

#endif
