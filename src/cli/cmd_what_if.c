/* cmd_what_if.c: `pitot what-if`: what a change would bring. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ui.h"
#include "cli/window.h"
#include "read/read_report.h"
#include "report/what_if_view.h"

#define CALL_COST_MAX_NS UINT64_C(1000000) /* a number without a unit is seconds */

static uint64_t option_top = 15, option_call_ns, option_process;
static bool call_given, process_given;
static struct window_options option_window;

static const struct option options[] = {
	OPTION(DURATION, "call-cost", 0, option_call_ns, "TIME",
	       "what recording adds to each launching call, such as 1.2us; 0us: nothing (default: "
	       "what `pitot calibrate` measured on this machine, else 1.4us, uncertain by as much "
	       "as these calls took)",
	       .given = &call_given),
	OPTION(U64, "top", 'n', option_top, "N",
	       "without transforms: rows to show (default 15); 0 for all"),
	WINDOW_OPTIONS(option_window),
	OPTION_PROCESS("this process (default: the one with most GPU work)"),
	OPTION_RANK(RANK_HELP),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot what-if", "what to work on: everything, by what half of its cost would bring" },
	{ "pitot what-if train.pitot 'kernel:*gemm* x0.5'", "if these kernels took half" },
	{ "pitot what-if 'launch -2us' 'sync:cudaStreamSynchronize remove'",
	  "two changes together" },
	{ "pitot what-if 'graph step launch=10us'", "if each step were launched as a CUDA graph" },
	{ NULL, NULL },
};

struct rules {
	struct what_if_rule *items;
	size_t count;
};

static void rules_release(struct rules *r)
{
	for (size_t i = 0; i < r->count; i++)
		what_if_rule_release(&r->items[i]);
	free(r->items);
}

/* A transform has a blank, and is no file. */
static bool is_recording(const char *operand)
{
	return !strchr(operand, ' ') || access(operand, F_OK) == 0;
}

static int parse_rules(const struct context *c, int argc, char **argv, int first, struct rules *out)
{
	struct error e = { 0 };

	out->items = calloc((size_t)argc + 1, sizeof(*out->items));
	if (!out->items)
		return cli_failf(c, "out of memory");
	for (int i = first; i < argc; i++)
		if (what_if_parse(&out->items[out->count++], argv[i], &e) < 0)
			return cli_fail(c, &e);
	return EXIT_DONE;
}

static int predict(const struct context *c, struct what_if *w, struct rules *rules)
{
	struct error e = { 0 };
	int code = 0;

	for (size_t i = 0; i < rules->count && code >= 0; i++)
		code = what_if_match(w, &rules->items[i], &e);
	if (code >= 0)
		code = what_if_check(rules->items, rules->count, &e);
	if (code < 0)
		return cli_fail(c, &e);
	code = rules->count ? what_if_predict(w, rules->items, rules->count)
			    : what_if_candidates(w);
	return code < 0 ? cli_failf(c, "out of memory") : EXIT_DONE;
}

static int print(const struct context *c, const struct report *r, const char *path,
		 const struct what_if *w, const struct rules *rules)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view view = {
		.report = r,
		.path = path,
		.width = MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX),
		.color = c->color,
		.top = option_top,
		.out = &out,
	};

	if (c->json)
		what_if_json(&view, w, rules->items, rules->count);
	else
		what_if_text(&view, w, rules->items, rules->count);
	return cli_print(c, &out);
}

/* Says why a calibration that is there was not used. */
static void note_ignored(const struct context *c, const struct what_if *w, const char *path,
			 int found, const struct calibration *calibration, struct error *e)
{
	const struct trace *t = w->report->trace;

	if (w->call_source != CALL_COST_assumption || found == -ENOENT ||
	    !trace_process(t, w->process)->inside)
		return;
	if (found < 0 || calibration_fits(calibration, t, w->process, e) < 0)
		cli_note(c, "'%s' is ignored: %s", path, e->text);
}

