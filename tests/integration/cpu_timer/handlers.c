/*
 * handlers reset: works, resets all handlers as daemons do, works. handlers own: works, installs a
 * handler of its own for SIGURG, works until no timer sends that any more, and then some more.
 * Prints how many signals came in that last time, and how long it had worked before.
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
	double noticed;

	until_sampled();
	burn(0.5);
	if (argc > 1 && !strcmp(argv[1], "reset")) {
		for (int i = 1; i < 65; i++)
			signal(i, SIG_DFL);
		burn(1);
		return 0;
	}
	signal(SIGURG, handler);
	do
		burn(0.05);
	while (timers(true) && cpu_seconds() < 60);
	got = 0; /* of those that were on their way */
	noticed = cpu_seconds();
	burn(0.5);
	printf("%d %f\n", got, noticed);
	return 0;
}
