#include "capture/core/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "capture/core/late_start.h"
#include "capture/core/log.h"
#include "capture/core/park.h"
#include "capture/core/process_exit.h"
#include "capture/core/refusals.h"
#include "capture/core/session_sinks.h"
#include "capture/core/session_state.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"
#include "format/segment_request.h"

/* An exit waits at most this long: sealing takes milliseconds, but a disk or a driver can hang. */
#define STOP_LIMIT_NS (PITOT_SLOWNESS * 2 * NS_PER_S)

/*
 * A session that ends beside others waits TAIL_NS for work that was launched in it, and then
 * DRAIN_NS for the rows of what CUPTI handed over.
 */
#define TAIL_NS (200 * NS_PER_MS)
#define DRAIN_NS (PITOT_SLOWNESS * 50 * NS_PER_MS)
#define ENDING_POLL_NS (10 * NS_PER_MS)
/* Longest wait for the vendor thread, which may hang with a GPU. */
#define VENDOR_LIMIT_NS (PITOT_SLOWNESS * 200 * NS_PER_MS)

/* Held by start and stop only; never on the launch path or by the recorder's threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while the environment's session is opened, also while a disk hangs; taken before `lock`. */
static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;
/* Starting loads libraries, which may call back into session_start through NVTX. */
static __thread bool starting;

/* Protects the list of sessions. Held only briefly; the collector takes it as well. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	struct session *sessions;
	struct settings requested; /* by the environment */
	struct session *environment; /* the environment's session, or NULL */
	struct settings merged; /* by all sessions together: sources are started for these */
	struct settings
		open_merged; /* by the sessions whose window is open; used by the collector */
	struct writer *writer; /* the collector's once it runs */
	atomic_uint applied_round; /* of the vendor thread, after the last change of windows */
	unsigned vendors; /* whose profilers may be used */
	_Atomic(pid_t) owner; /* a child made without pthread_atfork's knowledge has another pid */
} self;

#define FOR_EACH_SESSION(s) for (struct session *s = self.sessions; s; s = s->next)

/* --- the beginning --- */

static bool is_open(const struct session *s, uint64_t now)
{
	return now >= settings_window_start_ns(&s->settings) &&
	       now < settings_window_end_ns(&s->settings);
}

static struct session *new_session(const struct settings *settings, struct sink *sink)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s) {
		s->settings = *settings;
		s->opened_ns = clock_monotonic_ns();
		if (session_sinks_open(s, sink))
			return s;
	} else if (sink) {
		sink->ops->abandon(sink);
	}
	free(s);
	return NULL;
}

/* Frees an ended session. The lock waits for the collector, which may just be setting its state. */
static void free_session(struct session *s)
{
	pthread_mutex_lock(&list_lock);
	pthread_mutex_unlock(&list_lock);
	free(s->armed);
	free(s);
}

/*
 * Appends: the oldest session comes first, because sources take settings that cannot be merged
 * (SETTING_JOIN_OWN) from the oldest.
 */
static void list_add(struct session *s)
{
	struct session **end = &self.sessions;

	pthread_mutex_lock(&list_lock);
	while (*end)
		end = &(*end)->next;
	*end = s;
	pthread_mutex_unlock(&list_lock);
}

/* Merges the settings of `s` into *merged, which already merges those of `count` sessions. */
static void merge(struct settings *merged, unsigned count, const struct session *s)
{
	if (count)
		settings_join(merged, &s->settings);
	else
		*merged = s->settings;
}

/* Merges the settings of all sessions into self.merged, and sets start->open. */
static void merge_all(struct source_start *start)
{
	unsigned count = 0;

	pthread_mutex_lock(&list_lock);
	FOR_EACH_SESSION (s) {
		if (session_is_ending(s))
			continue;
		start->open |= is_open(s, start->start_ns);
		merge(&self.merged, count++, s);
	}
	pthread_mutex_unlock(&list_lock);
}

