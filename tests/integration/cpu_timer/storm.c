/*
 * Children that do an exec or end while signals are on their way. Fails if one ends otherwise than
 * it should.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

extern char **environ;

static pid_t start(const char *self, int i)
{
	char *arguments[] = { (char *)self, "child", NULL };
	pid_t pid;

	switch (i % 5) {
	case 0:
		pid = vfork();
		if (pid == 0) {
			execv(self, arguments);
			_exit(1);
		}
		return pid;
	case 1:
		return posix_spawn(&pid, self, NULL, NULL, arguments, environ) ? -1 : pid;
	default:
		pid = fork();
		if (pid)
			return pid;
		burn(0.0003 * (i % 40));
		if (i % 5 == 2)
			execv(self, arguments);
		if (i % 5 == 3)
			_exit(7);
		exit(7);
	}
}

int main(int argc, char **argv)
{
	int bad = 0, status;

	if (!strcmp(argv[1], "child")) {
		burn(0.0005 * (getpid() % 20));
		return 7;
	}
	for (int i = 0; i < atoi(argv[1]); i++) {
		pid_t pid;

		burn(0.001 * (i % 7));
		pid = start(argv[0], i);
		if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		    WEXITSTATUS(status) == 7)
			continue;
		printf("child %d of kind %d: status %x\n", i, i % 5, status);
		bad++;
	}
	printf("%d of %d bad\n", bad, argc > 1 ? atoi(argv[1]) : 0);
	return bad != 0;
}
