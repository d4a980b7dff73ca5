/*
 * attach_server.h: a prepared process: the recorder is loaded, subscribed to nothing and on no
 * call's path, and waits on a socket for somebody to start a recording (format/attach_request.h).
 *
 * One thread is blocked in accept(2), with all signals blocked. Each client has a thread as long as
 * its recording lasts. In the child of a fork all of that begins afresh.
 */
#ifndef PITOT_CAPTURE_ATTACH_SERVER_H
#define PITOT_CAPTURE_ATTACH_SERVER_H

#include <stdbool.h>

/* Called when the library was loaded: begins if PITOT_IDLE requests it. */
void attach_server_loaded(void);
/*
 * Begins to wait for clients. Returns 1, also if it does already, 0 if recording is switched off,
 * or a negative errno. Any thread.
 */
int attach_server_start(void);
/* Whether it has begun, here or in the process that this was forked from. */
bool attach_server_is_on(void);

#endif
