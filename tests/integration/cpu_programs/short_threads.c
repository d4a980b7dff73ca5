/*
 * short_threads.c THREADS MILLISECONDS PROCESSES: threads of so much CPU time each, two at a time,
 * then that many processes of as much. Prints what the kernel has counted: "TID NANOSECONDS" of
 * each thread as it ends, and of each process when it has ended; then "all NANOSECONDS" of the
 * program with its children.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long wanted_ns;

static long long cpu_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long long used_ns(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000ll +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000ll;
}

static void burn(void)
{
	volatile unsigned sum = 0;

	do
		for (unsigned i = 0; i < 20000; i++)
			sum += i * i;
	while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) < wanted_ns);
}

static void *run(void *unused)
{
	(void)unused;
	burn();
	printf("%ld %lld\n", syscall(SYS_gettid), cpu_ns(CLOCK_THREAD_CPUTIME_ID));
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1, processes = argc > 3 ? atoi(argv[3]) : 0;
	pthread_t pair[2];

	wanted_ns = (argc > 2 ? atoi(argv[2]) : 1) * 1000000ll;
	for (int i = 0; i + 1 < threads; i += 2) {
		for (int k = 0; k < 2; k++)
			if (pthread_create(&pair[k], NULL, run, NULL) != 0)
				return 1;
		for (int k = 0; k < 2; k++)
			pthread_join(pair[k], NULL);
	}
	fflush(stdout);
	for (int i = 0; i < processes; i++) {
		long long before = used_ns(RUSAGE_CHILDREN);
		pid_t pid = fork();

		if (pid == 0) {
			burn();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		printf("%d %lld\n", (int)pid, used_ns(RUSAGE_CHILDREN) - before);
	}
	wanted_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) +
		    50000000; /* so that the program itself has samples */
	burn();
	printf("all %lld\n", used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN));
	return 0;
}
