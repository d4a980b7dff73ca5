/* helper_thread.h: threads of ours inside somebody else's process. */
#ifndef PITOT_BASE_HELPER_THREAD_H
#define PITOT_BASE_HELPER_THREAD_H

#include <stdbool.h>

#include "base/compiler.h"

/*
 * Starts a detached thread that gets none of the program's signals, and is known when this returns.
 * 0 or a negative errno.
 */
int helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes) MUST_USE;

/* How many such threads run in this process. */
unsigned helper_threads(void);
bool helper_thread_is(uint32_t tid);
/* CPU time of all such threads; a thread that has ended still counts. */
uint64_t helper_threads_cpu_ns(void);

/* In the child of a fork, which has none of them. */
void helper_threads_after_fork(void);

#endif
