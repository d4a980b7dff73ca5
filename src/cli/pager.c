#include "cli/ui.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "record/spawn.h"

static FILE *pager;

/* Returns NULL if no pager is wanted or available. */
static const char *pager_command(void)
{
	static const char *const variables[] = { "PITOT_PAGER", "PAGER" };
	struct error ignored = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *command = secure_getenv(variables[i]);

		if (command)
			return *command && strcmp(command, "cat") != 0 ? command : NULL;
	}
	return spawn_check("less", &ignored) == 0 ? "less" : NULL;
}

static bool fits_terminal(const struct strbuf *text)
{
	struct winsize size;
	size_t lines = 0;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row)
		return true;
	for (size_t i = 0; i < text->length; i++)
		lines += text->data[i] == '\n';
	return lines < size.ws_row; /* the prompt needs a line */
}

/* Ctrl-C and the like are meant for the pager: they must not end this process before it. */
static void ignore_terminal_signals(void)
{
	static const int signals[] = { SIGINT, SIGQUIT, SIGPIPE };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_IGN);
}

static void wait_for_pager(void)
{
	int status = pclose(pager);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) /* the shell has printed the error */
		fputs("pitot: no pager: set PITOT_PAGER to one, or give --no-pager\n", stderr);
}

int pager_output(const struct context *c, const struct strbuf *text)
{
	const char *term = getenv("TERM"), *command;

	if (!pager && c->pager && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 &&
	    !fits_terminal(text)) {
		command = pager_command();
		/* F: exit if the text fits; R: keep colours; X: leave the text on the screen */
		setenv("LESS", "FRX", false);
		if (command)
			pager = popen(command, "we");
		if (pager) {
			ignore_terminal_signals();
			atexit(wait_for_pager);
		}
	}
	return pager ? fileno(pager) : STDOUT_FILENO;
}

bool pager_has_quit(int write_error)
{
	return pager && write_error == -EPIPE;
}
