/*
 * off_cpu.c: main() sleeps 0.3 s in nap(), and its thread twice; both compute for a moment. Prints
 * for how many microseconds each was off its processor meanwhile: "main US", "worker US".
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* Behind a call, so that it is not made a jump. */
#define STAY() __asm__ volatile("")

static double clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

__attribute__((noinline)) double nap(void)
{
	const struct timespec t = { .tv_nsec = 300000000 };
	double began = clock_us(CLOCK_MONOTONIC), cpu = clock_us(CLOCK_THREAD_CPUTIME_ID);

	nanosleep(&t, NULL);
	STAY();
	cpu = clock_us(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return clock_us(CLOCK_MONOTONIC) - began - cpu;
}

__attribute__((noinline)) void spin(void)
{
	volatile unsigned sum = 0;

	for (unsigned i = 0; i < 30000000; i++)
		sum += i;
}

__attribute__((noinline)) void *worker(void *unused)
{
	double off = nap();

	spin();
	off += nap();
	printf("worker %f\n", off);
	STAY();
	return unused;
}

int main(void)
{
	pthread_t thread;
	double off;

	if (pthread_create(&thread, NULL, worker, NULL) != 0)
		return 1;
	off = nap();
	spin();
	printf("main %f\n", off);
	pthread_join(thread, NULL);
	return 0;
}
