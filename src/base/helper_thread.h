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

/*
 * Gives the calling helper thread a descriptor table of its own, with a copy of `keep` in it and
 * nothing else, so that its descriptors are out of the program's reach, and the program's out of
 * its. Returns false without close_range(2), which is in Linux since 5.9.
 */
bool helper_thread_own_descriptors(int keep);

/* Returns the number of helper threads that run in this process. */
unsigned helper_threads(void);
bool helper_thread_is(uint32_t tid);
/* Returns the CPU time of all helper threads, including those that have ended. */
uint64_t helper_threads_cpu_ns(void);

/*
 * Whether main() has ended by pthread_exit() and only helper threads are left in the process.
 */
bool helper_threads_are_last(void);

/* Must be called in the child of a fork, which has no helper threads. */
void helper_threads_after_fork(void);

#endif
