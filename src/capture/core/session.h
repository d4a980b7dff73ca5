/*
 * session.h: a session is one request to the recorder: what to record, in which window, into which
 * sinks. Sessions can follow one another and overlap, in any number: a source is on if any of them
 * needs it, and each sink gets the rows of its session's window.
 *
 * The injection of a GPU's runtime, NVTX's injection, LD_PRELOAD and pitot_init start the session
 * that the environment requests; program.h opens those that the program requests.
 */
#ifndef PITOT_CAPTURE_SESSION_H
#define PITOT_CAPTURE_SESSION_H

#include <stdbool.h>

#include "format/writer.h"
#include "schema/settings.h"
#include "vendor/vendors.h"

enum session_trigger {
	/* before a GPU is used, or without one; also if only CPU time is recorded */
	SESSION_BY_NVTX,
	SESSION_BY_PROGRAM, /* at any time: a runtime may have been initialized long before */
/* SESSION_BY_<vendor>: while its runtime is initialized, it calls; its profiler may be used now */
#define SESSION_BY(vendor, sources) SESSION_BY_##vendor,
	VENDORS(SESSION_BY, )
#undef SESSION_BY
};

/* Returns the bits of the vendors whose profilers a trigger lets us use. */
static inline unsigned session_vendors(enum session_trigger trigger)
{
	return trigger == SESSION_BY_NVTX      ? 0
	       : trigger == SESSION_BY_PROGRAM ? VENDOR_ALL_BITS
					       : 1u << (trigger - SESSION_BY_PROGRAM - 1);
}

struct session;

/*
 * Opens a session, beside others or as the first, which starts the recorder's threads.
 * `sink` receives the rows and belongs to the session from then on; NULL: a recording in
 * settings->directory, which must exist, unless that is "". The settings may name more (sinks.h). A
 * sink that is attached late gets the rows that the writer retains from before (process, threads,
 * modules, devices, contexts, streams …), and then rows that begin after the session was opened. On
 * return the sources that it needs are on, unless a GPU hangs; they may deliver more than its
 * settings request, because another session requests it.
 *
 * NULL: no memory or no thread, the recording cannot be written (the log says why), this very
 * thread is starting the recorder, or a GPU that hangs keeps the recorder from ending; `sink` has
 * been abandoned then. Thread-safe; takes as long as its sources take to start, milliseconds.
 */
struct session *session_open(const struct settings *settings, struct sink *sink,
			     enum session_trigger trigger) MUST_USE;

/*
 * Ends a session in order and frees it: its sinks have all their rows and are closed. Beside other
 * sessions that takes a quarter of a second, and work that has not ended by then is left out;
 * closing the last session stops the recorder. Takes at most two seconds, after which a disk or a
 * GPU that hangs goes on by itself. Thread-safe: several end side by side, and nothing else waits
 * for them. *s may be NULL, and is NULL afterwards. Returns 0, -ETIMEDOUT if it has not ended, or
 * the negative errno with which a sink has lost rows.
 */
int session_close(struct session **s);

/*
 * Arms an engine (SETTING_ENGINE_) in addition to what a running session records, for a window that
 * begins delay_ns from now and lasts duration_ns (0: no limit). Session NULL means the
 * environment's; engine TRACE disarms the armed one. The engine's other settings are the session's.
 * Without a delay the window begins, or ends, when this returns. Returns 0; 1 if some of it is
 * missing, which *e explains; negative if it is not armed. Thread-safe; takes milliseconds, or half
 * a second where a GPU hangs.
 */
int session_arm(struct session *s, int engine, uint64_t delay_ns, uint64_t duration_ns,
		struct error *e) MUST_USE;

/*
 * Whether a session was opened without the engine that it requests; *e says why. NULL: the
 * environment's session. Thread-safe.
 */
bool session_missing(const struct session *s, struct error *e);

/*
 * Starts the session if the environment requests a recording and it is not running. Returns whether
 * any session is running. Thread-safe. Never fails loudly.
 */
bool session_start(enum session_trigger trigger);

/*
 * Called when the library was loaded: the environment's session starts soon if the setting
 * `preload` requests that (late_start.h).
 */
void session_loaded(void);

/* Whether the environment's session was opened and not closed. Thread-safe. */
bool session_has_environment(void);

/* Sets the program's name for itself in the environment's session; "": none. Thread-safe. */
void session_rename(const char *name);

/*
 * Closes the environment's session, as session_close() does. If it was the last one, nothing of the
 * recorder remains in the program's calls. Thread-safe.
 */
int session_stop(void);

#endif
