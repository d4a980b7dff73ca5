/* session_windows.h: sessions on the collector's thread: their windows and ends. */
#ifndef PITOT_CAPTURE_SESSION_WINDOWS_H
#define PITOT_CAPTURE_SESSION_WINDOWS_H

#include "capture/core/session_state.h"

/*
 * Attaches the sinks of new sessions, opens and closes windows. Returns true if sessions_end is
 * due, after a seal.
 */
bool sessions_update(uint64_t now_ns, struct writer *w);
/* Ends the sessions whose rows are complete; their sinks are closed on other threads. */
void sessions_end(struct writer *w);
/* How long the collector may wait before it calls the two above. */
uint64_t sessions_wait_ns(uint64_t now_ns);
/* Closes the writer at the end, and with it all sessions. `apart`: on other threads. */
void sessions_close_all(bool apart);

#endif
