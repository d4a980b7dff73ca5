/* off_cpu.c: main() sleeps 0.3 s in nap(), and its thread twice; both compute for a moment. */
#include <pthread.h>
#include <time.h>

/* Behind a call, so that it is not made a jump. */
#define STAY() __asm__ volatile("")

__attribute__((noinline)) void nap(void)
{
	const struct timespec t = { .tv_nsec = 300000000 };

	nanosleep(&t, NULL);
	STAY();
}

__attribute__((noinline)) void spin(void)
{
	volatile unsigned sum = 0;

	for (unsigned i = 0; i < 30000000; i++)
		sum += i;
}

__attribute__((noinline)) void *worker(void *unused)
{
	nap();
	spin();
	nap();
	STAY();
	return unused;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, worker, NULL) != 0)
		return 1;
	nap();
	spin();
	pthread_join(thread, NULL);
	return 0;
}
