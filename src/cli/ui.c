/* ui.c: errors, notes, colours and text output. */
#include "cli/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/io.h"
#include "base/plural.h"

/* Appends lines that may quote names of others. */
static void add_safe(struct strbuf *out, const char *text)
{
	for (;; text++) {
		size_t length = strcspn(text, "\n");

		text_safe(out, text, length);
		text += length;
		if (!*text)
			return;
		strbuf_addc(out, '\n');
	}
}

static void print_line(const struct context *c, enum style style, const char *label,
		       const char *text)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_adds(&line, "pitot");
	if (c->command)
		strbuf_addf(&line, " %s", c->command->name);
	strbuf_adds(&line, ": ");
	if (*label)
		style_add(&line, c->color_errors, style, label);
	add_safe(&line, text);
	strbuf_addc(&line, '\n');
	/* If stderr cannot be written, there is no other place to report it. */
	if (line.failed || io_write_all(STDERR_FILENO, line.data, line.length) < 0)
		fputs("pitot: out of memory\n", stderr);
}

static void print_formatted(const struct context *c, enum style style, const char *label,
			    const char *format, va_list args)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_vaddf(&text, format, args);
	print_line(c, style, label, strbuf_text(&text));
}

int cli_fail(const struct context *c, const struct error *e)
{
	print_line(c, STYLE_RED, "error: ", e->text[0] ? e->text : error_code_text(e->code));
	return e->code == E_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

int cli_failf(const struct context *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_formatted(c, STYLE_RED, "error: ", format, args);
	va_end(args);
	return EXIT_FAILED;
}

int cli_usage(const struct context *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_formatted(c, STYLE_RED, "error: ", format, args);
	va_end(args);
	cli_note(c, "try `pitot%s%s --help`", c->command ? " " : "",
		 c->command ? c->command->name : "");
	return EXIT_USAGE;
}

int cli_unknown(const struct context *c, const char *what, const char *word,
		const char *const *known, const char *list)
{
	struct error e;
	char lists[100];

	snprintf(lists, sizeof(lists), "; `%s` lists them", list);
	error_set(&e, E_USAGE, "unknown %s '%s'", what, word);
	error_suggest(&e, word, known, lists);
	return cli_fail(c, &e);
}

void cli_note(const struct context *c, const char *format, ...)
{
	va_list args;

	if (c->quiet)
		return;
	va_start(args, format);
	print_formatted(c, STYLE_NONE, "", format, args);
	va_end(args);
}

void cli_warn(const struct context *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_formatted(c, STYLE_YELLOW, "warning: ", format, args);
	va_end(args);
}

int cli_print(const struct context *c, const struct strbuf *text)
{
	int rc;

	if (text->failed)
		return cli_failf(c, "out of memory");
	rc = io_write_all(pager_output(c, text), strbuf_text(text), text->length);
	if (pager_has_quit(rc))
		exit(EXIT_DONE);
	if (rc < 0)
		return cli_failf(c, "cannot write to standard output: %s", strerror(-rc));
	return EXIT_DONE;
}

void cli_add_count(struct strbuf *out, const char *separator, uint64_t n, const char *one,
		   const char *many)
{
	strbuf_adds(out, out->length ? separator : "");
	human_count(out, n);
	strbuf_addf(out, " %s", plural_of(n, one, many));
}

unsigned terminal_width(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return 80;
	return size.ws_col;
}

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

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

void terminal_catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

bool terminal_wait(uint64_t until_ns, struct pollfd *polled, unsigned count)
{
	uint64_t now_ns = clock_monotonic_ns(), ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec t = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	sigset_t set, before;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	if (!terminal_stop_signal)
		ppoll(polled, count, &t, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return !terminal_stop_signal;
}
