#include "capture/core/session_sinks.h"

#include "base/helper_thread.h"
#include "capture/sinks/gpufl_live.h"
#include "capture/core/log.h"
#include "capture/core/park.h"

#define STACK_BYTES (512u << 10) /* the last rows of a sink may need names, as in the collector */

atomic_uint session_sinks_closing;

struct sink *session_recording(const struct settings *settings, struct error *e)
{
	struct sink *sink;
	struct writer_options options = { .directory = settings->directory,
					  .folder = settings->folder,
					  .launcher = settings->launcher,
					  .max_bytes = settings->max_bytes,
					  .segment_bytes = settings->segment_bytes,
					  .background = true };

	return recording_sink_new(&options, &sink, e) == 0 ? sink : NULL;
}

static struct sink *new_recording(const struct settings *settings)
{
	struct error e = { 0 };
	struct sink *sink = session_recording(settings, &e);

	if (!sink)
		log_line("cannot record: %s", e.text);
	return sink;
}

bool session_sinks_open(struct session *s, struct sink *given)
{
	const struct settings *settings = &s->settings;

	s->sinks[0] = given || !*settings->directory ? given : new_recording(settings);
	if (*settings->log_path && (s->sinks[0] || !*settings->directory))
		s->sinks[1] = gpufl_live_open(settings);
	FOR_EACH_SINK (s, sink)
		(*sink)->result = &s->result;
	return s->sinks[0] || s->sinks[1];
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
	bool has_sink = s->sinks[0] || s->sinks[1];

	atomic_fetch_add(&session_sinks_closing, 1);
	if (!has_sink || helper_thread_start(close_sinks, s, STACK_BYTES) < 0)
		close_sinks(s);
}

void session_sinks_after_fork(void)
{
	atomic_store(&session_sinks_closing, 0);
}