/* Starts sources for the first session; or extends them, for a further one or for a runtime. */
static void start_sources(enum session_trigger trigger, bool first, bool armed,
			  struct source_start *start)
{
	self.vendors |= session_vendors(trigger);
	*start = (struct source_start){ .wanted = &self.merged,
					.vendors = self.vendors,
					.late = trigger == SESSION_BY_PROGRAM,
					.armed = armed,
					.start_ns = clock_monotonic_ns() };
	merge_all(start);
	refusals_clear();
	FOR_EACH_SOURCE (s) {
		if (first && (*s)->start)
			(*s)->start(start);
		if (!first && (*s)->extend)
			(*s)->extend(start);
	}
	/*
	 * A starting Python checks which signals have their default disposition: our handlers must
	 * not be installed before it has done so.
	 */
	if (start->vendors || self.requested.preload != SETTING_PRELOAD_PYTHON)
		process_exit_install(start->vendors && settings_trace_gpus(start->wanted));
}

static void find_missing(struct session *s)
{
	const char *engine = refusal_text(&refusals[REFUSAL_ENGINE]);

	if (engine)
		error_set(&s->missing, -EOPNOTSUPP, "%s", engine);
}

static bool start_first(struct session *s, enum session_trigger trigger)
{
	struct source_start start;

	self.writer = writer_new(&(struct writer_options){ 0 });
	if (!self.writer) {
		session_sinks_abandon(s);
		return false;
	}
	FOR_EACH_SINK (s, sink)
		writer_attach(self.writer, *sink);
	session_write_settings(s, self.writer);
	if (collector_start() < 0) {
		log_line("cannot start a thread");
		writer_abandon(&self.writer);
		return false;
	}
	atomic_store(&s->state, SESSION_WAITING);
	self.sessions = NULL;
	self.vendors = 0;
	list_add(s);
	rings_discard();
	start_sources(trigger, true, false, &start);
	collector_begin(self.writer, &start);
	find_missing(s);
	return true;
}

static uint64_t stop_limit_ns(void)
{
	return clock_machine_ns() + STOP_LIMIT_NS;
}

static void wait_while(struct session *s, bool (*goes_on)(unsigned state), uint64_t end_ns)
{
	uint64_t now;
	unsigned state;

	collector_wake();
	while (goes_on(state = atomic_load(&s->state)) && (now = clock_machine_ns()) < end_ns)
		futex_wait(&s->state, state, end_ns - now);
	/* Lets the collector finish the operation that set the state. */
	pthread_mutex_lock(&list_lock);
	pthread_mutex_unlock(&list_lock);
}

static bool is_coming(unsigned state)
{
	return state == SESSION_COMING;
}

static bool has_not_ended(unsigned state)
{
	return state != SESSION_ENDED;
}

static bool has_ended(const struct session *s)
{
	return !has_not_ended(atomic_load(&s->state)) &&
	       (!s->armed || !has_not_ended(atomic_load(&s->armed->state)));
}

/*
 * Adds a session to the running recorder. It receives what happens after the return: the vendor
 * thread subscribes to what the session needs before its window opens.
 */
static void start_beside(struct session *s, enum session_trigger trigger)
{
	struct source_start start;

	list_add(s);
	start_sources(trigger, false, s->armed_in, &start);
	s->refused = s->armed_in && refusal_text(&refusals[REFUSAL_LIBRARY]);
	vendor_thread_wait(vendor_thread_request(VENDOR_FLUSH), VENDOR_LIMIT_NS);
	atomic_store(&s->state, SESSION_COMING);
	wait_while(s, is_coming, stop_limit_ns());
	vendor_thread_wait(atomic_load(&self.applied_round), VENDOR_LIMIT_NS);
	find_missing(s);
}

/* Returns the session, or NULL if it cannot be started: then it has been freed. */
static struct session *open_locked(struct session *s, enum session_trigger trigger)
{
	bool opened = !collector_ending(), beside = collector_running();

	self.owner = getpid();
	if (!s->settings.start_ns)
		s->settings.start_ns = clock_monotonic_ns();
	if (!opened)
		session_sinks_abandon(s);
	else if (beside)
		start_beside(s, trigger);
	else
		opened = start_first(s, trigger);
	if (opened)
		return s;
	free(s);
	return NULL;
}

struct session *session_open(const struct settings *settings, struct sink *sink,
			     enum session_trigger trigger)
{
	struct session *s;

	if (starting) {
		if (sink)
			sink->ops->abandon(sink);
		return NULL;
	}
	s = new_session(settings, sink);
	if (!s)
		return NULL;
	starting = true;
	pthread_mutex_lock(&lock);
	s = open_locked(s, trigger);
	pthread_mutex_unlock(&lock);
	starting = false;
	return s;
}

