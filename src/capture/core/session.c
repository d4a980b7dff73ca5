#include "capture/core/session.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "format/segment_request.h"

/* An exit waits at most this long: sealing takes milliseconds, but a disk or a driver can hang. */
#define STOP_LIMIT_NS (PITOT_SLOWNESS * 2 * NS_PER_S)

/* Held by start and stop only; never on the launch path or by the recorder's threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while the environment's session is opened, also while a disk hangs; taken before `lock`. */
static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;
/* Starting loads libraries, which may call back into session_start through NVTX. */
static __thread bool starting;
/* session_loaded() has started a session, here or in the process that this was forked from. */
static bool is_preloaded;

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
	pthread_mutex_lock(&sessions.list_lock);
	pthread_mutex_unlock(&sessions.list_lock);
	free(s->armed);
	free(s);
}

/*
 * Appends: the oldest session comes first, because sources take settings that cannot be merged
 * (SETTING_JOIN_OWN) from the oldest.
 */
static void list_add(struct session *s)
{
	struct session **end = &sessions.first;

	pthread_mutex_lock(&sessions.list_lock);
	while (*end)
		end = &(*end)->next;
	*end = s;
	pthread_mutex_unlock(&sessions.list_lock);
}

/* Merges the settings of all sessions into sessions.merged, and sets start->open. */
static void merge_all(struct source_start *start)
{
	unsigned count = 0;

	pthread_mutex_lock(&sessions.list_lock);
	FOR_EACH_SESSION (s) {
		if (session_is_ending(s))
			continue;
		start->open |= is_open(s, start->start_ns);
		session_merge(&sessions.merged, count++, s);
	}
	pthread_mutex_unlock(&sessions.list_lock);
}

/* Starts sources for the first session; or extends them, for a further one or for a runtime. */
static void start_sources(enum session_trigger trigger, bool first, bool armed,
			  struct source_start *start)
{
	sessions.vendors |= session_vendors(trigger);
	*start = (struct source_start){ .wanted = &sessions.merged,
					.vendors = sessions.vendors,
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
	if (start->vendors || sessions.requested.preload != SETTING_PRELOAD_PYTHON)
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

	sessions.writer = writer_new(&(struct writer_options){ 0 });
	if (!sessions.writer) {
		session_sinks_abandon(s);
		return false;
	}
	FOR_EACH_SINK (s, sink)
		writer_attach(sessions.writer, *sink);
	session_write_settings(s, sessions.writer);
	if (collector_start() < 0) {
		log_line("cannot start a thread");
		writer_abandon(&sessions.writer);
		return false;
	}
	atomic_store(&s->state, SESSION_WAITING);
	sessions.first = NULL;
	sessions.vendors = 0;
	list_add(s);
	rings_discard();
	start_sources(trigger, true, false, &start);
	collector_begin(sessions.writer, &start);
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
	pthread_mutex_lock(&sessions.list_lock);
	pthread_mutex_unlock(&sessions.list_lock);
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
	vendor_thread_wait(atomic_load(&sessions.applied_round), VENDOR_LIMIT_NS);
	find_missing(s);
}

/* Returns the session, or NULL if it cannot be started: then it has been freed. */
static struct session *open_locked(struct session *s, enum session_trigger trigger)
{
	bool opened = !collector_ending(), beside = collector_running();

