/* helper_thread.h: threads of ours inside the target. */
#ifndef PITOT_CAPTURE_HELPER_THREAD_H
#define PITOT_CAPTURE_HELPER_THREAD_H

#include "base/compiler.h"

/* Starts a detached thread that gets none of the program's signals. 0 or a negative errno. */
int helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes) MUST_USE;

/* Threads that were started here and have not ended. */
unsigned helper_threads_running(void);
/* In the child of a fork: there are none. */
void helper_threads_after_fork(void);

#endif
