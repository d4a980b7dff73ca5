#include "capture/session.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "capture/collector.h"
#include "base/helper_thread.h"
#include "capture/log.h"
#include "capture/process_exit.h"

/* What an exit waits for at most: sealing takes milliseconds, but a disk or a driver can hang. */
#define STOP_LIMIT_NS (PITOT_SLOWNESS * 2 * NS_PER_S)

/*
 * A new process is recorded when it has used so much CPU time: the many that do little, end soon, or become another program
 * cost next to nothing.
 */
#define WARMUP_CPU_NS (5 * NS_PER_MS)
#define WARMUP_LOOK_MIN_NS (5 * NS_PER_MS)
#define WARMUP_LOOK_MAX_NS (100 * NS_PER_MS)
#define WARMUP_STACK_BYTES (256u << 10)

enum window { WINDOW_BEFORE, WINDOW_OPEN, WINDOW_OVER };

/* Start and stop only; never held on the launch path or by the recorder's threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool starting; /* libraries that starting loads may come back here, through NVTX */

static struct {
	struct settings settings;
	struct writer *writer; /* of the collector, once that runs */
	enum window window; /* the collector's */
	bool running, with_cuda;
	bool preloaded; /* this process; a child that it forks counts as one */
	pid_t owner; /* a child made without pthread_atfork's knowledge is not it */
	_Atomic(enum { LATER_NONE, LATER_WARMUP,
		       LATER_STARTS }) later; /* a session will start by itself */
} self;

static enum window window_at(uint64_t now)
{
	if (now < settings_window_start_ns(&self.settings))
		return WINDOW_BEFORE;
	return now < settings_window_end_ns(&self.settings) ? WINDOW_OPEN : WINDOW_OVER;
}

static void start_sources(const struct source_start *start)
{
	FOR_EACH_SOURCE (s)
		if ((*s)->start)
			(*s)->start(start);
	/* A Python that starts looks which signals have their default: not before it has done that. */
	if (start->with_cuda || self.settings.preload != SETTING_PRELOAD_ONCE)
		process_exit_install();
}

static bool open_writer(void)
{
	struct error e = { 0 };
	struct writer_options options = { .directory = self.settings.directory,
					  .max_bytes = self.settings.max_bytes,
					  .segment_bytes = self.settings.segment_bytes,
					  .background = true };

	if (writer_open(&options, &self.writer, &e) < 0) {
		log_line("cannot record: %s", e.text);
		return false;
	}
	return true;
}

static bool start_new(enum session_way way)
{
	struct source_start start = { .wanted = &self.settings,
				      .with_cuda =
					      way == SESSION_BY_CUDA || way == SESSION_BY_PROGRAM,
				      .late = way == SESSION_BY_PROGRAM,
				      .start_ns = clock_monotonic_ns() };

	self.owner = getpid();
	log_open();
	if (!settings_read(&self.settings))
		return false;
	if (!self.preloaded)
		self.settings.preload = SETTING_PRELOAD_0;
	if (!self.settings.start_ns)
		self.settings.start_ns = start.start_ns;
	start.open = window_at(start.start_ns) == WINDOW_OPEN;
	if (!open_writer())
		return false;
	self.with_cuda = start.with_cuda;
	self.window = WINDOW_BEFORE;
	rings_discard();
	start_sources(&start);
	if (collector_start(self.writer, &start) < 0) {
		log_line("cannot start a thread");
		writer_abandon(&self.writer);
		return false;
	}
	log_line("recording into %s", self.settings.directory);
	return true;
}

/* CUDA came after NVTX had started the session. */
static void add_cuda(enum session_way way)
{
	struct source_start start = { .wanted = &self.settings,
				      .with_cuda = true,
				      .late = way == SESSION_BY_PROGRAM,
				      .start_ns = clock_monotonic_ns() };

	start.open = window_at(start.start_ns) == WINDOW_OPEN;
	self.with_cuda = true;
	start_sources(&start);
	collector_wake();
}

bool session_start(enum session_way way)
{
	bool cuda = way == SESSION_BY_CUDA || way == SESSION_BY_PROGRAM;

	if (starting)
		return false;
	starting = true;
	pthread_mutex_lock(&lock);
	if (self.running && !collector_running())
		self.running = false; /* it was stopped */
	if (!self.running)
		self.running = start_new(way);
	else if (cuda && !self.with_cuda)
		add_cuda(way);
	pthread_mutex_unlock(&lock);
	starting = false;
	return collector_running();
}

