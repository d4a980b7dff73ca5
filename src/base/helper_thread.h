/* helper_thread.h: Pitot's own threads inside the target process. */
#ifndef PITOT_BASE_HELPER_THREAD_H
#define PITOT_BASE_HELPER_THREAD_H

#include <stdbool.h>

#include "base/compiler.h"

/*
 * Starts a detached thread with all signals blocked. When this returns, helper_thread_is() knows
 * the thread. Returns 0 or a negative errno.
 */
int helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes) MUST_USE;

/* Returns the number of helper threads that run in this process. */
unsigned helper_threads(void);
bool helper_thread_is(uint32_t tid);
/* Returns the CPU time of all helper threads, including those that have ended. */
uint64_t helper_threads_cpu_ns(void);

/* Must be called in the child of a fork, which has no helper threads. */
void helper_threads_after_fork(void);

#endif
