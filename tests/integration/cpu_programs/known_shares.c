/*
 * known_shares.c SECONDS: a program whose CPU time is known: in two threads and a forked child,
 * half of it in half(), 30 % in third(), 20 % in fifth(), which all call spin(). Prints, for each
 * thread, what its own clock says: "TID FUNCTION SECONDS".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 40
/* Behind a call, so that it is not made a jump. */
#define STAY() __asm__ volatile("")

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The clock is a system call: it is asked each few milliseconds. */
__attribute__((noinline)) double spin(double seconds)
{
	double start = cpu_seconds(), spent;
	volatile unsigned sum = 0;

	do {
		for (unsigned i = 0; i < 1000000; i++)
			sum += i * i;
		spent = cpu_seconds() - start;
	} while (spent < seconds);
	return spent;
}

__attribute__((noinline)) double half(double seconds)
{
	double spent = spin(seconds * 0.5);

	STAY();
	return spent;
}

__attribute__((noinline)) double third(double seconds)
{
	double spent = spin(seconds * 0.3);

	STAY();
	return spent;
}

__attribute__((noinline)) double fifth(double seconds)
{
	double spent = spin(seconds * 0.2);

	STAY();
	return spent;
}

__attribute__((noinline)) void work(double seconds)
{
	double spent[3] = { 0, 0, 0 };
	long tid = syscall(SYS_gettid);

	for (int i = 0; i < ROUNDS; i++) {
		spent[0] += half(seconds / ROUNDS);
		spent[1] += third(seconds / ROUNDS);
		spent[2] += fifth(seconds / ROUNDS);
	}
	printf("%ld half %f\n%ld third %f\n%ld fifth %f\n", tid, spent[0], tid, spent[1], tid,
	       spent[2]);
	fflush(stdout);
}

static void *thread_work(void *seconds)
{
	work(*(double *)seconds);
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_work, &seconds) != 0)
		return 1;
	work(seconds);
	pthread_join(thread, NULL);
	if (fork() == 0) {
		work(seconds);
		_exit(0);
	}
	wait(NULL);
	return 0;
}
