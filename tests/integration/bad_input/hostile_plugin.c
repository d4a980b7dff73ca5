/* hostile_plugin.c: the library that hostile.c opens. */
#include <time.h>

static volatile unsigned sink;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static int inner(double seconds)
{
	double end = now() + seconds;

	do
		for (unsigned i = 0; i < 1000; i++)
			sink += i * i;
	while (now() < end);
	return 1;
}

int hostile_call(int (*call)(double), double seconds);
int hostile_compare(const void *a, const void *b);

int hostile_call(int (*call)(double), double seconds)
{
	return (call ? call(seconds) : 0) + inner(seconds);
}

int hostile_compare(const void *a, const void *b)
{
	for (unsigned i = 0; i < 200; i++)
		sink += i;
	return *(const int *)a - *(const int *)b;
}
