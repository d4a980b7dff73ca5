/* cmd_report.c: `pitot report`. */
#include <stdio.h>
#include <string.h>

#include "analysis/job_report.h"
#include "base/output.h"
#include "cli/report_flame.h"
#include "cli/source_print.h"
#include "cli/ui.h"
#include "cli/window.h"
#include "read/read_report.h"
#include "report/section.h"

static const char *const scope_choices[] = { "all", "pitot", "nvtx", NULL };

static uint64_t option_top = 10, option_callers = 2, option_process, option_device, option_stream;
static struct window_options option_window;
static bool top_given, process_given, device_given, stream_given, option_full_names, scopes_given,
	option_system, option_stalls, option_counters, option_collectives, option_ranks,
	option_critical_path, option_states, option_steps, option_memory, option_force,
	option_flame = true;

static int option_by = HOTSPOT_KERNEL, option_graphs, option_scopes;
static const char *option_kernel, *option_scope, *option_price, *option_source, *option_output,
	*option_step;

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "FILE",
	       "write the report as an HTML page: x.html, or - for standard output; x.svg: the "
	       "roofline of kernels with hardware counters, as a picture",
	       .is_path = true),
	FLAG("force", 'f', option_force, "replace a file that exists"),
	OPTION_FILE_MODE("mode"),
	OPTION(U64, "top", 'n', option_top, "N",
	       "rows per table (default 10, with --json all); 0 for all", .given = &top_given),
	OPTION(ENUM, "by", 0, option_by, "WHAT",
	       "group kernels by kernel, config, stream, device, thread, scope (or nvtx), or "
	       "caller: the line of the program that launched them",
	       .choices = hotspot_by_names),
	OPTION(ENUM, "scopes", 0, option_scopes, "WHICH",
	       "show the tree of scopes; WHICH ranges count as scopes, also for --by and --scope: "
	       "all (default), pitot: the program's own scopes, or nvtx: pushed NVTX ranges",
	       .given = &scopes_given, .choices = scope_choices, .bare = "all"),
	OPTION(U64, "callers", 0, option_callers, "N",
	       "launching lines to show per kernel, at most 8 (default 2; 0: none)",
	       .group = "stacks and names"),
	WINDOW_OPTIONS(option_window),
	STEP_OPTION(option_step),
	GRAPHS_OPTION(option_graphs,
		      "kernels of CUDA graphs belong to the line of the graph's launch (default), "
		      "or capture: to the line that captured them"),
	OPTION_PROCESS("only this process"),
	OPTION_RANK(RANK_HELP),
	OPTION(U64, "device", 0, option_device, "N", "only the GPU with this CUDA ordinal",
	       .given = &device_given),
	OPTION(U64, "stream", 0, option_stream, "N", "only kernels and copies of this stream",
	       .given = &stream_given, .group = "selection"),
	KERNEL_OPTION(option_kernel),
	SCOPE_OPTION(option_scope),
	FLAG("system", 0, option_system,
	     "also show readings of the GPUs and the machine, during GPU work and outside of it"),
	FLAG("critical-path", 0, option_critical_path,
	     "show the chain of causes that made the window as long as it is, by kernel, copy, "
	     "latency, call and line"),
	FLAG("steps", 0, option_steps,
	     "show how long steps of a training or another loop take, and why some are slow"),
	OPTION(STRING, "price", 0, option_price, "PRICE/h",
	       "with --steps, which it implies: what steps, kernels and scopes cost if an hour of "
	       "a GPU costs PRICE, such as 2.50/h",
	       .group = "output"),
	FLAG("memory", 0, option_memory,
	     "show who owns the memory at its peak, what grows, and calls that allocate in steps"),
	FLAG("states", 0, option_states,
	     "show what GPUs and streams did: running, queued, waiting for other streams, starved "
	     "by the host, idle"),
	FLAG("stalls", 0, option_stalls,
	     "show stall reasons of kernels by line and instruction, and what helps (needs a "
	     "recording made with --engine pc-sampling)"),
	OPTION(STRING, "source", 0, option_source, "FILE:LINE|KERNEL",
	       "instead of the report, show the hottest source lines of kernels, or a line or "
	       "kernel with its instructions (like `pitot source`)",
	       .bare = ""),
	FLAG("counters", 0, option_counters,
	     "show hardware counters of kernels (needs a recording made with --engine "
	     "range-profiler)"),
	FLAG("ranks", 0, option_ranks,
	     "only compare the ranks of a job; reads one process after the other, so that "
	     "thousands fit into memory"),
	FLAG("collectives", 0, option_collectives,
	     "show the collectives of several ranks by function, size and communicator, and when "
	     "ranks waited for which other ones",
	     .group = "output"),
	FLAG("flame", 0, option_flame,
	     "-o x.html: end the page with a flame graph, if stacks were recorded (default: on)",
	     .negatable = true, .group = "output"),
	FLAG("full-names", 0, option_full_names, "kernel names with all their parameters",
	     .group = "stacks and names"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot report", "the newest recording in this folder" },
	{ "pitot report train.pitot --since 10s --until 12s", "two seconds of it" },
	{ "pitot report --step 100..110", "these steps, on all ranks" },
	{ "pitot report --scopes", "the tree of scopes and NVTX ranges" },
	{ "pitot report --scope 'step/forward'", "what was launched in them" },
	{ "pitot report --by caller", "GPU time by the line that launched the work" },
	{ "pitot report -o train.html", "as a page, to show to others" },
	{ "pitot report --ranks", "which rank of a job delays the others" },
	{ "pitot report --system", "power, clocks and throttling while the GPUs worked" },
	{ "pitot report --steps", "how long steps take, and why some are slow" },
	{ "pitot report --memory", "who owns the memory at its peak" },
	{ "pitot report --critical-path", "which chain of causes made it as long as it is" },
	{ "pitot report --stalls", "what kernels waited for, by source line" },
	{ "pitot report --source=kernel.cu:16", "a source line with its instructions" },
	{ "pitot report --counters", "what hardware counters say of kernels" },
	{ "pitot report -o roofline.svg", "their roofline, as a picture" },
	{ "pitot report --kernel '*gemm*' --full-names", "only matrix multiplications" },
	{ NULL, NULL },
};

