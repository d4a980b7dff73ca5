/* cmd_top.c: `pitot top`: the programs that use GPUs, and what they do there. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/screen.h"
#include "cli/top_view.h"
#include "cli/ui.h"

#define INTERVAL_LEAST_NS (100 * NS_PER_MS)
#define SERVE_NS (100 * NS_PER_MS) /* attached processes ask for files */

static uint64_t option_interval = 2 * NS_PER_S, option_top = 5;
static struct option_list option_pids;
static const char *option_filter = "";
static int option_sort;
static bool option_once;

static const struct option options[] = {
	OPTION(LIST, "pid", 'p', option_pids, "PID",
	       "only this process and its descendants, and what they do on the GPU: prepared ones "
	       "record themselves meanwhile, into memory; several times for several"),
	OPTION(DURATION, "interval", 'i', option_interval, "TIME",
	       "time between readings, at least 100ms (default 2s)", .positive = true),
	FLAG("once", 0, option_once, "read twice, an interval apart, print, and end"),
	OPTION(ENUM, "sort", 0, option_sort, NULL, "what the first programs have most of",
	       .choices = top_sort_names),
	OPTION(STRING, "filter", 0, option_filter, "TEXT",
	       "only programs with TEXT in the command, or of that user or pid"),
	OPTION(U64, "top", 0, option_top, "N", "kernels and lines of a program (default 5)",
	       .positive = true, .most = 100),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot top", "all programs on the GPUs" },
	{ "pitot top -p 4711", "the kernels, lines and waits of a prepared process" },
	{ "pitot top --once --json | jq '.programs[].gpu_percent'", "for a script" },
	{ NULL, NULL },
};

struct top {
	const struct context *context;
	struct monitor monitor;
	struct programs programs;
	struct top_view view;
	bool is_screen, is_paused, is_typing;
	char prompt[sizeof(((struct top_view *)0)->filter) + 16];
	struct error problem; /* shown until a key is pressed, or printed at the end */
	size_t count; /* programs that the filter leaves */
};

static int read_pids(const struct context *c, struct programs *p)
{
	for (unsigned i = 0; i < option_pids.count; i++) {
		uint64_t pid;

		if (parse_u64(option_pids.items[i], &pid) < 0 || pid == 0 || pid > INT_MAX)
			return cli_usage(c, "option '--pid' takes the id of a process, not '%s'",
					 option_pids.items[i]);
		p->named[p->named_count++] = (pid_t)pid;
	}
	return EXIT_DONE;
}

/* --- output --- */

static int draw(struct top *t)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	unsigned columns, lines;

	t->count = top_sort_programs(&t->view, &t->programs);
	screen_size(&columns, &lines);
	top_print(&t->view, &t->programs, t->count, &t->monitor, columns, lines, t->context->color,
		  &out);
	return screen_draw(&out) < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int print(struct top *t)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	t->count = top_sort_programs(&t->view, &t->programs);
	if (t->context->json)
		top_json(&t->programs, t->count, &t->monitor, &out);
	else
		top_print(&t->view, &t->programs, t->count, &t->monitor, t->context->width, 0,
			  t->context->color, &out);
	return cli_print(t->context, &out);
}

/* --- keys --- */

static void set_prompt(struct top *t)
{
	snprintf(t->prompt, sizeof(t->prompt), "filter: %s_", t->view.filter);
	t->view.prompt = t->is_typing       ? t->prompt
			 : t->is_paused     ? "paused: space goes on"
			 : *t->problem.text ? t->problem.text
					    : NULL;
}

static void type(struct top *t, int key)
{
	char *filter = t->view.filter;
	size_t length = strlen(filter);

	if (key == KEY_ESCAPE)
		filter[0] = '\0';
	if (key == KEY_ESCAPE || key == KEY_ENTER)
		t->is_typing = false;
	else if (key == KEY_BACKSPACE && length)
		filter[length - 1] = '\0';
	else if (key >= ' ' && key < 256 && length + 1 < sizeof(t->view.filter))
		filter[length] = (char)key;
}

static void move(struct top *t, long by)
{
	long at = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->programs.all.data[i].pid == t->view.selected)
			at = (long)i;
	at = MAX(MIN(at + by, (long)t->count - 1), 0L);
	t->view.selected = t->count ? t->programs.all.data[at].pid : 0;
}

/* Returns false if the user leaves. */
static bool press(struct top *t, int key)
{
	t->problem.text[0] = '\0';
	if (key == KEY_END)
		return false;
	if (t->is_typing) {
		type(t, key);
		return true;
	}
	switch (key) {
	case 'q':
		return false;
	case KEY_CTRL('Z'):
		return screen_suspend() >= 0;
	case KEY_CTRL('L'):
		screen_clear();
		break;
	case KEY_UP:
	case 'k':
		move(t, -1);
		break;
	case KEY_DOWN:
	case 'j':
		move(t, 1);
		break;
	case KEY_PAGE_UP:
		move(t, -10);
		break;
	case KEY_PAGE_DOWN:
		move(t, 10);
		break;
	case 's':
		t->view.sort = (t->view.sort + 1) % TOP_SORTS;
		break;
	case 'r':
		t->view.reverse = !t->view.reverse;
		break;
	case '/':
		t->is_typing = true;
		break;
	case ' ':
		t->is_paused = !t->is_paused;
		break;
	default:
		break;
	}
	return true;
}

