/*
 * session.h: the one recording session of a process. All ways in (CUDA's injection, NVTX's injection, pitot_init) end in
 * session_start, all orderly ways out in session_stop.
 */
#ifndef PITOT_CAPTURE_SESSION_H
#define PITOT_CAPTURE_SESSION_H

#include <stdbool.h>

/*
 * Starts the session if the environment asks for a recording and none is running. with_cuda: called by the driver during
 * cuInit, so CUPTI may be used now. Returns whether a session is running. Thread-safe. Never fails loudly.
 */
bool session_start(bool with_cuda);

/* The library was loaded: a session starts soon if the environment asks for that (preload=1). */
void session_start_preloaded(void);

/* Ends it in order within a bounded time. Thread-safe; async-signal-safe as far as the collector is. */
void session_stop(void);

/* In the child of a fork: the parent's session stays the parent's; it gets one of its own where that is wanted. */
void session_after_fork(void);

#endif