static int make_filter(const struct context *c, const struct trace *t, struct filter *f)
{
	int status;

	*f = (struct filter)FILTER_ALL;
	status = window_resolve(c, t, &option_window, &f->since_ns, &f->until_ns);
	if (status != EXIT_DONE)
		return status;
	if (option_process > UINT32_MAX || option_device > UINT32_MAX || option_stream > UINT32_MAX)
		return cli_usage(c, "--process, --device and --stream take numbers below 2^32");
	f->pid = process_given ? (int64_t)option_process : -1;
	f->device = device_given ? (int64_t)option_device : -1;
	f->stream = stream_given ? (int64_t)option_stream : -1;
	f->kernel = option_kernel;
	f->scope = option_scope;
	return EXIT_DONE;
}

/* Sets the window to the steps that --step names. */
static int find_steps(const struct context *c, struct trace *t, struct filter *f)
{
	struct report_options wanted = { .filter = *f, .steps = true };
	struct error e = { 0 };
	struct report whole;
	int status;

	wanted.filter.kernel = wanted.filter.scope = NULL;
	if (report_init(&whole, t, &wanted, &e) < 0)
		return cli_fail(c, &e);
	status = window_of_steps(c, &whole, option_step, &f->since_ns, &f->until_ns);
	report_release(&whole);
	return status;
}

static bool is_picture(void)
{
	return option_output && output_path_ends(option_output, ".svg");
}