/* Opens the sinks that the environment requests, which may wait for a disk. NULL: none. */
static struct session *new_environment(void)
{
	struct settings requested = SETTINGS_INIT;
	struct error e = { 0 };

	log_open();
	settings_read(&requested, NULL, false, &e);
	(void)!launcher_folder(requested.launcher, &requested.folder);
	if (requested.disabled || !settings_have_sink(&requested))
		return NULL;
	if (e.code)
		capability_note(feature_environment, capability_state_degraded, NULL, NULL, "%s",
				e.text);
	if (!late_start_is_preloaded())
		requested.preload = SETTING_PRELOAD_NONE;
	return new_session(&requested, NULL);
}

static void start_locked(struct session *s, enum session_trigger trigger)
{
	struct source_start start;

	if (s) {
		self.requested = s->settings;
		self.environment = open_locked(s, trigger);
		if (self.environment)
			log_line("recording into %s", *self.requested.directory
							      ? self.requested.directory
							      : self.requested.log_path);
	} else if (self.environment && session_vendors(trigger) & ~self.vendors) {
		start_sources(trigger, false, false, &start); /* a runtime came after NVTX */
		collector_wake();
	}
}

bool session_start(enum session_trigger trigger)
{
	struct session *s;

	if (starting)
		return false;
	starting = true;
	pthread_mutex_lock(&environment_lock);
	pthread_mutex_lock(&lock);
	if (self.environment && has_ended(self.environment)) {
		free_session(self.environment);
		self.environment = NULL;
	}
	pthread_mutex_unlock(&lock);
	s = session_has_environment() ? NULL : new_environment();
	pthread_mutex_lock(&lock);
	start_locked(s, trigger);
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&environment_lock);
	starting = false;
	return collector_running();
}

bool session_has_environment(void)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = self.environment != NULL;
	pthread_mutex_unlock(&lock);
	return has;
}

bool session_missing(const struct session *s, struct error *e)
{
	pthread_mutex_lock(&lock);
	s = s ? s : self.environment;
	if (s && s->missing.code)
		*e = s->missing;
	pthread_mutex_unlock(&lock);
	return e->code != 0;
}

void session_rename(const char *name)
{
	struct session *s;

	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&list_lock);
	s = self.environment;
	if (s && *name && strcmp(s->settings.name, name) != 0) {
		snprintf(s->settings.name, sizeof(s->settings.name), "%s", name);
		s->is_renamed = true;
	}
	pthread_mutex_unlock(&list_lock);
	pthread_mutex_unlock(&lock);
	collector_wake();
}

/* --- windows and ends: on the collector's thread --- */

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

static bool update_session(struct session *s, uint64_t now, struct writer *w)
{
	unsigned before = atomic_load(&s->state), state = before;

	if (state == SESSION_NEW)
		return false;
	if (s->is_renamed && state > SESSION_COMING)
		session_write_name(s, w);
	if (state == SESSION_COMING) {
		FOR_EACH_SINK (s, sink) {
			(*sink)->from_ns =
				MAX(s->settings.start_ns, settings_window_start_ns(&s->settings));
			(*sink)->until_ns = UINT64_MAX;
			writer_attach(w, *sink);
		}
		session_write_settings(s, w);
		session_write_shared(self.sessions, s, w);
		rows_clock(w, 0);
		state = SESSION_WAITING;
		/* The tick may have begun before the session; its owner waits for the window. */
		now = MAX(now, clock_monotonic_ns());
	}
	if (state == SESSION_WAITING && now >= settings_window_start_ns(&s->settings))
		state = SESSION_OPEN;
	if (state <= SESSION_OPEN &&
	    (session_is_ending(s) || now >= settings_window_end_ns(&s->settings)))
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
			merge(&self.open_merged, count++, s);
	if (count_sessions() > 1)
		FOR_EACH_SESSION (s)
			limit_sinks(s);
	FOR_EACH_SOURCE (s)
		if ((*s)->window)
			(*s)->window(count ? &self.open_merged : NULL, w);
	atomic_store(&self.applied_round, vendor_thread_request(VENDOR_FLUSH));
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

	pthread_mutex_lock(&list_lock);
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
	pthread_mutex_unlock(&list_lock);
	return ends;
}