static int simulate_report(const struct context *c, struct report *r, const char *path,
			   struct rules *rules)
{
	_cleanup_strbuf_ struct strbuf cache = STRBUF_INIT;
	struct error e = { 0 }, ignored = { 0 };
	struct calibration calibration;
	int found = calibration_read(&calibration, &cache, &ignored), status;
	struct what_if w;

	if (report_check_filter(r, &e) < 0)
		return cli_usage(c, "%s", e.text);
	if (option_call_ns > CALL_COST_MAX_NS)
		return cli_usage(c, "--call-cost takes a time of at most 1ms, such as 1.2us");
	if (what_if_init(&w, r, call_given ? &option_call_ns : NULL,
			 found < 0 ? NULL : &calibration, &e) < 0)
		return cli_fail(c, &e);
	note_ignored(c, &w, strbuf_text(&cache), found, &calibration, &ignored);
	status = predict(c, &w, rules);
	if (status == EXIT_DONE)
		status = print(c, r, path, &w, rules);
	what_if_release(&w);
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct report_options report_options = { .filter = FILTER_ALL,
						 .steps = true,
						 .paces = true };
	struct filter *f = &report_options.filter;
	int first = argc > 1 && is_recording(argv[1]) ? 2 : 1, status;
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	_cleanup_(rules_release) struct rules rules = { 0 };
	struct error e = { 0 };
	struct progress progress;
	struct report report;

	if (!option_top)
		option_top = UINT64_MAX;
	if (option_process > UINT32_MAX)
		return cli_usage(c, "--process takes a number below 2^32");
	status = parse_rules(c, argc, argv, first, &rules);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, first == 2 ? argv[1] : NULL, &progress, &path, &trace);
	if (status == EXIT_DONE)
		status = window_resolve(c, trace, &option_window, &f->since_ns, &f->until_ns);
	f->pid = process_given ? (int64_t)option_process : -1;
	if (status == EXIT_DONE && report_init(&report, trace, &report_options, &e) < 0)
		status = cli_fail(c, &e);
	else if (status == EXIT_DONE) {
		progress_end(&progress);
		status = simulate_report(c, &report, path, &rules);
		report_release(&report);
		cli_warn_loss(c, trace);
	}
	trace_free(trace);
	return status;
}

const struct command cmd_what_if = {
	.name = "what-if",
	.group = COMMAND_LOOK_INTO,
	.summary = "predict what a change would bring, by simulation",
	.usage = "[options] [RECORDING] ['TRANSFORM' ...]",
	.description =
		"Simulates the calls and the GPU work of a recording with other costs, and prints "
		"the step time as it was recorded, corrected for what recording adds, and "
		"predicted, with its uncertainty and what then bounds it. Without transforms it "
		"prints what halving the cost of each kernel, call and line would bring: what to "
		"work on.\n\n"
		"A transform is one argument: what is changed, and how. kernel:GLOB, copy or "
		"copy:HtoD, memset, gpu (all work), launch (what launching calls cost), call:GLOB, "
		"host or host:GLOB (the program's own time, by line), cpu (host and calls); then "
		"x0.5, =20us, -2us, +2us or remove. python or python:GLOB: the same of lines of "
		"Python. sync or sync:GLOB with remove: the call does not wait. 'graph step' or "
		"'graph SCOPE': its launches are one CUDA graph. 'fuse 4', 'fuse:GLOB 4 x0.8': so "
		"many short kernels that follow each other are one. 'copies pinned': from and to "
		"pinned memory. 'overlap copies': beside kernels. 'streams merge', 'streams split "
		"SCOPE'. 'batch x2'. Of ranks, which are simulated together: comm (transfers of "
		"collectives), wait (what collectives only wait), 'no straggler' (no rank's own "
		"work before a collective is longer than the median rank's; 'no straggler 3': not "
		"that of rank 3).",
	.options = options,
	.takes_recording = true,
	.operands_max = 64,
	.examples = examples,
	.run = run,
};