static int check_output(const struct context *c)
{
	if (!option_output)
		return cli_file_mode ? cli_usage(c, "--mode needs -o FILE") : EXIT_DONE;
	if (c->json)
		return cli_usage(c, "--json goes to standard output: leave out -o");
	if (!strcmp(option_output, "-") && isatty(STDOUT_FILENO))
		return cli_usage(c, "standard output is a terminal: name a file with -o");
	if (strcmp(option_output, "-") && !output_path_ends(option_output, ".html .htm .svg"))
		return cli_usage(c,
				 "'%s' is no page: name it x.html, or x.svg for the roofline; "
				 "text goes to standard output",
				 option_output);
	return EXIT_DONE;
}

static int no_roofline(const struct context *c)
{
	return cli_failf(c,
			 "'%s': no selected kernel has operations and bytes for a roofline; to "
			 "measure them: pitot record --engine range-profiler --metrics "
			 "roofline,tensor",
			 option_output);
}

static int write_page(const struct context *c, const struct strbuf *page)
{
	struct error e = { 0 };
	struct output *output;
	int rc;

	if (page->failed)
		return cli_failf(c, "out of memory");
	output = output_open(option_output, option_force, &e);
	if (!output)
		return cli_fail(c, &e);
	output_write(output, page->data, page->length);
	rc = output_commit(&output, NULL, &e);
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

static unsigned width_of(const struct context *c)
{
	return option_output ? REPORT_WIDTH_MAX
			     : MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX);
}

static int print(const struct context *c, const struct report *r, const char *path)
{
	_cleanup_strbuf_ struct strbuf flame = STRBUF_INIT;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	struct report_view view = {
		.report = r,
		.path = path,
		.width = width_of(c),
		.color = c->color,
		.html = option_output != NULL,
		.bars = isatty(STDOUT_FILENO) && terminal_shows_utf8(),
		.system = option_system,
		.full_names = option_full_names,
		.callers = option_callers,
		.top = option_top,
		.out = &out,
	};
	int status = EXIT_DONE;

	if (view.html && option_flame && !is_picture() && report_flame(r, path, &flame, &e) < 0)
		return cli_fail(c, &e);
	view.flame = strbuf_text(&flame);
	if (c->json)
		report_print_json(&view);
	else if (is_picture())
		status = roofline_picture(&view, &out) ? EXIT_DONE : no_roofline(c);
	else if (option_output)
		report_print_html(&view);
	else
		report_print_text(&view);
	if (status == EXIT_DONE)
		status = option_output ? write_page(c, &out) : cli_print(c, &out);
	return status;
}

/* `--ranks`: the part of the report that is about a job. */
static int print_ranks(const struct context *c, const char *recording)
{
	struct report_options everything = { .filter = FILTER_ALL,
					     .critical_path = option_critical_path,
					     .collectives = option_collectives };
	_cleanup_free_ char *path = NULL;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	struct report report;
	struct report_view view = {
		.report = &report,
		.width = width_of(c),
		.color = c->color,
		.html = option_output != NULL,
		.bars = isatty(STDOUT_FILENO) && terminal_shows_utf8(),
		.top = option_top,
		.out = &out,
	};
	bool is_damaged;
	int status;

	if (option_step || option_window.since_given || option_window.until_given)
		return cli_usage(
			c, "--ranks reads whole processes: leave it out; with --step, --since "
			   "and --until the report compares ranks, too");
	if (is_picture())
		return cli_usage(c, "--ranks has no picture: name a page, x.html, with -o");
	status = check_output(c);
	if (status != EXIT_DONE)
		return status;
	path = cli_find_recording(c, recording, &e);
	if (!path || job_report_init(&report, path, &everything, &is_damaged, &e) < 0)
		return cli_fail(c, &e);
	if (is_damaged)
		cli_warn(c, "parts of the recording are damaged or missing and left out here; "
			    "`pitot info --verify` lists them");
	view.path = path;
	report_print_ranks(&view, c->json);
	status = option_output ? write_page(c, &out) : cli_print(c, &out);
	report_release(&report);
	return status;
}

