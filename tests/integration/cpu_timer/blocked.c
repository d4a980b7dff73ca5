/*
 * A thread that blocks all signals and works, one that then waits for all signals with sigwait, and
 * one that works. Fails if the waiting thread gets a signal that nobody sent.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "burn.h"

static int odd;

static void block_all(sigset_t *all)
{
	sigfillset(all);
	pthread_sigmask(SIG_BLOCK, all, NULL);
}

static void *deaf(void *unused)
{
	sigset_t all;

	block_all(&all);
	burn(1.0);
	return unused;
}

static void *waiting(void *unused)
{
	sigset_t all;
	int signal;

	block_all(&all);
	/* that is when it can be seen: a thread that waits for signals does not block them */
	burn(1.0);
	for (;;) {
		if (sigwait(&all, &signal) == 0 && signal == SIGUSR1)
			return unused;
		odd++;
	}
}

int main(void)
{
	pthread_t a, b;

	until_sampled();
	if (pthread_create(&a, NULL, deaf, NULL) || pthread_create(&b, NULL, waiting, NULL))
		return 2;
	burn(1.0);
	pthread_join(a, NULL);
	pthread_kill(b, SIGUSR1);
	pthread_join(b, NULL);
	printf("%d odd signals\n", odd);
	return odd != 0;
}
