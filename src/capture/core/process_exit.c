#include "capture/core/process_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/starts_with.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "base/helper_thread.h"
#include "capture/core/own_work.h"
#include "capture/core/park.h"
#include "capture/core/shared_area.h"
#include "capture/core/source.h"
#include "capture/core/vendor_thread.h"
#include "elf/loaded_libraries.h"
#include "elf/slot_writer.h"

/*
 * Longest wait of the signal handler, shorter than people notice after Ctrl-C. The interrupted
 * thread may hold a lock that the end needs (CUPTI's, the allocator's): the handler then returns,
 * and the collector raises the signal when it has finished.
 */
#define SIGNAL_LIMIT_NS (PITOT_SLOWNESS * 100 * NS_PER_MS)

/* Longest wait before _exit() and exec. */
#define QUICK_LIMIT_NS (PITOT_SLOWNESS * 500 * NS_PER_MS)

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static pid_t installed_in; /* a child made without pthread_atfork's knowledge has no collector */

/* --- signals --- */

static void die_of(int number)
{
	sigset_t set;

	raise(number);
	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* dies here */
}

static void on_signal(int number)
{
	int saved = errno;
	struct sigaction act = { .sa_handler = SIG_DFL };
	bool ended = getpid() != installed_in || collector_stop(SIGNAL_LIMIT_NS, VENDOR_EXIT);

	sigaction(number, &act, NULL); /* the next signal kills immediately */
	if (!ended) {
		atomic_store(&collector_signal, number);
		ended = !collector_running();
	}
	errno = saved;
	if (ended)
		die_of(number);
}

static void install_signals(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction act;

		if (sigaction(signals[i], NULL, &act) == 0 && !(act.sa_flags & SA_SIGINFO) &&
		    act.sa_handler == SIG_DFL) {
			act = (struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESTART };
			sigaction(signals[i], &act, NULL);
		}
	}
}

/* --- _exit and exec --- */

static bool is_recorded_here(void)
{
	return getpid() == installed_in && collector_running();
}

static void own_exit(int status)
{
	if (getpid() == installed_in)
		collector_stop(QUICK_LIMIT_NS, VENDOR_EXIT);
	_exit(status);
}

/* exec may fail, so the recording goes on. */
static void before_exec(void)
{
	int saved = errno;

	if (is_recorded_here())
		collector_flush(QUICK_LIMIT_NS);
	errno = saved;
}

static int own_execv(const char *path, char *const argv[])
{
	before_exec();
	return execv(path, argv);
}

static int own_execve(const char *path, char *const argv[], char *const environment[])
{
	before_exec();
	return execve(path, argv, environment);
}

static int own_execvp(const char *file, char *const argv[])
{
	before_exec();
	return execvp(file, argv);
}

static int own_fexecve(int fd, char *const argv[], char *const environment[])
{
	before_exec();
	return fexecve(fd, argv, environment);
}

/* daemon(), whose parent otherwise ends by a call of _exit() inside the C library. */
static int own_daemon(int same_directory, int same_streams)
{
	pid_t child = is_recorded_here() ? fork() : -2;
	int null;

	if (child == -2)
		return daemon(same_directory, same_streams);
	if (child > 0)
		own_exit(0);
	if (child < 0 || setsid() < 0)
		return -1;
	if (!same_directory)
		(void)!chdir("/");
	if (same_streams)
		return 0;
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	return 0;
}

static const struct {
	const char *name;
	void *ours, *real;
} quick_ends[] = {
	{ "_exit", (void *)own_exit, (void *)_exit },
	{ "_Exit", (void *)own_exit, (void *)_Exit },
	{ "daemon", (void *)own_daemon, (void *)daemon },
	{ "execv", (void *)own_execv, (void *)execv },
	{ "execve", (void *)own_execve, (void *)execve },
	{ "execvp", (void *)own_execvp, (void *)execvp },
	{ "fexecve", (void *)own_fexecve, (void *)fexecve },
};

/* Changes a slot that holds the C library's function, or leads to the loader until a first call. */
static void change_slot(uintptr_t *slot, const char *name, uint64_t addend, void *writer)
{
	struct slot_writer *w = writer;

	for (size_t i = 0; i < ARRAY_SIZE(quick_ends) && !addend; i++)
		if (strcmp(quick_ends[i].name, name) == 0 &&
		    (*slot == (uintptr_t)quick_ends[i].real ||
		     loaded_library_has(w->library, *slot)))
			slot_writer_set(w, slot, (uintptr_t)quick_ends[i].ours);
}

static int change_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	bool is_program = !*info->dlpi_name;
	struct loaded_library library;
	struct slot_writer w = { .library = &library };

	(void)size, (void)unused;
	if ((is_program || starts_with(base_name(info->dlpi_name), "libpython")) &&
	    loaded_library_read(info, &library)) {
		import_slots_visit(&library, change_slot, &w);
		slot_writer_end(&w);
	}
	return 0;
}

/* --- fork --- */

extern struct parked collector_parked, vendor_parked;

static void before_fork(void)
{
	static struct parked *const threads[] = { &collector_parked, &vendor_parked };

	park_all(threads, ARRAY_SIZE(threads));
}

static void after_fork_in_child(void)
{
	shared_area_after_fork();
	session_after_fork();
	FOR_EACH_SOURCE (s)
		if ((*s)->after_fork)
			(*s)->after_fork();
	park_after_fork();
	collector_after_fork();
	vendor_thread_after_fork();
	helper_threads_after_fork();
	rings_after_fork();
	capability_notes_after_fork();
	own_work_after_fork();
	installed_in = getpid();
}

void process_exit_watch_fork(void)
{
	static bool done;

	if (!done)
		pthread_atfork(before_fork, park_release, after_fork_in_child);
	done = true;
}

/* --- exit --- */

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *library);
extern void *__dso_handle;

static void on_thread_end(void *unused)
{
	(void)unused;
	vendor_thread_exit_begins();
}

/* exit() runs destructors of the main thread's variables before all handlers. */
static void watch_main_thread(void)
{
	if (gettid() == getpid())
		__cxa_thread_atexit_impl(on_thread_end, NULL, &__dso_handle);
}

void process_exit_register(void)
{
	atexit(session_exit);
	at_quick_exit(session_exit);
}

void process_exit_install(bool with_profiler)
{
	static bool done, done_with_profiler;

	installed_in = getpid();
	if (!done || (with_profiler && !done_with_profiler)) {
		process_exit_register();
		loaded_libraries_visit(change_library, NULL);
	}
	process_exit_watch_fork();
	if (!done)
		watch_main_thread();
	if (!done && installed_in != 1)
		install_signals();
	done = true;
	done_with_profiler |= with_profiler;
}
