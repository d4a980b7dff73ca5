/*
 * cpu_busy MILLIONS DEPTH: two threads do a fixed amount of work at the end of a stack of DEPTH
 * frames. Prints the CPU time and the elapsed time, in seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long millions = 1000, depth = 50;

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static unsigned long compute(void)
{
	volatile unsigned long sum = 0;

	for (unsigned long i = 0; i < millions * 1000000; i++)
		sum += i * i;
	return sum;
}

/* As much stack per frame as C++ and Python use. */
__attribute__((noinline)) static unsigned long descend(unsigned long left)
{
	volatile char room[256];

	room[0] = (char)left;
	return (left ? descend(left - 1) : compute()) + (unsigned long)room[0];
}

static void *work(void *unused)
{
	descend(depth);
	return unused;
}

int main(int argc, char **argv)
{
	double start = seconds(CLOCK_MONOTONIC), start_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	pthread_t thread;

	if (argc > 1)
		millions = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		depth = strtoul(argv[2], NULL, 10);
	if (pthread_create(&thread, NULL, work, NULL) != 0)
		return 1;
	work(NULL);
	pthread_join(thread, NULL);
	printf("%f %f\n", seconds(CLOCK_PROCESS_CPUTIME_ID) - start_cpu,
	       seconds(CLOCK_MONOTONIC) - start);
	return 0;
}
