/* cmd_monitor.c: `pitot monitor`: the GPUs and the machine, with or without a program. */
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/human.h"
#include "cli/live_keys.h"
#include "cli/monitor_view.h"
#include "cli/ui.h"

#define INTERVAL_LEAST_NS (10 * NS_PER_MS)
#define KEYS_LINE "m mark  d dump  c capture a step  ? all keys  q quit\n"

static uint64_t option_interval = NS_PER_S, option_duration;
static const char *option_output;
static bool option_force;

static const struct option options[] = {
	OPTION(DURATION, "interval", 'i', option_interval, "TIME",
	       "time between readings, at least 10ms (default 1s)", .positive = true),
	OPTION(DURATION, "duration", 0, option_duration, "TIME",
	       "end after TIME (default: on Ctrl-C)", .positive = true),
	OPTION(STRING, "output", 'o', option_output, "DIR",
	       "record into DIR, for `pitot report` and `pitot export`", .is_path = true),
	FLAG("force", 'f', option_force, "replace DIR if it is a recording"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot monitor", "all GPUs and the machine, once a second" },
	{ "pitot monitor -o night.pitot --interval 10s --duration 8h", "record a night" },
	{ "pitot monitor --json --interval 100ms | jq .gpus[0].gpu_power",
	  "power ten times a second" },
	{ NULL, NULL },
};

static const struct live_key keys[] = {
	{ 'm', LIVE_MARK, "mark" },
	{ 'd', LIVE_DUMP, "dump the last 30 s of the ring" },
	{ 'c', LIVE_CAPTURE, "capture a step" },
	{ 'e', LIVE_MEASURE, "capture a step with hardware counters" },
	{ 'q', LIVE_LEAVE, "quit" },
	{ 0 },
};

/* A table that is redrawn needs a terminal that can move its cursor. */
static bool is_live(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

struct screen {
	unsigned lines, width; /* of the live table on a terminal */
	struct strbuf text; /* of the last round: its memory is used again */
	struct live_keys keys;
};

/* Cuts the text to `most` lines: lines that scrolled away cannot be redrawn. */
static void cut_lines(struct strbuf *text, unsigned most)
{
	char *p = text->data;

	for (unsigned i = 0; i < most && p; i++) {
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	if (!p || !*p)
		return;
	text->length = (size_t)(p - text->data);
	*p = '\0';
}

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;

	for (; (text = strchr(text, '\n')); text++)
		lines++;
	return lines;
}

static int draw(const struct context *c, const struct monitor *m, struct screen *screen)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, table = STRBUF_INIT;
	unsigned width = terminal_width(STDOUT_FILENO);
	struct winsize size = { 0 };

	monitor_table(m, width, c->color, &table);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2)
		cut_lines(&table, size.ws_row - 2u);
	if (screen->keys.is_open && width >= strlen(KEYS_LINE))
		strbuf_adds(&table, KEYS_LINE);
	if (screen->width && screen->width != width) /* old lines may have been wrapped */
		strbuf_adds(&out, "\033[H\033[2J");
	else if (screen->lines)
		strbuf_addf(&out, "\033[%uA\033[J", screen->lines);
	strbuf_add(&out, strbuf_text(&table), table.length);
	screen->lines = count_lines(strbuf_text(&table));
	screen->width = width;
	return cli_print(c, &out);
}

static int show(const struct context *c, const struct monitor *m, struct screen *screen)
{
	struct strbuf *out = &screen->text;

	strbuf_clear(out);
	if (c->json)
		monitor_json(m, out);
	else if (!c->quiet && is_live())
		return draw(c, m, screen);
	else if (!option_output && !c->quiet)
		monitor_lines(m, out);
	return out->length ? cli_print(c, out) : EXIT_DONE;
}

/* The table that is shown becomes text above what is printed. */
static void leave_table(void *user)
{
	((struct screen *)user)->lines = 0;
}

/* Returns false if monitoring ends. */
static bool wait_until(const struct context *c, struct monitor *m, struct screen *screen,
		       uint64_t until_ns)
{
	if (c->json || c->quiet || !is_live())
		return terminal_wait(until_ns, NULL, 0);
	return live_keys_poll(&screen->keys, until_ns, m->writer);
}