/* "2.50/h" */
static int parse_price(const char *text, uint64_t *millionths)
{
	size_t length = strlen(text);
	uint64_t billionths;
	char number[32]; /* which has the syntax of a time in seconds */

	if (length < 3 || strcmp(text + length - 2, "/h") != 0 ||
	    (size_t)snprintf(number, sizeof(number), "%.*ss", (int)length - 2, text) >=
		    sizeof(number) ||
	    parse_duration(number, &billionths) < 0)
		return -EINVAL;
	*millionths = billionths / 1000;
	return *millionths ? 0 : -EINVAL;
}

static int run(struct context *c, int argc, char **argv)
{
	struct report_options report_options = {
		.by = hotspot_by_choice(option_by),
		.scopes = (enum scope_choice)option_scopes,
		.scope_tree = scopes_given,
		.stalls = option_stalls,
		.counters = option_counters || is_picture(),
		.critical_path = option_critical_path,
		.states = option_states,
		.steps = option_steps,
		.memory = option_memory,
		.captures = option_graphs,
		.collectives = option_collectives,
	};
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct error e = { 0 };
	struct progress progress;
	struct report report;
	int status, code;

	(void)argc;
	if (!strcmp(argv[0], cmd_report.alias))
		report_options.critical_path = report_options.states = report_options.steps = true;
	if (option_price && parse_price(option_price, &report_options.price_millionths) < 0)
		return cli_usage(c,
				 "--price takes what an hour of a GPU costs, such as 2.50/h, not "
				 "'%s'",
				 option_price);
	report_options.steps |= option_price != NULL;
	if (!option_top || (c->json && !top_given))
		option_top = UINT64_MAX;
	if (option_callers > HOTSPOT_CALLERS_MAX)
		return cli_usage(c, "--callers takes a number up to %u", HOTSPOT_CALLERS_MAX);
	report_options.callers_of = option_callers ? option_top : 0;
	if (option_ranks)
		return print_ranks(c, argv[1]);
	status = check_output(c);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, argv[1], &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	status = make_filter(c, trace, &report_options.filter);
	if (status == EXIT_DONE && option_step)
		status = find_steps(c, trace, &report_options.filter);
	if (status == EXIT_DONE && option_source) {
		status = source_print(
			c, trace,
			&(struct source_print){ .filter = report_options.filter,
						.at = *option_source ? option_source : NULL,
						.limit_s = SOURCE_LIMIT_S,
						.top = option_top },
			&progress);
	} else if (status == EXIT_DONE) {
		code = report_init(&report, trace, &report_options, &e);
		progress_end(&progress);
		if (code < 0) {
			status = cli_fail(c, &e);
		} else {
			status = report_check_filter(&report, &e) < 0 ? cli_usage(c, "%s", e.text)
								      : print(c, &report, path);
			report_release(&report);
		}
	}
	trace_free(trace);
	return status;
}

const struct command cmd_report = {
	.name = "report",
	.group = COMMAND_SHOW,
	.alias = "analyze",
	.alias_options = "--steps --critical-path --states",
	.summary = "show where the time went, on one screen",
	.usage = "[options] [RECORDING]",
	.description = "Shows what bounds the program, with the evidence: how long each GPU was "
		       "busy (union of intervals and sum of durations), why it was idle and for "
		       "how long at a time, which kernels took the time, copies with the bandwidth "
		       "that they achieved, calls that waited, the cost of launching, CUDA graphs, "
		       "what is missing from the recording, and what Pitot itself cost.\n\n"
		       "Without RECORDING it reads the newest *.pitot in the current folder. A row "
		       "belongs to a time window if it starts in the window. The verdict and the "
		       "busy and idle times are about whole GPUs: --stream, --kernel and --scope "
		       "do not change them.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.run = run,
};
