/*
 * remote_filter.h: what the seccomp filters of a thread do to the recorder, which would run in its
 * process with the same filters.
 *
 * Filters are programs of classic BPF, which the OS kernel shows to root outside of containers. A
 * filter may look at the arguments of a call, which are not known before: then it may do all that
 * it does for some arguments.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_FILTER_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_FILTER_H

#include <linux/filter.h>
#include <sys/types.h>

#include "base/error.h"

/* From good to bad. */
enum filter_action {
	FILTER_ALLOWS,
	FILTER_REFUSES, /* the call returns an error */
	FILTER_ASKS, /* another process decides */
	FILTER_ENDS, /* the program, by SIGSYS or at once */
};

struct filter_verdict {
	enum filter_action best, worst;
};

/* What a filter may do for a system call of this processor. Any bytes are safe. */
struct filter_verdict filter_judge(const struct sock_filter *filter, size_t count, uint32_t call);

/*
 * Whether the recorder can be loaded in the place of a thread, which ptrace has stopped. Returns 0,
 * or a negative code; *e says why not, and what to do.
 */
int remote_filter_check(pid_t pid, pid_t tid, struct error *e) MUST_USE;

#endif