/* The first signal ends monitoring; a second one ends the program, which may hang in a driver. */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;

	terminal_catch_signals();
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaction(signals[i], NULL, &action);
		action.sa_flags |= SA_RESETHAND;
		sigaction(signals[i], &action, NULL);
	}
}

/* Reads at multiples of the interval from the start, skips late readings, and reads at the end. */
static int monitor(const struct context *c, struct monitor *m)
{
	uint64_t start_ns = clock_monotonic_ns(), next_ns = start_ns, now_ns, step_ns;
	uint64_t end_ns = option_duration && option_duration < UINT64_MAX - start_ns
				  ? start_ns + option_duration
				  : UINT64_MAX;
	struct screen screen = { .text = STRBUF_INIT,
				 .keys = { .context = c, .keys = keys, .clear = leave_table } };
	int status;

	screen.keys.user = &screen;
	sigprocmask(SIG_SETMASK, NULL, &screen.keys.signals);
	do {
		monitor_read(m);
		status = show(c, m, &screen);
		now_ns = clock_monotonic_ns();
		if (status != EXIT_DONE || next_ns >= end_ns)
			break;
		step_ns = (1 + (now_ns - next_ns) / option_interval) * option_interval;
		next_ns = step_ns > end_ns - next_ns ? end_ns : next_ns + step_ns;
	} while (wait_until(c, m, &screen, next_ns));
	live_keys_close(&screen.keys);
	strbuf_release(&screen.text);
	return status;
}

static int end_recording(const struct context *c, struct monitor *m)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct error e = { 0 };

	if (monitor_finish(m, &e) < 0)
		return cli_fail(c, &e);
	human_duration(&text, m->identity.end_monotonic_ns - m->identity.start_monotonic_ns);
	strbuf_adds(&text, ", ");
	cli_add_count(&text, "", m->readings, "reading", "readings");
	cli_note(c, "%s in '%s'; next: pitot report %s", strbuf_text(&text), option_output,
		 option_output);
	return EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	static char program[] = "pitot", name[] = "monitor";
	char *command[] = { program, name, NULL };
	struct monitor m = MONITOR_INIT;
	struct error e = { 0 };
	int status, end;

	(void)argc, (void)argv;
	if (option_interval < INTERVAL_LEAST_NS)
		return cli_usage(c, "--interval takes a time of at least 10ms");
	c->pager = false;
	if (monitor_open(&m, &e) < 0 ||
	    (option_output && monitor_record(&m, option_output, option_force, command, &e) < 0)) {
		monitor_release(&m);
		return cli_fail(c, &e);
	}
	if (!m.gpu_count)
		cli_note(c, "no GPUs: %s", strbuf_text(&m.no_gpus));
	catch_signals();
	if (option_output)
		signal_to_error(SIGPIPE); /* so that the recording is completed */
	status = monitor(c, &m);
	if (m.missing.length && c->verbose)
		cli_note(c, "%s", strbuf_text(&m.missing));
	end = option_output ? end_recording(c, &m) : EXIT_DONE;
	monitor_release(&m);
	return status ? status : end;
}

const struct command cmd_monitor = {
	.name = "monitor",
	.group = COMMAND_RECORD,
	.summary = "show or record the GPUs and the machine",
	.usage = "[options]",
	.description =
		"Reads all GPUs through NVML, and the processors, memory, disks and network of the "
		"machine. Shows them on a terminal as a table that is redrawn in place, elsewhere "
		"as lines, with --json as one object per line. With -o it records them.\n\n"
		"A value that a GPU or the machine does not offer is shown as '-', has no JSON key "
		"and is not recorded; --verbose lists such values at the end, with the reasons. "
		"Without NVIDIA's driver only the machine is shown.",
	.options = options,
	.examples = examples,
	.notes =
		"KEYS\n\nOn a terminal: m sets a numbered mark in the recording of -o, d dumps the "
		"last 30 s of the only ring, c captures a step of the only recorded program, e "
		"one with hardware counters, ? lists the keys, q ends.",
	.run = run,
};
