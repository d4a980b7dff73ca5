/* session_state.h: what session.c and session_rows.c share. */
#ifndef PITOT_CAPTURE_SESSION_STATE_H
#define PITOT_CAPTURE_SESSION_STATE_H

#include <stdatomic.h>

#include "capture/session.h"

enum session_state {
	SESSION_NEW, /* sources are being told of it */
	SESSION_COMING, /* its sink is not the writer's yet */
	SESSION_WAITING, /* for its window */
	SESSION_OPEN,
	SESSION_OVER, /* the window has closed */
	SESSION_ENDED, /* and so is the sink */
};

#define SESSION_SINKS 2 /* a recording, or what session_open was given, and gpufl's logs */

struct session {
	struct session *next;
	/*
	 * An engine that is armed is a session without sinks, which wants what its own session
	 * wants and that engine; so it has a window as any other.
	 */
	struct session *armed, *armed_in; /* NULL: none is; it is none */
	struct settings settings;
	struct sink *sinks[SESSION_SINKS]; /* one at least; NULL: none */
	atomic_uint state; /* the collector's; also the futex that session_close waits on */
	atomic_bool closing; /* session_close wants its end */

	/* The collector's, while it ends beside others: */
	unsigned flush; /* round of the vendor thread */
	uint64_t ends_since_ns, flushed_ns;
	bool is_complete; /* its rows are all there */
};

#define FOR_EACH_SINK(session, sink)                                                               \
	for (struct sink **sink = (session)->sinks; sink < (session)->sinks + SESSION_SINKS;       \
	     sink++)                                                                               \
		if (*sink)

/* What comes is not in it any more. An armed engine ends with its session. */
static inline bool session_is_ending(const struct session *s)
{
	return atomic_load(&s->state) >= SESSION_OVER || atomic_load(&s->closing) ||
	       (s->armed_in && atomic_load(&s->armed_in->closing));
}

/* --- session_rows.c, on the collector's thread or before there is one --- */

/* What differs from the defaults, and where that is from. */
void session_write_settings(struct session *s, struct writer *w);
/* The window of an armed engine has opened or closed. */
void session_write_armed(struct session *s, struct writer *w, bool on);
/*
 * A session has come: it does not measure what it wants to, or older ones do not any more. `all`:
 * the list of sessions.
 */
void session_write_shared(struct session *all, struct session *s, struct writer *w);

#endif