/* Detaches the sinks of sessions, which threads of their own close. */
static void end_apart(struct writer *w, bool all)
{
	struct session **at = &self.sessions;

	pthread_mutex_lock(&list_lock);
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
	pthread_mutex_unlock(&list_lock);
}

void sessions_end(struct writer *w)
{
	end_apart(w, false);
}

uint64_t sessions_wait_ns(uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&list_lock);
	FOR_EACH_SESSION (s) {
		unsigned state = atomic_load(&s->state);

		if (atomic_load(&s->closing))
			next = MIN(next, now_ns + ENDING_POLL_NS);
		else if (state == SESSION_COMING || state == SESSION_WAITING)
			next = MIN(next, settings_window_start_ns(&s->settings));
		else if (state == SESSION_OPEN)
			next = MIN(next, settings_window_end_ns(&s->settings));
	}
	pthread_mutex_unlock(&list_lock);
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next > now_ns ? next - now_ns : 0;
}

void sessions_close_all(bool apart)
{
	if (apart)
		end_apart(self.writer, true);
	writer_close(&self.writer);
	pthread_mutex_lock(&list_lock);
	for (struct session *s; (s = self.sessions);) {
		self.sessions = s->next;
		session_set_state(s, SESSION_ENDED);
	}
	pthread_mutex_unlock(&list_lock);
}

/* --- the end --- */

/* Ends all sessions, at most until end_ns. */
static void stop_all(enum vendor_reason reason, uint64_t end_ns)
{
	uint64_t begun = clock_machine_ns();

	if (getpid() == self.owner && !collector_stop(end_ns - MIN(begun, end_ns), reason))
		log_line("gave up waiting for the collector after %u ms",
			 (unsigned)((clock_machine_ns() - begun) / NS_PER_MS));
}

/* Whether there is no other session. */
static bool is_alone(const struct session *s)
{
	bool alone = true;

	pthread_mutex_lock(&list_lock);
	FOR_EACH_SESSION (other)
		alone &= other == s || other->armed_in;
	pthread_mutex_unlock(&list_lock);
	return alone;
}

/* Also disarms an engine whose window has closed. What happens after the return is not recorded. */
static void disarm(struct session *s)
{
	if (!s->armed)
		return;
	atomic_store(&s->armed->closing, true);
	wait_while(s->armed, has_not_ended, stop_limit_ns());
	if (has_not_ended(atomic_load(&s->armed->state)))
		return;
	vendor_thread_wait(atomic_load(&self.applied_round), VENDOR_LIMIT_NS);
	free_session(s->armed);
	s->armed = NULL;
}

/* Ends a session beside others. Does not take `lock`, so that several can end concurrently. */
static void end_beside(struct session *s, uint64_t end_ns)
{
	if (atomic_load(&s->closing) || is_alone(s))
		return;
	atomic_store(&s->closing, true);
	wait_while(s, has_not_ended, end_ns);
}

/*
 * Ends the recorder with its last session. Returns false if another session has been opened, beside
 * which this one has to end.
 */
static bool close_locked(struct session *s, uint64_t end_ns)
{
	struct source_start start;

	if (is_alone(s)) {
		stop_all(VENDOR_CLOSE, end_ns);
	} else if (!atomic_load(&s->closing)) {
		return false;
	} else {
		if (s->armed)
			wait_while(s->armed, has_not_ended, end_ns);
		/* From now on the others get the measurements that they requested. */
		if (s->settings.engine > SETTING_ENGINE_TRACE && collector_running())
			start_sources(SESSION_BY_NVTX, false, false, &start);
	}
	return true;
}

int session_close(struct session **session)
{
	uint64_t end_ns = stop_limit_ns();
	struct session *s = *session;
	int result;

	for (bool closed = !s; !closed;) {
		end_beside(s, end_ns);
		pthread_mutex_lock(&lock);
		closed = close_locked(s, end_ns);
		pthread_mutex_unlock(&lock);
	}
	if (!s)
		return 0;
	*session = NULL;
	wait_while(s, has_not_ended, end_ns);
	if (!has_ended(s)) /* still used by the collector or a thread whose disk hangs */
		return -ETIMEDOUT;
	result = s->result;
	free_session(s);
	return result;
}

