/* session_state.h: what session.c, session_windows.c and session_rows.c share. */
#ifndef PITOT_CAPTURE_SESSION_STATE_H
#define PITOT_CAPTURE_SESSION_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "format/writer.h"
#include "schema/settings.h"

enum session_state {
	SESSION_NEW, /* its sources are being started */
	SESSION_COMING, /* its sinks are not attached to the writer yet */
	SESSION_WAITING, /* its window has not opened */
	SESSION_OPEN,
	SESSION_OVER, /* its window has closed */
	SESSION_ENDED, /* its sinks are closed */
};

#define SESSION_SINKS_MAX 8u

struct session {
	struct session *next;
	/*
	 * An armed engine is a session without sinks. Its settings are its owner's with that
	 * engine, so it has a window like any other session.
	 */
	struct session *armed, *armed_in; /* its armed engine and its owner, or NULL */
	bool refused; /* an armed engine that CUPTI does not permit: it has no window */
	struct error missing; /* why it was opened without its engine; code 0: it was not */
	struct error unopened; /* why it lacks a sink that was requested; code 0: it has all */
	struct settings settings;
	uint32_t epoch; /* the collector's: of the writer when the session's rows were written */
	bool is_renamed; /* settings.name has changed and was not written yet */
	uint64_t opened_ns; /* when the process opened it; its window may have begun before */
	struct sink *sinks[SESSION_SINKS_MAX]; /* those after the last one are NULL */
	/* set by the collector, at last by session_sinks.c; session_close's futex */
	atomic_uint state;
	atomic_bool closing; /* session_close has requested its end */

	/* Used by the collector while the session ends beside others: */
	unsigned flush; /* round of the vendor thread */
	uint64_t ends_since_ns, flushed_ns;
	bool is_complete; /* all its rows have been written */
	int result; /* of closing its sinks */
};

#define FOR_EACH_SINK(session, sink)                                                               \
	for (struct sink **sink = (session)->sinks;                                                \
	     sink < (session)->sinks + SESSION_SINKS_MAX && *sink; sink++)

/* Longest wait for the vendor thread, which may hang with a GPU. */
#define VENDOR_LIMIT_NS (PITOT_SLOWNESS * 200 * NS_PER_MS)

struct sessions {
	/* Protects the list. Held only briefly; the collector takes it as well. */
	pthread_mutex_t list_lock;
	struct session *first;
	struct settings requested; /* by the environment */
	struct session *_Atomic environment; /* the environment's session, or NULL */
	struct settings merged; /* by all sessions together: sources are started for these */
	/* By the sessions whose window is open; used by the collector. */
	struct settings open_merged;
	struct writer *writer; /* the collector's once it runs */
	atomic_uint applied_round; /* of the vendor thread, after the last change of windows */
	unsigned vendors; /* whose profilers may be used */
	_Atomic(pid_t) owner; /* a child made without pthread_atfork's knowledge has another pid */
};
extern struct sessions sessions;

#define FOR_EACH_SESSION(s) for (struct session *s = sessions.first; s; s = s->next)

/* Merges the settings of `s` into *merged, which already merges those of `count` sessions. */
static inline void session_merge(struct settings *merged, unsigned count, const struct session *s)
{
	if (count)
		settings_join(merged, &s->settings);
	else
		*merged = s->settings;
}

/* Whether the session receives nothing new. An armed engine ends with its owner. */
static inline bool session_is_ending(const struct session *s)
{
	return atomic_load(&s->state) >= SESSION_OVER || atomic_load(&s->closing) ||
	       (s->armed_in && atomic_load(&s->armed_in->closing));
}

/* Also wakes the owner, which may free an ended session. */
void session_set_state(struct session *s, unsigned state);

/* --- session_rows.c: called on the collector's thread or before it exists --- */

/* Writes the program's name for itself, if it has one. */
void session_write_name(struct session *s, struct writer *w);
/* Writes the name, which settings differ from the defaults, and where their values come from. */
void session_write_settings(struct session *s, struct writer *w);
/* Writes that the window of an armed engine has opened or closed. */
void session_write_armed(struct session *s, struct writer *w, bool on);
/* Writes that the collector, at now_ns, finds the window closed that it has not seen open. */
void session_write_missed(struct session *s, struct writer *w, uint64_t now_ns);
/*
 * Session `s` was added: writes which sessions do not get the measurement that they requested,
 * because another one's engine is on. `all` is the list of sessions.
 */
void session_write_shared(struct session *all, struct session *s, struct writer *w);

#endif
