/*
 * Waits of every kind with work in between, in two threads. Prints how many were cut short; fails
 * if any was.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "burn.h"

#define ROUNDS 600

static int silent[2], talking[2];
static unsigned cut;

static void note(const char *call, long result)
{
	if (result >= 0 || errno != EINTR)
		return;
	__atomic_fetch_add(&cut, 1, __ATOMIC_RELAXED);
	printf("%s was cut short\n", call);
}

static void wait_in_select(void)
{
	struct timeval timeout = { .tv_usec = 100 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(silent[0], &set);
	note("select", select(silent[0] + 1, &set, NULL, NULL, &timeout));
}

static void wait_for_semaphore(sem_t *semaphore)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 100000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	note("sem_timedwait", sem_timedwait(semaphore, &until));
}

static void *run(void *writes)
{
	int epoll = epoll_create1(0);
	sem_t semaphore;

	sem_init(&semaphore, 0, 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct timespec t = { .tv_nsec = 100000 };
		struct pollfd nobody = { silent[0], POLLIN, 0 };
		struct epoll_event event;
		char c = 'x';

		burn(0.0002 + 0.00004 * (i % 50));
		note("nanosleep", nanosleep(&t, NULL));
		burn(0.0002);
		wait_in_select();
		burn(0.0002);
		note("poll", poll(&nobody, 1, 1));
		burn(0.0002);
		wait_for_semaphore(&semaphore);
		burn(0.0002);
		note("epoll_wait", epoll_wait(epoll, &event, 1, 1));
		burn(0.0002);
		note("pipe", writes ? write(talking[1], &c, 1) : read(talking[0], &c, 1));
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;

	if (pipe(silent) || pipe(talking) || pthread_create(&thread, NULL, run, ""))
		return 2;
	run(NULL);
	pthread_join(thread, NULL);
	printf("%u waits were cut short\n", cut);
	return cut != 0;
}
