#include "capture/core/session_windows.h"

#include "base/clock.h"
#include "capture/core/park.h"
#include "capture/core/session_sinks.h"
#include "capture/core/shared_area.h"
#include "capture/core/source.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"

/*
 * A session that ends beside others waits TAIL_NS for work that was launched in it, and then
 * DRAIN_NS for the rows of what CUPTI handed over.
 */
#define TAIL_NS (200 * NS_PER_MS)
#define DRAIN_NS (PITOT_SLOWNESS * 50 * NS_PER_MS)
#define ENDING_POLL_NS (10 * NS_PER_MS)

struct sessions sessions = { .list_lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Keeps rows of other sessions out of this one's sinks. A session that is alone gets all rows, even
 * those of work that begins after its end. The end is read from the clock after `closing` was seen:
 * the time of the tick may be earlier than what its owner did before it closed the session.
 */
static void limit_sinks(struct session *s)
{
	bool over = atomic_load(&s->state) == SESSION_OVER;

	FOR_EACH_SINK (s, sink) {
		if (!(*sink)->until_ns) {
			(*sink)->from_ns =
				s->settings.delay_ns ? settings_window_start_ns(&s->settings) : 0;
			(*sink)->until_ns = UINT64_MAX;
		}
		if (over && (*sink)->until_ns == UINT64_MAX)
			(*sink)->until_ns = clock_monotonic_ns();
	}
}

void session_set_state(struct session *s, unsigned state)
{
	atomic_store(&s->state, state);
	futex_wake(&s->state); /* only its address is used: the owner may have freed an ended one */
}

/* The launcher holds the memory of the session that the environment requests. */
static bool is_over_for_launcher(const struct session *s)
{
	return (s == sessions.environment || s->armed_in == sessions.environment) &&
	       atomic_load_explicit(&shared_area_head->is_over, memory_order_relaxed);
}

static bool update_session(struct session *s, uint64_t now, struct writer *w)
{
	unsigned before = atomic_load(&s->state), state = before;

	if (state == SESSION_NEW)
		return false;
	if (s->is_renamed && state > SESSION_COMING)
		session_write_name(s, w);
	/* The first segment of a ring will be dropped. */
	if ((s->settings.ring_bytes || s->settings.segment_bytes) && state > SESSION_COMING &&
	    s->epoch != writer_epoch(w))
		session_write_settings(s, w);
	if (state == SESSION_COMING) {
		FOR_EACH_SINK (s, sink) {
			(*sink)->from_ns =
				MAX(s->settings.start_ns, settings_window_start_ns(&s->settings));
			(*sink)->until_ns = UINT64_MAX;
			writer_attach(w, *sink);
		}
		session_write_settings(s, w);
		session_write_shared(sessions.first, s, w);
		rows_clock(w, 0);
		state = SESSION_WAITING;
		/* The tick may have begun before the session; its owner waits for the window. */
		now = MAX(now, clock_monotonic_ns());
	}
	if (state == SESSION_WAITING && now >= settings_window_start_ns(&s->settings))
		state = SESSION_OPEN;
	if (state <= SESSION_OPEN && (session_is_ending(s) || is_over_for_launcher(s) ||
				      now >= settings_window_end_ns(&s->settings)))
		state = SESSION_OVER;
	if (before < SESSION_OPEN && state == SESSION_OVER && !session_is_ending(s) &&
	    s->opened_ns < settings_window_end_ns(&s->settings))
		session_write_missed(s, w, now);
	if (s->armed_in && !s->refused && (before == SESSION_OPEN) != (state == SESSION_OPEN))
		session_write_armed(s, w, state == SESSION_OPEN);
	if (state != before)
		session_set_state(s, state);
	return (before == SESSION_OPEN) != (state == SESSION_OPEN);
}

/* Number of sessions, armed engines excluded. */
static unsigned count_sessions(void)
{
	unsigned count = 0;

	FOR_EACH_SESSION (s)
		count += !s->armed_in;
	return count;
}

/* Windows have opened or closed: passes the merged settings to the sources. */
static void update_sources(struct writer *w)
{
	unsigned count = 0;

	FOR_EACH_SESSION (s)
		if (atomic_load(&s->state) == SESSION_OPEN)
			session_merge(&sessions.open_merged, count++, s);
	if (count_sessions() > 1)
		FOR_EACH_SESSION (s)
			limit_sinks(s);
	FOR_EACH_SOURCE (s)
		if ((*s)->window)
			(*s)->window(count ? &sessions.open_merged : NULL, w);
	atomic_store(&sessions.applied_round, vendor_thread_request(VENDOR_FLUSH));
}

/* Flushes repeatedly what was in progress when the session ended; then sets is_complete. */
static void update_completion(struct session *s, uint64_t now)
{
	uint64_t waited = s->ends_since_ns ? now - s->ends_since_ns : 0;
	bool has_flushed = s->ends_since_ns && vendor_thread_done(s->flush);

	if (s->flushed_ns)
		s->is_complete = now - s->flushed_ns >= DRAIN_NS;
	else if (waited >= TAIL_NS && (has_flushed || waited >= TAIL_NS + VENDOR_LIMIT_NS))
		s->flushed_ns = now;
	else if (!s->ends_since_ns || has_flushed)
		s->flush = vendor_thread_request(VENDOR_FLUSH);
	if (!s->ends_since_ns)
		s->ends_since_ns = now;
}

bool sessions_update(uint64_t now_ns, struct writer *w)
{
	bool changed = false, ends = false;

	pthread_mutex_lock(&sessions.list_lock);
	FOR_EACH_SESSION (s)
		changed |= update_session(s, now_ns, w);
	if (changed)
		update_sources(w);
	FOR_EACH_SESSION (s) {
		if (s->armed_in)
			s->is_complete = atomic_load(&s->state) == SESSION_OVER;
		else if (atomic_load(&s->closing))
			update_completion(s, now_ns);
		ends |= s->is_complete;
	}
	pthread_mutex_unlock(&sessions.list_lock);
	return ends;
}

/* Detaches the sinks of sessions, which threads of their own close. */
static void end_apart(struct writer *w, bool all)
{
	struct session **at = &sessions.first;

	pthread_mutex_lock(&sessions.list_lock);
	while (*at) {
		struct session *s = *at;

		if (!all && !s->is_complete) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		FOR_EACH_SINK (s, sink) {
			int sealed = writer_detach(w, *sink);

			s->result = s->result ? s->result : MIN(sealed, 0);
		}
		session_sinks_close(s);
	}
	pthread_mutex_unlock(&sessions.list_lock);
}

void sessions_end(struct writer *w)
{
	end_apart(w, false);
}

uint64_t sessions_wait_ns(uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&sessions.list_lock);
	FOR_EACH_SESSION (s) {
		unsigned state = atomic_load(&s->state);

		if (atomic_load(&s->closing))
			next = MIN(next, now_ns + ENDING_POLL_NS);
		else if (state == SESSION_COMING || state == SESSION_WAITING)
			next = MIN(next, settings_window_start_ns(&s->settings));
		else if (state == SESSION_OPEN)
			next = MIN(next, settings_window_end_ns(&s->settings));
	}
	pthread_mutex_unlock(&sessions.list_lock);
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next > now_ns ? next - now_ns : 0;
}

void sessions_close_all(bool apart)
{
	if (apart)
		end_apart(sessions.writer, true);
	writer_close(&sessions.writer);
	pthread_mutex_lock(&sessions.list_lock);
	for (struct session *s; (s = sessions.first);) {
		sessions.first = s->next;
		session_set_state(s, SESSION_ENDED);
	}
	pthread_mutex_unlock(&sessions.list_lock);
}
