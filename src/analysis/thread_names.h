/*
 * thread_names.h: what threads are called: of a thread the last name; what a process says of itself
 * counts more than what a sampler saw.
 */
#ifndef PITOT_ANALYSIS_THREAD_NAMES_H
#define PITOT_ANALYSIS_THREAD_NAMES_H

#include "base/map.h"
#include "trace/trace.h"

struct thread_names {
	const struct trace *trace;
	struct map names; /* process << 32 | thread -> string id */
};

/* Table thread must be loaded. 0 or -ENOMEM; released in any case. */
int thread_names_init(struct thread_names *n, const struct trace *t) MUST_USE;
void thread_names_release(struct thread_names *n);
/* Name of a thread, or "". */
const char *thread_name(const struct thread_names *n, size_t process, uint32_t thread);

#endif