/* --- the loop --- */

/*
 * Serves attached processes meanwhile, and looks for keys at least once, however late it is.
 * Returns false if the user leaves.
 */
static bool wait_until(struct top *t, uint64_t until_ns)
{
	int fd = t->programs.attach.server.fd, key;
	uint64_t now_ns;

	do {
		uint64_t wake_ns = until_ns;

		now_ns = clock_monotonic_ns();
		if (fd >= 0)
			wake_ns = MIN(until_ns, now_ns + SERVE_NS);
		if (t->is_screen) {
			key = keys_wait(wake_ns, fd);
			if (key && !press(t, key))
				return false;
			set_prompt(t);
			if (draw(t) != EXIT_DONE)
				return false;
		} else {
			terminal_wait(wake_ns, NULL, 0);
		}
		live_attach_serve(&t->programs.attach);
	} while (!terminal_stop_signal && now_ns < until_ns);
	return !terminal_stop_signal;
}

static int read_once(struct top *t)
{
	monitor_read(&t->monitor);
	return programs_read(&t->programs, &t->monitor, &t->problem);
}

/* The first reading shows whom there is; what is a rate needs a second one. */
static int begin(struct top *t)
{
	int rc = read_once(t);

	if (rc < 0 || !t->programs.named_count)
		return rc;
	if (programs_attach(&t->programs, &t->problem) < t->programs.all.count)
		error_prefix(&t->problem, "no GPU work is shown");
	if (!t->is_screen && *t->problem.text)
		cli_note(t->context, "%s", t->problem.text);
	set_prompt(t);
	return 0;
}

static int loop(struct top *t)
{
	uint64_t next_ns = clock_monotonic_ns();
	int rc = begin(t), status = EXIT_DONE;

	while (rc >= 0 && status == EXIT_DONE) {
		next_ns = MAX(next_ns + option_interval, clock_monotonic_ns());
		if (t->is_screen && draw(t) != EXIT_DONE)
			return EXIT_FAILED;
		if (!wait_until(t, next_ns))
			break;
		if (t->is_paused)
			continue;
		rc = read_once(t);
		if (rc >= 0 && !t->is_screen)
			status = print(t);
		if (option_once)
			break;
	}
	if (t->is_screen)
		screen_close(); /* before errors are printed */
	return rc < 0 ? cli_fail(t->context, &t->problem) : status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct top t = { .context = c, .monitor = MONITOR_INIT, .programs = PROGRAMS_INIT };
	struct error e = { 0 };
	int status = read_pids(c, &t.programs);

	(void)argc, (void)argv;
	if (status != EXIT_DONE)
		return status;
	if (option_interval < INTERVAL_LEAST_NS)
		return cli_usage(c, "--interval takes a time of at least 100ms");
	snprintf(t.view.filter, sizeof(t.view.filter), "%s", option_filter);
	t.view.sort = option_sort;
	t.programs.top = (size_t)option_top;
	c->pager = false;
	t.is_screen = !c->json && !option_once && screen_is_possible();
	option_once |= !t.is_screen && !c->json;
	if (monitor_open(&t.monitor, &e) < 0) {
		monitor_release(&t.monitor);
		return cli_fail(c, &e);
	}
	if (!t.monitor.gpu_count)
		cli_note(c, "no GPUs: %s", strbuf_text(&t.monitor.no_gpus));
	terminal_catch_signals();
	status = t.is_screen && screen_open() < 0 ? cli_failf(c, "cannot use the terminal")
						  : loop(&t);
	programs_release(&t.programs);
	monitor_release(&t.monitor);
	return status;
}

const struct command cmd_top = {
	.name = "top",
	.group = COMMAND_RECORD,
	.summary = "show the programs that use GPUs, and what they do there",
	.usage = "[options]",
	.description =
		"Shows the programs on the GPUs, a screen that is redrawn in place: their share of "
		"the GPU and its memory, as the driver says, and their CPU time. Of programs that "
		"are being recorded, by `pitot record` or with -p, also launches a second, the "
		"time that the GPU is busy, the call in which they wait, and for the selected one "
		"its busiest kernels and the lines that launch them, over the last two seconds of "
		"its GPU work.\n\n"
		"Where standard output is no terminal it prints one table and ends; with --json "
		"one "
		"object a line, until Ctrl-C or with --once only one. A value that is unknown is "
		"shown as '-', and is null.",
	.options = options,
	.examples = examples,
	.notes = "KEYS\n\nq leaves; the arrows, j and k, and the page keys select a program; s "
		 "sorts "
		 "by the next column, r turns the order around; / types a filter, Enter keeps it "
		 "and Escape removes it; space pauses; Ctrl-L draws everything again.",
	.run = run,
};