/* --- windows --- */

void sessions_follow(uint64_t now_ns, struct writer *w)
{
	enum window window = self.window == WINDOW_OVER ? WINDOW_OVER : window_at(now_ns);

	if (window == self.window)
		return;
	self.window = window;
	FOR_EACH_SOURCE (s)
		if ((*s)->window)
			(*s)->window(window == WINDOW_OPEN ? &self.settings : NULL, w);
}

uint64_t sessions_wait_ns(uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	if (self.window == WINDOW_BEFORE)
		next = settings_window_start_ns(&self.settings);
	else if (self.window == WINDOW_OPEN)
		next = settings_window_end_ns(&self.settings);
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next > now_ns ? next - now_ns : 0;
}

void sessions_close_all(struct writer *w)
{
	(void)w;
	writer_close(&self.writer);
}

/* --- the end --- */

/* Half a session would be a segment without an end. */
static void wait_for_start(void)
{
	struct timespec t = { .tv_nsec = NS_PER_MS / 10 };

	for (int i = 0; i < 1000 && self.later == LATER_STARTS; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void stop(enum vendor_reason reason)
{
	uint64_t begun;

	wait_for_start();
	begun = clock_machine_ns();
	if (getpid() == self.owner && collector_running() && !collector_stop(STOP_LIMIT_NS, reason))
		log_line("gave up waiting for the collector after %u ms",
			 (unsigned)((clock_machine_ns() - begun) / NS_PER_MS));
}

void session_stop(void)
{
	stop(VENDOR_CLOSE);
}

void session_exit(void)
{
	stop(VENDOR_EXIT);
}

/* --- preloaded --- */

static void *start_after_warmup(void *unused)
{
	uint64_t begun_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct timespec t = { .tv_nsec = WARMUP_LOOK_MIN_NS };

	(void)unused;
	do {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		t.tv_nsec = (long)MIN(2 * (uint64_t)t.tv_nsec, WARMUP_LOOK_MAX_NS);
	} while (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begun_ns < WARMUP_CPU_NS);
	self.later = LATER_STARTS;
	session_start(SESSION_BY_NVTX);
	self.later = LATER_NONE;
	return NULL;
}

/* On a thread of its own: nothing that a process without CUDA does would bring us back. */
static void start_later(void)
{
	self.later = LATER_WARMUP;
	if (helper_thread_start(start_after_warmup, NULL, WARMUP_STACK_BYTES) < 0)
		self.later = LATER_NONE;
}

/* Takes the library out of LD_PRELOAD again. false: it was not there. */
static bool leave_preload(void)
{
	const char *list = secure_getenv("LD_PRELOAD");
	Dl_info own;
	size_t length;

	if (!list || !dladdr((void *)session_start, &own) || !own.dli_fname)
		return false;
	length = strlen(own.dli_fname);
	if (strncmp(list, own.dli_fname, length) != 0 ||
	    (list[length] != ':' && list[length] != '\0'))
		return false;
	if (list[length] && list[length + 1])
		setenv("LD_PRELOAD", list + length + 1, 1);
	else
		unsetenv("LD_PRELOAD");
	return true;
}

/* Whether this is the Python that is meant. What starts it (env, timeout) hands the variable on. */
static bool is_once(void)
{
	return dlsym(RTLD_DEFAULT, "Py_Initialize") && leave_preload();
}

void session_preloaded(void)
{
	struct settings settings;

	if (!settings_read(&settings) || settings.preload == SETTING_PRELOAD_0)
		return;
	if (settings.preload == SETTING_PRELOAD_ONCE && !is_once())
		return;
	self.preloaded = true;
	FOR_EACH_SOURCE (s)
		if ((*s)->loaded)
			(*s)->loaded();
	atexit(session_exit);
	process_exit_watch_fork();
	start_later();
}

static bool is_wanted_in_child(void)
{
	bool wanted = false;

	FOR_EACH_SOURCE (s)
		wanted |= (*s)->wanted_in_child && (*s)->wanted_in_child(&self.settings);
	return wanted;
}

void session_after_fork(void)
{
	bool again = self.later != LATER_NONE || (collector_running() && is_wanted_in_child());

	pthread_mutex_init(&lock, NULL);
	self.running = self.with_cuda = false;
	self.writer = NULL; /* the collector may have been in the middle of it */
	self.later = LATER_NONE;
	if (again)
		start_later();
}
