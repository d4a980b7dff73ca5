#include "capture/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "capture/collector.h"
#include "capture/host/process_rows.h"
#include "capture/launch_stacks.h"
#include "capture/leave.h"
#include "capture/log.h"
#include "capture/nvml/nvml_source.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/ring.h"
#include "capture/stack_rows.h"
#ifndef PITOT_WITHOUT_CUDA
#include "capture/cuda/source.h"
#endif

/* What an exit waits for at most: sealing takes milliseconds, but a disk or a driver can hang. */
#define STOP_LIMIT_NS (2 * NS_PER_S)

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* start and stop only; never on the launch path */
static bool running, cuda_started;
static pid_t owner; /* a child made without pthread_atfork's knowledge is not it */
static __thread bool starting; /* libraries that starting loads may come back here, through NVTX */
static struct settings settings;

static bool open_writer(struct writer **w)
{
	struct error e = { 0 };
	struct writer_options options = { .directory = settings.directory,
					  .max_bytes = settings.max_bytes,
					  .segment_bytes = settings.segment_bytes };

	if (writer_open(&options, w, &e) < 0) {
		log_line("cannot record: %s", e.text);
		return false;
	}
	return true;
}

static bool start_cuda(void)
{
#ifndef PITOT_WITHOUT_CUDA
	return cuda_source_start(&settings);
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
	if (!settings.start_ns)
		settings.start_ns = start.setup_start_ns;
	if (!open_writer(&start.writer))
		return false;
	start.cuda = with_cuda;
	cuda_started = with_cuda && start_cuda();
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

bool session_running(void)
{
	return collector_running();
}

void session_stop(void)
{
	if (getpid() == owner && collector_running() && !collector_stop(STOP_LIMIT_NS))
		log_line("gave up waiting for the collector");
}

void session_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	running = cuda_started = false;
	collector_after_fork();
	rings_after_fork();
	host_reset();
	launch_stacks_after_fork();
	stack_rows_reset();
	nvtx_source_after_fork();
	nvml_source_after_fork();
#ifndef PITOT_WITHOUT_CUDA
	cuda_source_after_fork();
#endif
}
