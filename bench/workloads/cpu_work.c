/*
 * cpu_work THREADS ROUNDS: a fixed amount of calls, arithmetic and memory accesses, to measure the
 * cost of CPU samples.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS (1u << 17) /* 1 MiB per thread */

static long rounds;

static __attribute__((noinline)) uint64_t mix(uint64_t x)
{
	return (x ^ x >> 29) * 0x9e3779b97f4a7c15u;
}

static __attribute__((noinline)) uint64_t visit(const uint64_t *words, uint64_t x, unsigned depth)
{
	x = mix(x + words[x % WORDS]);
	return depth ? visit(words, x, depth - 1) + 1 : x;
}

static void *work(void *unused)
{
	uint64_t *words = calloc(WORDS, sizeof(*words)), x = 1;

	(void)unused;
	if (!words)
		return NULL;
	for (long i = 0; i < rounds; i++) {
		x = visit(words, x, 20);
		words[x % WORDS] = x;
	}
	free(words);
	return (void *)(uintptr_t)x;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t ids[64];

	rounds = argc > 2 ? atol(argv[2]) : 1000000;
	for (int i = 0; i < threads && i < 64; i++)
		if (pthread_create(&ids[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
