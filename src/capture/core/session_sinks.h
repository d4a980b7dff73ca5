/*
 * session_sinks.h: opens and closes the sinks of a session. An ended session's are closed on a
 * thread of its own, so that a disk that hangs delays neither the collector, and with it the other
 * sessions, nor the next recording.
 */
#ifndef PITOT_CAPTURE_SESSION_SINKS_H
#define PITOT_CAPTURE_SESSION_SINKS_H

#include "capture/core/session_state.h"

/*
 * Opens what the session's settings request; `given`, if not NULL, instead of a recording. Without
 * its recording a session has no other sinks. Returns false if it has none. Waits for the disk, so
 * no lock must be held that others wait for.
 */
bool session_sinks_open(struct session *s, struct sink *given);
void session_sinks_abandon(struct session *s);

/*
 * Closes the sinks, which are detached from the writer, and then sets SESSION_ENDED. Its owner may
 * free the session from then on.
 */
void session_sinks_close(struct session *s);

/* Number of sessions that are being closed: a futex. */
extern atomic_uint session_sinks_closing;

void session_sinks_after_fork(void);

#endif
