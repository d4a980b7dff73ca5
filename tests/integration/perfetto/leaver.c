/*
 * leaver: a program that makes 30,000 scopes and then ends.
 *
 *	leaver left|quick|returned|forked|waits
 *
 * left: main() ends by pthread_exit() before its other thread does; quick: quick_exit(3); returned:
 * main() returns; forked: the scopes are those of a child that traces itself; waits: prints
 * "ready", and makes them at the end of its input.
 */
#include <pitot/pitot.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCOPES 30000

static void *work(void *unused)
{
	int i;

	for (i = 0; i < SCOPES; i++) {
		pitot_scope_begin("task");
		pitot_scope_end();
		if (i % 1000 == 0) /* no ring overflows */
			pitot_flush(NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t other;
	int status;

	if (argc != 2 || pitot_init(NULL) < 0)
		return 1;
	if (strcmp(argv[1], "left") == 0 && pthread_create(&other, NULL, work, NULL) == 0)
		pthread_exit(NULL);
	if (strcmp(argv[1], "forked") == 0) {
		if (fork())
			return wait(&status) < 0 || status;
		pitot_init(NULL);
	}
	if (strcmp(argv[1], "waits") == 0) {
		pitot_shutdown(); /* no recording is beside it */
		puts("ready");
		fflush(stdout);
		getchar();
	}
	work(NULL);
	if (strcmp(argv[1], "quick") == 0)
		quick_exit(3);
	return 0;
}
