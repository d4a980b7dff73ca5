#include "capture/session.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/collector.h"
#include "capture/cpu/cpu_timer.h"
#include "capture/host/process_rows.h"
#include "capture/stack_capture.h"
#include "capture/process_exit.h"
#include "capture/log.h"
#include "capture/nvml/nvml_source.h"
#include "capture/nvtx/nvtx_source.h"
#include "base/helper_thread.h"
#include "capture/ring.h"
#include "capture/stack_rows.h"
#ifndef PITOT_WITHOUT_CUDA
#include "capture/cuda/source.h"
#endif

/* What an exit waits for at most: sealing takes milliseconds, but a disk or a driver can hang. */
#define STOP_LIMIT_NS (PITOT_SLOWNESS * 2 * NS_PER_S)

/*
 * A new process is recorded when it has used so much CPU time: the many that do little, end soon, or
 * become another program cost next to nothing.
 */
#define REST_CPU_NS (5 * NS_PER_MS)
#define REST_MIN_NS (5 * NS_PER_MS) /* between looks */
#define REST_MAX_NS (100 * NS_PER_MS)
#define REST_STACK_BYTES (256u << 10)

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* start and stop only; never on the launch path */
static bool running, cuda_started;
static bool preloaded; /* this process; those that it forks count as such */
static pid_t owner; /* a child made without pthread_atfork's knowledge is not it */
static __thread bool starting; /* libraries that starting loads may come back here, through NVTX */
static struct settings settings;
enum { LATER_NONE, LATER_RESTS, LATER_STARTS };
static atomic_uint later; /* whether a session will start by itself */

static bool open_writer(struct writer **w)
{
	struct error e = { 0 };
	struct writer_options options = { .directory = settings.directory,
					  .max_bytes = settings.max_bytes,
					  .segment_bytes = settings.segment_bytes,
					  .background = true };

	if (writer_open(&options, w, &e) < 0) {
		log_line("cannot record: %s", e.text);
		return false;
	}
	return true;
}

static bool start_cuda(void)
{
#ifndef PITOT_WITHOUT_CUDA
	return settings.cuda && cuda_source_start(&settings);
#else
	return false;
#endif
}

static bool start_new(bool with_cuda)
{
	struct collector_start start = { .setup_start_ns = clock_monotonic_ns() };

	owner = getpid();
	log_open();
	if (!settings_read(&settings))
		return false;
	settings.preload &= preloaded;
	if (!settings.start_ns)
		settings.start_ns = start.setup_start_ns;
	if (!open_writer(&start.writer))
		return false;
	start.cuda = with_cuda && settings.cuda;
	if (settings.cpu_hz)
		stack_capture_start(&settings);
	cuda_started = with_cuda && start_cuda();
	/* A Python that starts looks which signals have their default: not before it has done that. */
	if (with_cuda || !settings.preload_once)
		leave_install();
	start.settings = settings;
	start.setup_ns = clock_monotonic_ns() - start.setup_start_ns;
	nvtx_source_window(settings.delay_ns == 0);
	if (collector_start(&start) < 0) {
		log_line("cannot start a thread");
		writer_abandon(&start.writer);
		return false;
	}
	log_line("recording into %s", settings.directory);
	return true;
}

/* CUDA came after NVTX had started the session. */
static void add_cuda(void)
{
	if (!settings.cuda)
		return;
	cuda_started = start_cuda();
	leave_install();
	collector_cuda_started();
}

bool session_start(bool with_cuda)
{
	if (starting)
		return false;
	starting = true;
	pthread_mutex_lock(&lock);
	if (!running)
		running = start_new(with_cuda);
	else if (with_cuda && !cuda_started && collector_running())
		add_cuda();
	pthread_mutex_unlock(&lock);
	starting = false;
	return collector_running();
}

/* Half a session would be a segment without an end. */
static void wait_for_start(void)
{
	struct timespec t = { .tv_nsec = NS_PER_MS / 10 };

	for (int i = 0; i < 1000 && atomic_load(&later) == LATER_STARTS; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

void session_stop(void)
{
	uint64_t begun;

	wait_for_start();
	begun = clock_machine_ns();
	if (getpid() == owner && collector_running() && !collector_stop(STOP_LIMIT_NS))
		log_line("gave up waiting for the collector after %u ms",
			 (unsigned)((clock_machine_ns() - begun) / NS_PER_MS));
}

static void *start_after_rest(void *unused)
{
	uint64_t begun_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct timespec t = { .tv_nsec = REST_MIN_NS };

	(void)unused;
	do {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		t.tv_nsec = (long)MIN(2 * (uint64_t)t.tv_nsec, REST_MAX_NS);
	} while (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begun_ns < REST_CPU_NS);
	atomic_store(&later, LATER_STARTS);
	session_start(false);
	atomic_store(&later, LATER_NONE);
	return NULL;
}

/* On a thread of its own: nothing that a process without CUDA does would bring us back. */
static void start_later(void)
{
	atomic_store(&later, LATER_RESTS);
	if (helper_thread_start(start_after_rest, NULL, REST_STACK_BYTES) < 0)
		atomic_store(&later, LATER_NONE);
}

/* Takes the library out of LD_PRELOAD again. false: it was not there. */
static bool leave_preload(void)
{
	const char *list = getenv("LD_PRELOAD");
	Dl_info own;
	size_t length;

	if (!list || !dladdr((void *)session_start_preloaded, &own) || !own.dli_fname)
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

void session_start_preloaded(void)
{
	if (!settings_read(&settings) || !settings.preload)
		return;
	if (settings.preload_once && !is_once())
		return;
	preloaded = true;
	cpu_timer_loaded();
	atexit(session_stop);
	leave_watch_fork();
	start_later();
}

void session_after_fork(void)
{
	/* Beside perf events there is only something to do where there is a Python. */
	bool worthwhile = !settings.perf_namespace || stack_capture_python_version();
	bool again = settings.cpu_hz &&
		     ((collector_running() && worthwhile) || atomic_load(&later) != LATER_NONE);

	pthread_mutex_init(&lock, NULL);
	running = cuda_started = false;
	helper_threads_after_fork();
	collector_after_fork();
	cpu_timer_after_fork();
	rings_after_fork();
	host_reset();
	stack_capture_after_fork();
	stack_rows_reset();
	nvtx_source_after_fork();
	nvml_source_after_fork();
#ifndef PITOT_WITHOUT_CUDA
	cuda_source_after_fork();
#endif
	if (again)
		start_later();
}