int session_stop(void)
{
	struct session *s;

	late_start_wait();
	pthread_mutex_lock(&lock);
	s = self.environment;
	self.environment = NULL;
	pthread_mutex_unlock(&lock);
	return session_close(&s);
}

void session_exit(void)
{
	vendor_thread_exit_begins();
	late_start_wait();
	stop_all(VENDOR_EXIT, stop_limit_ns());
}

/* --- an engine for a while --- */

static int check_engine(const struct session *s, int engine, struct error *e)
{
	int other = SETTING_ENGINE_TRACE;

	pthread_mutex_lock(&list_lock);
	FOR_EACH_SESSION (o)
		if (atomic_load(&o->state) < SESSION_OVER &&
		    (o == s || o->armed_in == s || o->settings.engine != engine))
			other = MAX(other, o->settings.engine);
	pthread_mutex_unlock(&list_lock);
	if (other == SETTING_ENGINE_TRACE)
		return 0;
	return error_set(e, -EBUSY,
			 "engine %s is on or armed, and only one can be at a time: end it with "
			 "pitot_engine_end, or end its recording",
			 setting_engine_names[other]);
}

static int arm(struct session *s, int engine, uint64_t delay_ns, uint64_t duration_ns,
	       struct error *e)
{
	const char *refused;
	struct session *armed;
	int err = check_engine(s, engine, e);

	if (err < 0)
		return err;
	disarm(s);
	armed = s->armed ? NULL : calloc(1, sizeof(*armed));
	if (!armed)
		return error_set(e, -EAGAIN, "no memory, or the recorder hangs");
	armed->settings = s->settings;
	armed->settings.engine = engine;
	armed->settings.delay_ns = delay_ns;
	armed->settings.duration_ns = duration_ns;
	if (!settings_window_within(&armed->settings, &s->settings, clock_monotonic_ns())) {
		free(armed);
		return error_set(e, -ETIME,
				 "the recording's window closes before the engine's opens");
	}
	armed->armed_in = s;
	s->armed = armed;
	start_beside(armed, SESSION_BY_PROGRAM);
	refused = refusal_text(&refusals[REFUSAL_LIBRARY]);
	if (refused) {
		disarm(s);
		return error_set(e, -EOPNOTSUPP, "%s", refused);
	}
	if (!armed->missing.code)
		return 0;
	*e = armed->missing;
	return 1;
}

static int change_engine(struct session *s, int engine, uint64_t delay_ns, uint64_t duration_ns,
			 struct error *e)
{
	if (!s || atomic_load(&s->state) >= SESSION_OVER || !collector_running())
		return error_set(e, -ENOENT, "the recording has ended, or its window has closed");
	if (engine <= SETTING_ENGINE_TRACE) {
		disarm(s);
		return 0;
	}
	if (!s->settings.cuda)
		return error_set(e, -EOPNOTSUPP, "the recording does not use CUPTI");
	return arm(s, engine, delay_ns, duration_ns, e);
}

int session_arm(struct session *s, int engine, uint64_t delay_ns, uint64_t duration_ns,
		struct error *e)
{
	int rc;

	if (starting)
		return error_set(e, -EBUSY, "this very thread is starting a recording");
	starting = true;
	pthread_mutex_lock(&lock);
	rc = change_engine(s ? s : self.environment, engine, delay_ns, duration_ns, e);
	pthread_mutex_unlock(&lock);
	starting = false;
	return rc;
}

/* --- children --- */

static bool is_child_recorded(void)
{
	bool any = false;

	FOR_EACH_SOURCE (s)
		any |= (*s)->should_record_child && (*s)->should_record_child(&self.requested);
	return any;
}

void session_after_fork(void)
{
	bool again = late_start_is_pending() ||
		     (self.environment && collector_running() && is_child_recorded());

	/* The collector may have been using sessions and writer: they are leaked. */
	pthread_mutex_init(&environment_lock, NULL);
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&list_lock, NULL);
	self.sessions = self.environment = NULL;
	self.writer = NULL;
	session_sinks_after_fork();
	refusals_after_fork();
	self.vendors = 0;
	late_start_after_fork();
	if (again)
		late_start();
}
