#include "capture/core/session_sinks.h"

#include "base/helper_thread.h"
#include "capture/core/log.h"
#include "capture/core/park.h"
#include "capture/core/sinks.h"

#define STACK_BYTES (512u << 10) /* the last rows of a sink may need names, as in the collector */

atomic_uint session_sinks_closing;

/* Returns false if the session has no room for the sink, or none was opened. */
static bool add(struct session *s, const char *name, const char *where)
{
	struct error e = { 0 };
	struct sink **free = s->sinks;

	while (free < s->sinks + SESSION_SINKS_MAX && *free)
		free++;
	if (free == s->sinks + SESSION_SINKS_MAX)
		error_set(&e, E_LIMIT, "a session has at most %u sinks", SESSION_SINKS_MAX);
	else
		*free = sink_open(&s->settings, name, where, &e);
	if (e.code) {
		log_line("cannot open %s:%s: %s", name, where, e.text);
		error_set(&s->unopened, e.code, "cannot open %s:%s: %s", name, where, e.text);
	}
	return !e.code;
}

bool session_sinks_open(struct session *s, struct sink *given)
{
	const char *rest = s->settings.sinks;
	struct setting_sink more;

	s->sinks[0] = given;
	if (!given && *s->settings.directory && !add(s, "recording", s->settings.directory))
		return false;
	if (*s->settings.log_path)
		add(s, "gpufl", s->settings.log_path);
	while (settings_next_sink(&rest, &more))
		add(s, more.name, more.where);
	FOR_EACH_SINK (s, sink)
		(*sink)->result = &s->result;
	return s->sinks[0];
}

void session_sinks_abandon(struct session *s)
{
	FOR_EACH_SINK (s, sink)
		(*sink)->ops->abandon(*sink);
}

static void *close_sinks(void *session)
{
	struct session *s = session;

	FOR_EACH_SINK (s, sink)
		writer_close_sink(*sink, 0);
	session_set_state(s, SESSION_ENDED);
	atomic_fetch_sub(&session_sinks_closing, 1);
	futex_wake(&session_sinks_closing);
	return NULL;
}

void session_sinks_close(struct session *s)
{
	atomic_fetch_add(&session_sinks_closing, 1);
	if (!s->sinks[0] || helper_thread_start(close_sinks, s, STACK_BYTES) < 0)
		close_sinks(s);
}

void session_sinks_after_fork(void)
{
	atomic_store(&session_sinks_closing, 0);
}
