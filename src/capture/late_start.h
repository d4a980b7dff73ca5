/*
 * late_start.h: sessions that start by themselves, some time after the library was loaded. A new
 * process is recorded when it has used so much CPU time: the many that do little, end soon, or
 * become another program cost next to nothing.
 */
#ifndef PITOT_CAPTURE_LATE_START_H
#define PITOT_CAPTURE_LATE_START_H

#include <stdbool.h>

/*
 * The library was loaded: a session starts soon if the environment asks for that (setting
 * `preload`).
 */
void late_start_loaded(void);
/* That was so, here or in the process that this one was forked from. */
bool late_start_is_preloaded(void);

/*
 * Starts one on a thread of its own: nothing that a process without CUDA does would bring us back.
 */
void late_start(void);
bool late_start_is_pending(void);
/* An exit waits, not for long, for one that is just starting: half of it would have no end. */
void late_start_wait(void);
/* In the child of a fork. */
void late_start_forget(void);

#endif
