/*
 * late_start.h: sessions that start by themselves, some time after the library was loaded. A new
 * process is recorded once it has used some CPU time (WARMUP_CPU_NS), so that the many processes
 * that do little, end soon or exec another program cost next to nothing.
 */
#ifndef PITOT_CAPTURE_LATE_START_H
#define PITOT_CAPTURE_LATE_START_H

#include <stdbool.h>

/*
 * Calls `start` after the warm-up, on a separate thread: a process without CUDA makes no call
 * that would enter the recorder.
 */
void late_start(void (*start)(void));
bool late_start_is_pending(void);
/* Called at exit: waits briefly for a session that is starting, so that it can be completed. */
void late_start_wait(void);
/* Called in the child of a fork. */
void late_start_after_fork(void);

#endif
