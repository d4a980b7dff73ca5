/* A C program that records itself. Its own output says what a test has to find in the recording. */
#include <pitot/pitot.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ADDITIONS 10000

static uint32_t rows;
static uint64_t token;

__attribute__((constructor)) static void before_main(void)
{
	pitot_scope_begin("nobody records this");
	pitot_scope_end();
	rows = pitot_counter("rows", "rows", "what the program has read");
}

static void *work(void *unused)
{
	int i;

	pitot_scope_carry(token);
	for (i = 0; i < ADDITIONS; i++)
		PITOT_SCOPE("task") pitot_counter_add(rows, 1);
	pitot_scope_end();
	return unused;
}

static int leaves_early(int n)
{
	PITOT_SCOPE("left by return")
	{
		if (n)
			return n;
	}
	return 0;
}

/* In its middle, all of the threads at once. */
static void outer(void)
{
	pthread_t threads[THREADS];
	int i;

	pitot_scope_begin_runs("bench", 100, 3);
	pitot_scope_end();
	token = pitot_scope_token();
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	leaves_early(1);
	pitot_mark("everything was read");
	pitot_gauge(pitot_counter("loss", NULL, NULL), 0.1);
}

int main(void)
{
	int i;
	pid_t child;

	pitot_scope_begin("since before the recording");
	i = pitot_init(NULL);
	PITOT_SCOPE("outer") outer();
	for (i = 0; i < 3; i++)
		pitot_scope_end(); /* twice too often */
	child = fork();
	if (child == 0) {
		PITOT_SCOPE("in the child") pitot_counter_add(rows, 1);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	pitot_shutdown();
	PITOT_SCOPE("nobody records this either") leaves_early(0);
	printf("%d\n", THREADS * ADDITIONS);
	return 0;
}
