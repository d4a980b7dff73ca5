/* session_rows.c: capability rows that concern a single session. */
#include "capture/core/session_state.h"
#include "base/human.h"
#include "format/rows.h"

/* Writes a capability row to this session's sinks only: other sessions have their own settings. */
static void write_capability(struct session *s, struct writer *w, struct row_capability *row,
			     enum feature name, const char *actual)
{
	row->time_ns = row->time_ns ? row->time_ns : clock_monotonic_ns();
	row->name = (uint8_t)name;
	row->actual = rows_text(w, actual);
	ROW_MISSING(row, capability, other);
	ROW_MISSING(row, capability, method);
	FOR_EACH_SINK (s, sink)
		writer_append_to(w, *sink, TABLE_capability, row);
}

void session_write_armed(struct session *s, struct writer *w, bool on)
{
	const char *name = setting_engine_names[s->settings.engine];
	struct row_capability row = { .state = on ? capability_state_on : capability_state_off,
				      .requested = rows_text(w, name) };

	row.reason = rows_text(w, on ? "armed by the program" : "the window has closed");
	write_capability(s->armed_in, w, &row, feature_engine_window, on ? name : "none");
}

void session_write_missed(struct session *s, struct writer *w, uint64_t now_ns)
{
	uint64_t late_ns = now_ns - settings_window_end_ns(&s->settings);
	struct row_capability row = { .state = capability_state_unavailable };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%.0f ms", (double)s->settings.duration_ns / 1e6);
	row.requested = rows_text(w, strbuf_text(&text));
	strbuf_clear(&text);
	strbuf_addf(&text,
		    "the recorder first ran %.0f ms after the window had closed: "
		    "the process was stopped, or the machine is too busy for so short a window",
		    (double)late_ns / 1e6);
	row.reason = rows_text(w, strbuf_text(&text));
	write_capability(s->armed_in ? s->armed_in : s, w, &row,
			 s->armed_in ? feature_engine_window : feature_window, "none");
}

/* Without this row a reader could not tell why a program that uses CUDA has no GPU work. */
static void write_no_cupti(struct session *s, struct writer *w)
{
	struct row_capability cupti = { .time_ns = s->opened_ns, .state = capability_state_off };

	cupti.requested = rows_text(w, setting_engine_names[s->settings.engine]);
	cupti.reason = rows_text(w, "engine monitor records no GPU work; engine trace does");
	write_capability(s, w, &cupti, feature_cupti, "none");
}

static void write_name(struct session *s, struct writer *w, uint64_t time_ns)
{
	struct row_capability row = { .time_ns = time_ns, .state = capability_state_on };

	ROW_MISSING(&row, capability, requested);
	ROW_MISSING(&row, capability, reason);
	s->is_renamed = false;
	if (*s->settings.name)
		write_capability(s, w, &row, feature_app_name, s->settings.name);
}

void session_write_name(struct session *s, struct writer *w)
{
	write_name(s, w, clock_monotonic_ns());
}

static void write_ring(struct session *s, struct writer *w)
{
	struct row_capability row = { .time_ns = s->opened_ns, .state = capability_state_on };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	human_bytes(&text, s->settings.ring_bytes);
	ROW_MISSING(&row, capability, requested);
	row.reason = rows_text(w, "the process removes its oldest segments");
	write_capability(s, w, &row, feature_ring, strbuf_text(&text));
}

static void write_unopened(struct session *s, struct writer *w)
{
	struct row_capability row = { .time_ns = s->opened_ns, .state = capability_state_degraded };

	ROW_MISSING(&row, capability, requested);
	row.reason = rows_text(w, s->unopened.text);
	write_capability(s, w, &row, feature_session, "without a sink");
}

/* The rows are equal each time, so that a reader has them once. */
void session_write_settings(struct session *s, struct writer *w)
{
	struct row_capability settings = { .time_ns = s->opened_ns, .state = capability_state_on };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	settings_sources(&s->settings, &text);
	ROW_MISSING(&settings, capability, requested);
	ROW_MISSING(&settings, capability, reason);
	write_name(s, w, s->opened_ns);
	if (text.length)
		write_capability(s, w, &settings, feature_settings, strbuf_text(&text));
	if (s->settings.engine == SETTING_ENGINE_MONITOR && s->settings.cuda)
		write_no_cupti(s, w);
	if (s->settings.ring_bytes)
		write_ring(s, w);
	if (s->unopened.code)
		write_unopened(s, w);
	s->epoch = writer_epoch(w);
}

/* Returns the session whose engine and metrics the sources use. */
static const struct session *engine_owner(struct session *all)
{
	const struct session *owner = NULL;

	for (struct session *s = all; s; s = s->next)
		if (!session_is_ending(s) &&
		    (!owner || s->settings.engine > owner->settings.engine))
			owner = s;
	return owner;
}

static void measured_by(const struct settings *s, struct strbuf *why)
{
	bool of_kernels = s->measure == SETTING_MEASURE_KERNEL;

	strbuf_addf(why, "another session measures with engine %s, metrics '%s' of %ss",
		    setting_engine_names[s->engine], s->metrics, setting_measure_names[s->measure]);
	if (of_kernels)
		strbuf_addf(why, " '%s'", s->kernels);
	if (s->nvtx_include[0])
		strbuf_addf(why, "%s '%s'", of_kernels ? " in ranges" : "", s->nvtx_include);
	strbuf_adds(why, ": until it ends, this one gets the same");
}

void session_write_shared(struct session *all, struct session *s, struct writer *w)
{
	const struct session *owner = engine_owner(all);
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	if (!owner)
		return;
	measured_by(&owner->settings, &why);
	for (struct session *o = all; o; o = o->next) {
		const char *name = setting_engine_names[o->settings.engine];
		struct row_capability row = { .state = capability_state_degraded,
					      .requested = rows_text(w, name) };

		if ((o != s && (owner != s || atomic_load(&o->state) < SESSION_WAITING)) ||
		    session_is_ending(o) || o->settings.engine <= SETTING_ENGINE_TRACE ||
		    settings_measure_alike(&o->settings, &owner->settings))
			continue;
		row.reason = rows_text(w, strbuf_text(&why));
		write_capability(o, w, &row, feature_engine,
				 setting_engine_names[owner->settings.engine]);
	}
}
