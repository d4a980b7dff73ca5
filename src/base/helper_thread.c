#include "base/helper_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct helper {
	void *(*run)(void *);
	void *argument;
};

static atomic_uint running;

unsigned helper_threads(void)
{
	return atomic_load(&running);
}

void helper_threads_after_fork(void)
{
	atomic_store(&running, 0);
}

static void *run_helper(void *allocated)
{
	struct helper helper = *(struct helper *)allocated;
	void *result;

	free(allocated);
	result = helper.run(helper.argument);
	atomic_fetch_sub(&running, 1);
	return result;
}

int helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes)
{
	struct helper *helper = malloc(sizeof(*helper));
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
	return -err;
}
