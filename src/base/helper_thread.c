#include "base/helper_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"

#define HELPERS_MAX 16
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define OWN_TABLE 2 /* CLOSE_RANGE_UNSHARE of <linux/close_range.h> */
#define POLLS 200 /* polls for the new thread's registration: 10 ms in all */

struct helper {
	void *(*run)(void *);
	void *argument;
};

static atomic_uint running;
static atomic_uint registered; /* threads registered so far */
static atomic_uint tids[HELPERS_MAX];
static atomic_uint_fast64_t ended_cpu_ns;

bool helper_thread_own_descriptors(int keep)
{
	if (syscall(SYS_close_range, keep + 1, ~0U, OWN_TABLE) < 0)
		return false;
	if (keep > 0)
		syscall(SYS_close_range, 0, keep - 1, 0);
	return true;
}

unsigned helper_threads(void)
{
	return atomic_load(&running);
}

bool helper_thread_is(uint32_t tid)
{
	for (unsigned i = 0; i < HELPERS_MAX; i++)
		if (atomic_load(&tids[i]) == tid)
			return true;
	return false;
}

/* Returns the id of the CPU clock of a thread of this process. */
static clockid_t thread_clock(unsigned tid)
{
	return (clockid_t)(~tid << 3 | 4 | 2);
}

uint64_t helper_threads_cpu_ns(void)
{
	uint64_t ns = atomic_load(&ended_cpu_ns);

	for (unsigned i = 0; i < HELPERS_MAX; i++) {
		unsigned tid = atomic_load(&tids[i]);
		struct timespec t;

		if (tid && clock_gettime(thread_clock(tid), &t) == 0)
			ns += (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
	}
	return ns;
}

void helper_threads_after_fork(void)
{
	atomic_store(&ended_cpu_ns, 0);
	atomic_store(&running, 0);
	for (unsigned i = 0; i < HELPERS_MAX; i++)
		atomic_store(&tids[i], 0);
}

static void *run_helper(void *allocated)
{
	struct helper helper = *(struct helper *)allocated;
	unsigned tid = (unsigned)syscall(SYS_gettid), place = 0, none = 0;
	void *result;

	free(allocated);
	while (place < HELPERS_MAX && !atomic_compare_exchange_strong(&tids[place], &none, tid)) {
		none = 0;
		place++;
	}
	atomic_fetch_add(&registered, 1);
	result = helper.run(helper.argument);
	atomic_fetch_add(&ended_cpu_ns, clock_read_ns(CLOCK_THREAD_CPUTIME_ID));
	if (place < HELPERS_MAX)
		atomic_store(&tids[place], 0);
	atomic_fetch_sub(&running, 1);
	return result;
}

int helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes)
{
	struct helper *helper = malloc(sizeof(*helper));
	unsigned registered_before = atomic_load(&registered);
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	if (!helper)
		return -ENOMEM;
	*helper = (struct helper){ run, argument };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, stack_bytes);
	atomic_fetch_add(&running, 1);
	err = pthread_create(&thread, &attributes, run_helper, helper);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		atomic_fetch_sub(&running, 1);
		free(helper);
	}
	/*
	 * Not nanosleep(): Linux remembers one call that it has to continue for each thread, and
	 * nanosleep() takes the place of the one in which an injector found this thread asleep,
	 * which then returns EINTR to the program.
	 */
	for (int i = 0; !err && i < POLLS && atomic_load(&registered) == registered_before; i++)
		ppoll(NULL, 0, &(struct timespec){ .tv_nsec = 50000 }, NULL);
	return -err;
}

bool helper_threads_are_last(void)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *name_end;
	char path[64];
	struct stat task;

	/*
	 * The directory has one link per thread besides the usual two. The main thread stays among
	 * them, as a zombie.
	 */
	if (stat("/proc/self/task", &task) < 0 || task.st_nlink != 2 + 1 + helper_threads())
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", (unsigned)getpid());
	io_read_file(path, 1024, &text);
	name_end = strrchr(strbuf_text(&text), ')');
	return name_end && strncmp(name_end, ") Z", 3) == 0;
}
