#include "capture/helper_thread.h"

#include <pthread.h>
#include <signal.h>

int helper_thread_start(void *(*run)(void *), size_t stack_bytes)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, stack_bytes);
	err = pthread_create(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}
