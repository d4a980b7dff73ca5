/*
 * handlers reset: works, resets all handlers as daemons do, works. handlers own: works, installs a handler of its own for
 * SIGURG, works. Prints how many signals that got in its first and in its second second.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "burn.h"

static volatile int got;

static void handler(int signal)
{
	(void)signal;
	got++;
}

int main(int argc, char **argv)
{
	int first;

	burn(0.5);
	if (argc > 1 && !strcmp(argv[1], "reset")) {
		for (int i = 1; i < 65; i++)
			signal(i, SIG_DFL);
		burn(1);
		return 0;
	}
	signal(SIGURG, handler);
	burn(1);
	first = got;
	burn(1);
	printf("%d %d\n", first, got - first);
	return 0;
}
