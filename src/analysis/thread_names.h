/*
 * thread_names.h: names of threads. The last name wins; names from the process itself take
 * precedence over names that a sampler read from outside.
 */
#ifndef PITOT_ANALYSIS_THREAD_NAMES_H
#define PITOT_ANALYSIS_THREAD_NAMES_H

#include "base/map.h"
#include "trace/trace.h"

struct thread_names {
	const struct trace *trace;
	struct map names; /* process << 32 | thread -> string id */
};

/* Table thread must be loaded. 0 or -ENOMEM; release *n in either case. */
int thread_names_init(struct thread_names *n, const struct trace *t) MUST_USE;
void thread_names_release(struct thread_names *n);
/* Name of a thread, or "". */
const char *thread_name(const struct thread_names *n, size_t process, uint32_t thread);

#endif
