/* cmd_timeline.c: `pitot timeline`: what GPUs, streams and threads did over time, in a terminal. */
#include <errno.h>
#include <string.h>

#include "cli/ui.h"
#include "cli/window.h"
#include "read/read_report.h"
#include "report/timeline_view.h"

static uint64_t option_top = 4, option_process, option_device;
static bool process_given, device_given;
static struct window_options option_window;
static const char *option_step;

static const struct option options[] = {
	WINDOW_OPTIONS(option_window),
	STEP_OPTION(option_step),
	OPTION(U64, "top", 'n', option_top, "N",
	       "streams of each GPU, and threads, to show (default 4); 0 for all"),
	OPTION_PROCESS("only this process"),
	OPTION(U64, "device", 0, option_device, "N", "only the GPU with this CUDA ordinal",
	       .given = &device_given, .group = "selection"),
	OPTION_RANK(RANK_HELP),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot timeline", "the newest recording in this folder" },
	{ "pitot timeline train.pitot --since 10s --until 12s", "two seconds of it" },
	{ "pitot timeline --step 17..19", "three steps" },
	{ NULL, NULL },
};

static int print(const struct context *c, const struct report *r, const struct steps *steps,
		 const char *path)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view view = {
		.report = r,
		.path = path,
		.width = MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX),
		.color = c->color,
		.bars = terminal_shows_utf8(),
		.top = option_top ? option_top : UINT64_MAX,
		.out = &out,
	};
	int code = c->json ? timeline_json(&view, steps) : timeline_text(&view, steps), status;

	status = code == -ENODATA ? cli_failf(c, "nothing to show: no GPU work and no CUDA calls "
						 "here; `pitot report` says why")
		 : code < 0       ? cli_failf(c, "out of memory")
				  : cli_print(c, &out);
	return status;
}

/* Steps are found in the whole recording; then the window is analyzed. */
static int print_window(const struct context *c, struct trace *trace, struct report *whole,
			const char *path)
{
	struct report_options report_options = { .filter = whole->options.filter };
	struct filter *f = &report_options.filter;
	struct error e = { 0 };
	struct report report;
	int status = window_resolve(c, trace, &option_window, &f->since_ns, &f->until_ns);

	if (status == EXIT_DONE && option_step)
		status = window_of_steps(c, whole, option_step, &f->since_ns, &f->until_ns);
	if (status != EXIT_DONE)
		return status;
	if (report_init(&report, trace, &report_options, &e) < 0)
		return cli_fail(c, &e);
	status = print(c, &report, whole->steps, path);
	report_release(&report);
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct report_options report_options = { .filter = FILTER_ALL, .steps = true };
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct error e = { 0 };
	struct progress progress;
	struct report whole;
	int status;

	(void)argc;
	if (option_process > UINT32_MAX || option_device > UINT32_MAX)
		return cli_usage(c, "--process and --device take numbers below 2^32");
	report_options.filter.pid = process_given ? (int64_t)option_process : -1;
	report_options.filter.device = device_given ? (int64_t)option_device : -1;
	status = cli_open_trace(c, argv[1], &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	if (report_init(&whole, trace, &report_options, &e) < 0) {
		status = cli_fail(c, &e);
	} else {
		progress_end(&progress);
		status = report_check_filter(&whole, &e) < 0 ? cli_usage(c, "%s", e.text)
							     : EXIT_DONE;
		if (status == EXIT_DONE)
			status = option_step || option_window.since_given ||
						 option_window.until_given
					 ? print_window(c, trace, &whole, path)
					 : print(c, &whole, whole.steps, path);
		report_release(&whole);
		cli_warn_loss(c, trace);
	}
	trace_free(trace);
	return status;
}

const struct command cmd_timeline = {
	.name = "timeline",
	.group = COMMAND_LOOK_INTO,
	.summary = "show what GPUs, streams and threads did over time, in the terminal",
	.usage = "[options] [RECORDING]",
	.description = "Shows a lane for each GPU, for its busiest streams, and for the threads "
		       "that launch work: the darker a character, the larger the part of its time "
		       "in which something ran; of threads, CUDA calls, and ~ where they mostly "
		       "waited. Above them are the steps, below each GPU letters at its longest "
		       "gaps, whose causes are listed. `pitot export -o x.html` writes a page with "
		       "every event.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.run = run,
};
