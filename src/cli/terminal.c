#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

bool terminal_shows_utf8(void)
{
	const char *names[] = { getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i] && *names[i])
			return strcasestr(names[i], "utf-8") || strcasestr(names[i], "utf8");
	return false;
}

volatile sig_atomic_t terminal_stop_signal;

static void on_signal(int signal_number)
{
	terminal_stop_signal = signal_number;
}

void terminal_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}
