/*
 * Two threads that spend known shares of their time in three functions. Prints tid, alpha, beta,
 * gamma in seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "burn.h"

static double seconds;

static __attribute__((noinline)) void alpha(double s)
{
	burn(s);
}

static __attribute__((noinline)) void beta(double s)
{
	burn(s);
	sink++;
}

static __attribute__((noinline)) void gamma_(double s)
{
	burn(s);
	sink += 2;
}

static void *work(void *which)
{
	static const double shares[2][3] = { { 0.5, 0.3, 0.2 }, { 0.1, 0.25, 0.65 } };
	static void (*const functions[3])(double) = { alpha, beta, gamma_ };
	const double *share = shares[which != NULL];
	double spent[3];

	until_sampled();
	for (int i = 0; i < 3; i++) {
		double before = cpu_seconds();

		functions[i](seconds * share[i]);
		spent[i] = cpu_seconds() - before;
	}
	printf("%ld %f %f %f\n", syscall(SYS_gettid), spent[0], spent[1], spent[2]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	(void)argc;
	seconds = atof(argv[1]);
	if (pthread_create(&thread, NULL, work, ""))
		return 1;
	work(NULL);
	pthread_join(thread, NULL);
	return 3;
}
