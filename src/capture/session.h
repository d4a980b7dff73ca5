/*
 * session.h: what is wanted of the recorder, from when to when, for which sink. Any number of
 * sessions, one after the other and at the same time: sources are on for what all of them want, and
 * each sink gets the rows of its session's time.
 *
 * CUDA's injection, NVTX's injection, LD_PRELOAD and pitot_init start the session that the
 * environment asks for; program.h has those that the program asks for.
 */
#ifndef PITOT_CAPTURE_SESSION_H
#define PITOT_CAPTURE_SESSION_H

#include <stdbool.h>

#include "format/writer.h"
#include "schema/settings.h"

enum session_way {
	SESSION_BY_CUDA, /* the driver calls during cuInit: CUPTI may be used now */
	/*
	 * before CUDA, perhaps without it; also for a process that only its CPU time is recorded of
	 */
	SESSION_BY_NVTX,
	SESSION_BY_PROGRAM, /* at any time: CUDA may have been initialized long before */
};

struct session;

/*
 * Opens a session of its own: beside others, or as the first, which starts the recorder's threads.
 * `sink` takes the rows and is the session's from then on; NULL: a recording in
 * settings->directory, which exists, if that is not "". With settings->log_path gpufl's logs are
 * written, too. A sink that comes late gets what the writer keeps of the time before (process,
 * threads, modules, devices, contexts, streams …), and then rows that begin after it was opened.
 * Sources are on for what it wants when this returns, unless a GPU hangs; they may give it more
 * than its settings want, because another session wants that.
 *
 * NULL: no memory or no thread, the recording cannot be written (the log says why), or the recorder
 * is being started by this very thread; `sink` has been abandoned then. Thread-safe; takes as long
 * as its sources' start, milliseconds.
 */
struct session *session_open(const struct settings *settings, struct sink *sink,
			     enum session_way way) MUST_USE;

/*
 * A recording in settings->directory, which exists, as a sink; NULL: *e says why not.
 */
struct sink *session_recording(const struct settings *settings, struct error *e) MUST_USE;

/*
 * Ends it in order and frees it: its sink has everything and is closed. Beside others that takes a
 * quarter of a second, and work that has not ended by then is not in it; the last one stops the
 * recorder. Bounded, two seconds at most; thread-safe. *s may be NULL, and is afterwards.
 */
void session_close(struct session **s);

/*
 * Arms an engine (SETTING_ENGINE_) beside what a running session has, for a window of delay and
 * duration (0: none) that counts from now; a session of NULL is the environment's, an engine of
 * TRACE ends what is armed. The engine's other settings are the session's. Without a delay what
 * happens from the return on is in it, or not any more. 0; 1: something of it is missing, and *e
 * says what; negative: it is not armed. Thread-safe; takes milliseconds, or half a second where a
 * GPU hangs.
 */
int session_arm(struct session *s, int engine, uint64_t delay_ns, uint64_t duration_ns,
		struct error *e) MUST_USE;

/*
 * Starts the session if the environment asks for a recording and it is not running. Returns whether
 * any is running. Thread-safe. Never fails loudly.
 */
bool session_start(enum session_way way);

/* Whether the session that the environment asks for was opened, and not closed. Thread-safe. */
bool session_has_environment(void);

/*
 * Closes the environment's. Nothing of the recorder stays in the program's calls if it was the
 * last. Thread-safe.
 */
void session_stop(void);

/* The process ends: all sessions are completed, nothing else is touched. */
void session_exit(void);

/* --- the collector's side --- */

/*
 * Attaches the sinks of new sessions, opens and closes windows. true: sessions_end is due, after a
 * seal.
 */
bool sessions_follow(uint64_t now_ns, struct writer *w);
/* Closes the sinks of sessions that are to end. */
void sessions_end(struct writer *w);
/* How long the two can wait. */
uint64_t sessions_wait_ns(uint64_t now_ns);
/* Completes all sessions, at the end, and the writer. */
void sessions_close_all(void);

/*
 * In the child of a fork: the parent's session stays the parent's; the child gets one of its own
 * where that is wanted.
 */
void session_after_fork(void);

#endif