	sessions.owner = getpid();
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
	if (!is_preloaded)
		requested.preload = SETTING_PRELOAD_NONE;
	return new_session(&requested, NULL);
}

static void start_locked(struct session *s, enum session_trigger trigger)
{
	struct source_start start;

	if (s) {
		sessions.requested = s->settings;
		sessions.environment = open_locked(s, trigger);
		if (sessions.environment)
			log_line("recording into %s", *sessions.requested.directory
							      ? sessions.requested.directory
							      : sessions.requested.log_path);
	} else if (sessions.environment && session_vendors(trigger) & ~sessions.vendors) {
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
	if (sessions.environment && has_ended(sessions.environment)) {
		free_session(sessions.environment);
		sessions.environment = NULL;
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
	has = sessions.environment != NULL;
	pthread_mutex_unlock(&lock);
	return has;
}

bool session_missing(const struct session *s, struct error *e)
{
	pthread_mutex_lock(&lock);
	s = s ? s : sessions.environment;
	if (s && s->missing.code)
		*e = s->missing;
	pthread_mutex_unlock(&lock);
	return e->code != 0;
}

void session_rename(const char *name)
{
	struct session *s;

	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&sessions.list_lock);
	s = sessions.environment;
	if (s && *name && strcmp(s->settings.name, name) != 0) {
		snprintf(s->settings.name, sizeof(s->settings.name), "%s", name);
		s->is_renamed = true;
	}
	pthread_mutex_unlock(&sessions.list_lock);
	pthread_mutex_unlock(&lock);
	collector_wake();
}

/* --- the end --- */

/* Ends all sessions, at most until end_ns. */
static void stop_all(enum vendor_reason reason, uint64_t end_ns)
{
	uint64_t begun = clock_machine_ns();

	if (getpid() == sessions.owner && !collector_stop(end_ns - MIN(begun, end_ns), reason))
		log_line("gave up waiting for the collector after %u ms",
			 (unsigned)((clock_machine_ns() - begun) / NS_PER_MS));
}

/* Whether there is no other session. */
static bool is_alone(const struct session *s)
{
	bool alone = true;

	pthread_mutex_lock(&sessions.list_lock);
	FOR_EACH_SESSION (other)
		alone &= other == s || other->armed_in;
	pthread_mutex_unlock(&sessions.list_lock);
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
	vendor_thread_wait(atomic_load(&sessions.applied_round), VENDOR_LIMIT_NS);
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
	s = sessions.environment;
	sessions.environment = NULL;
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

	pthread_mutex_lock(&sessions.list_lock);
	FOR_EACH_SESSION (o)
		if (atomic_load(&o->state) < SESSION_OVER &&
		    (o == s || o->armed_in == s || o->settings.engine != engine))
			other = MAX(other, o->settings.engine);
	pthread_mutex_unlock(&sessions.list_lock);
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
	rc = change_engine(s ? s : sessions.environment, engine, delay_ns, duration_ns, e);
	pthread_mutex_unlock(&lock);
	starting = false;
	return rc;
}

/* --- starting late --- */

static void start_late(void)
{
	session_start(SESSION_BY_NVTX);
}

void session_loaded(void)
{
	struct settings settings = SETTINGS_INIT;

	settings_read(&settings, NULL, false, NULL);
	if (settings.disabled || !settings_have_sink(&settings) ||
	    settings.preload == SETTING_PRELOAD_NONE)
		return;
	if (settings.preload == SETTING_PRELOAD_PYTHON && !dlsym(RTLD_DEFAULT, "Py_Initialize"))
		return;
	is_preloaded = true;
	FOR_EACH_SOURCE (source)
		if ((*source)->loaded)
			(*source)->loaded();
	atexit(session_exit);
	process_exit_watch_fork();
	late_start(start_late);
}

/* --- children --- */

static bool is_child_recorded(void)
{
	bool any = false;

	FOR_EACH_SOURCE (s)
		any |= (*s)->should_record_child && (*s)->should_record_child(&sessions.requested);
	return any;
}

void session_after_fork(void)
{
	bool again = late_start_is_pending() ||
		     (sessions.environment && collector_running() && is_child_recorded());

	/* The collector may have been using sessions and writer: they are leaked. */
	pthread_mutex_init(&environment_lock, NULL);
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&sessions.list_lock, NULL);
	sessions.first = sessions.environment = NULL;
	sessions.writer = NULL;
	session_sinks_after_fork();
	refusals_after_fork();
	sessions.vendors = 0;
	late_start_after_fork();
	if (again)
		late_start(start_late);
}
