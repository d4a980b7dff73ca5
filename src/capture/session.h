/*
 * session.h: what is wanted of the recorder, from when to when, for which recording. All ways in (CUDA's injection, NVTX's
 * injection, LD_PRELOAD, pitot_init) start the session that the environment asks for; sessions come one after the other.
 */
#ifndef PITOT_CAPTURE_SESSION_H
#define PITOT_CAPTURE_SESSION_H

#include <stdbool.h>

#include "format/writer.h"

enum session_way {
	SESSION_BY_CUDA,    /* the driver calls during cuInit: CUPTI may be used now */
	SESSION_BY_NVTX,    /* before CUDA, perhaps without it; also for a process that only its CPU time is recorded of */
	SESSION_BY_PROGRAM, /* at any time: CUDA may have been initialized long before */
};

/*
 * Starts the session if the environment asks for a recording and none is running. Returns whether one is running. Thread-safe.
 * Never fails loudly.
 */
bool session_start(enum session_way way);

/* The library was loaded: a session starts soon if the environment asks for that (setting `preload`). */
void session_preloaded(void);

/* Ends it in order within a bounded time; nothing of the recorder stays in the program's calls. Thread-safe. */
void session_stop(void);

/* The same when the process ends: the recording is completed, nothing else is touched. */
void session_exit(void);

/* --- the collector's side --- */

/* Opens and closes windows of which the time has come. */
void sessions_follow(uint64_t now_ns, struct writer *w);
/* How long that can wait. */
uint64_t sessions_wait_ns(uint64_t now_ns);
/* Completes the recordings, at the end. */
void sessions_close_all(struct writer *w);

/* In the child of a fork: the parent's session stays the parent's; the child gets one of its own where that is wanted. */
void session_after_fork(void);

#endif
