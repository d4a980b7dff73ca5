/* cmd_flame.c: `pitot flame`: time by call stack. */
#include <errno.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/main_process.h"
#include "base/human.h"
#include "base/json.h"
#include "base/output.h"
#include "cli/flame_print.h"
#include "cli/ui.h"
#include "cli/window.h"
#include "export/flame/flame_formats.h"

static const char *const mode_choices[] = { "merged",   "gpu",    "cpu",    "wait",
					    "launches", "stalls", "memory", NULL };
enum { MODE_MERGED, MODE_GPU, MODE_CPU, MODE_WAIT, MODE_LAUNCHES, MODE_STALLS, MODE_MEMORY };

static const char *const by_choices[] = { "stack",  "thread", "stream", "process",
					  "device", "scope",  "nvtx",   NULL };
enum { BY_STACK, BY_THREAD, BY_STREAM, BY_PROCESS, BY_DEVICE, BY_SCOPE, BY_NVTX };

static const char *option_output, *option_focus, *option_ignore, *option_diff,
	*option_least = "0.5", *option_title, *option_scope;
static struct option_list option_where;
static struct window_options option_window;
static uint64_t option_depth;
static bool format_given, least_given, depth_given, option_inverted, option_full_names,
	option_interpreter, option_xpu_perf, option_force, option_lines = true, lines_given;
static int option_format, option_mode, option_by, option_graphs;

#define FORMAT_NAME(name, ...) #name,
#define FORMAT_VALUE(name, ...) FORMAT_##name,
static const char *const format_choices[] = { "text", FLAME_FORMATS(FORMAT_NAME) NULL };
enum { FORMAT_text, FLAME_FORMATS(FORMAT_VALUE) };

static const struct option options[] = {
	OPTION(ENUM, "mode", 'm', option_mode, "MODE",
	       "cpu: sampled CPU time, and time off the CPU where that was recorded; gpu: GPU "
	       "time by launching stack; wait: time waiting for the GPU; launches: time in "
	       "launch calls; stalls: samples of kernels by line and by what their warps waited "
	       "for, below the stacks that launched them (recordings made with --engine "
	       "pc-sampling); merged: cpu, gpu and wait, each below a root of its own "
	       "(default)",
	       .choices = mode_choices),
	OPTION(ENUM, "by", 'b', option_by, "WHAT",
	       "put threads, streams, processes, devices or scopes (or nvtx, which is the same) "
	       "below the root",
	       .choices = by_choices),
	OPTION(STRING, "output", 'o', option_output, "FILE",
	       "file to write, - for standard output: x.svg, x.html, x.folded, x.pb.gz, "
	       "x.speedscope.json, x.json (Firefox Profiler), x.otlp",
	       .is_path = true),
	OPTION(ENUM, "format", 0, option_format, NULL,
	       "format of the output (default: by the file's name)", .given = &format_given,
	       .choices = format_choices, .group = "output"),
	OPTION(LIST, "where", 'w', option_where, "CONDITION",
	       "only work, calls and samples that match, as with `pitot view`: COLUMN=VALUE, or != "
	       "< <= > >="),
	WINDOW_OPTIONS(option_window),
	OPTION_RANK(RANK_HELP),
	SCOPE_OPTION(option_scope),
	OPTION(STRING, "focus", 0, option_focus, "REGEX",
	       "only stacks with a frame that matches (POSIX extended)"),
	OPTION(STRING, "ignore", 0, option_ignore, "REGEX", "no stacks with a frame that matches",
	       .group = "stacks and names"),
	FLAG("inverted", 'i', option_inverted, "innermost frames first: what launched each kernel"),
	OPTION(STRING, "diff", 0, option_diff, "OTHER",
	       "compare with an earlier recording: what grew and what shrank since",
	       .is_path = true),
	OPTION(STRING, "min-percent", 0, option_least, "P",
	       "text: hide frames below this percentage (default 0.5)", .given = &least_given,
	       .group = "text"),
	OPTION(U64, "depth", 0, option_depth, "N", "text: levels to show (default all)",
	       .given = &depth_given, .group = "text"),
	GRAPHS_OPTION(option_graphs,
		      "put kernels of CUDA graphs below the stack of the graph's launch (default), "
		      "or capture: below the stack that captured them"),
	FLAG("lines", 0, option_lines,
	     "one frame per line of a Python function (default, except with --diff); --no-lines: "
	     "one per function",
	     .given = &lines_given, .negatable = true, .group = "stacks and names"),
	FLAG("full-names", 0, option_full_names,
	     "names of functions and kernels with all their parameters",
	     .group = "stacks and names"),
	FLAG("interpreter", 0, option_interpreter,
	     "also show the interpreter's own frames that lead to Python frames (pprof always has "
	     "them)",
	     .group = "stacks and names"),
	OPTION(STRING, "title", 0, option_title, "TEXT",
	       "title of the picture (default: the recorded command)", .group = "output"),
	FLAG("xpu-perf-compat", 0, option_xpu_perf,
	     "folded: as xpu-perf writes it: samples at 50 Hz below [GPU_Kernel] frames",
	     .group = "output"),
	FLAG("force", 'f', option_force, "replace a file that exists"),
	OPTION_FILE_MODE("file-mode"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot flame", "the newest recording, as a tree" },
	{ "pitot flame train.pitot -o train.html", "an interactive page" },
	{ "pitot flame --mode gpu --inverted", "kernels first, and what launched them" },
	{ "pitot flame --mode cpu --by thread -o cpu.svg", "what each thread did on the CPU" },
	{ "pitot flame --mode memory -o memory.html", "who owns the memory at its peak" },
	{ "pitot flame --by scope -o train.svg", "grouped by the scopes of the launches" },
	{ "pitot flame new.pitot --diff old.pitot -o diff.html", "what grew and what shrank" },
	{ "pitot flame -o train.pb.gz && go tool pprof -http=: train.pb.gz", "with pprof" },
	{ NULL, NULL },
};

/* What to show, and in which format; format NULL: text. */
struct shape {
	unsigned kinds; /* chosen by the recording, and used for that of --diff, too */
	bool cpu_only; /* the recording was made with --cpu-only */
	const struct flame_format *format;
	const char *path; /* "-": standard output */
	bool to_file;
	uint64_t least_tenths;
};

/* Returns NULL for text. */
static const struct flame_format *format_of(int choice)
{
	return choice == FORMAT_text ? NULL : &flame_formats[choice - 1];
}

static int unknown_format(const struct context *c)
{
	_cleanup_strbuf_ struct strbuf formats = STRBUF_INIT;

	file_formats_list(flame_formats, sizeof(*flame_formats), &formats);
	if (c->command != &cmd_flame)
		return cli_usage(c, "--flame: no format has files like '%s'; there are %s",
				 option_output, strbuf_text(&formats));
	return cli_usage(c, "no format has files like '%s': give --format; there are text, %s",
			 option_output, strbuf_text(&formats));
}

static int choose_shape(const struct context *c, struct shape *s)
{
	bool terminal = isatty(STDOUT_FILENO);

	*s = (struct shape){ .path = option_output ? option_output : "-" };
	s->to_file = strcmp(s->path, "-") != 0;
	if (format_given) {
		s->format = format_of(option_format);
	} else if (s->to_file) {
		s->format = flame_format_by_path(s->path);
		if (!s->format)
			return unknown_format(c);
	} else if (option_xpu_perf || (!terminal && !c->json && !least_given && !depth_given)) {
		s->format = format_of(FORMAT_folded);
	}
	if (!s->format && s->to_file)
		return cli_usage(c, "text goes to standard output: leave out -o");
	if (s->format && s->format->by_address && terminal && !s->to_file)
		return cli_usage(c, "standard output is a terminal: name a file with -o");
	if (c->json && s->format && !s->to_file)
		return cli_usage(c, "--json goes to standard output: name a file with -o");
	return EXIT_DONE;
}

/* Parses "0.5" as 5 tenths of a percent. */
static int parse_percent(const char *text, uint64_t *tenths)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || *end || !(percent >= 0 && percent <= 100))
		return -EINVAL;
	*tenths = (uint64_t)(percent * 10 + 0.5);
	return 0;
}

static int check_options(const struct context *c, struct shape *s)
{
	if (option_xpu_perf && s->format != format_of(FORMAT_folded))
		return cli_usage(c, "--xpu-perf-compat is a kind of folded stacks: name the file "
				    "x.folded");
	if (cli_file_mode && !s->to_file)
		return cli_usage(c, "--file-mode needs -o FILE");
	if (option_xpu_perf && option_mode >= MODE_WAIT)
		return cli_usage(c, "--xpu-perf-compat knows only --mode merged, gpu and cpu");
	if (option_diff && s->format && !s->format->diff)
		return cli_usage(c, "%s cannot show a comparison; text, folded, svg and html can%s",
				 s->format->file.name,
				 s->format->by_address
					 ? "; pprof compares two files: go tool pprof -diff_base"
					 : "");
	if (parse_percent(option_least, &s->least_tenths) < 0)
		return cli_usage(c, "--min-percent: '%s' is not a number from 0 to 100",
				 option_least);
	return EXIT_DONE;
}

static unsigned wanted_kinds(const struct shape *s, unsigned recorded)
{
	const unsigned cpu = 1 << FLAME_CPU, off_cpu = 1 << FLAME_OFF_CPU;
	unsigned device = 1 << FLAME_GPU | 1 << FLAME_WAIT;

	switch (option_mode) {
	case MODE_CPU:
		return cpu | (option_xpu_perf ? 0 : recorded & off_cpu);
	case MODE_GPU:
		return 1 << FLAME_GPU;
	case MODE_WAIT:
		return 1 << FLAME_WAIT;
	case MODE_LAUNCHES:
		return 1 << FLAME_LAUNCHES;
	case MODE_STALLS:
		return 1 << FLAME_STALLS;
	case MODE_MEMORY:
		return 1 << FLAME_MEMORY;
	default:
		break;
	}
	if (option_xpu_perf)
		return 1 << FLAME_GPU | (recorded & cpu);
	/* a program without GPU work has no sections of GPU time */
	if (!(recorded & device) && (recorded & cpu || s->cpu_only))
		device = 0;
	if (s->format && s->format->by_address && device)
		device |= 1 << FLAME_LAUNCHES | (recorded & 1 << FLAME_STALLS);
	recorded &= cpu | off_cpu;
	return device || recorded ? device | recorded : cpu;
}

static bool shows_cpu(void)
{
	return option_mode == MODE_MERGED || option_mode == MODE_CPU;
}

static int choose_kinds(const struct context *c, struct trace *t, struct shape *s)
{
	struct error e = { 0 };

	if (capability_cpu_only(t, &s->cpu_only, &e) < 0)
		return cli_fail(c, &e);
	s->kinds = wanted_kinds(s, flame_kinds_recorded(t));
	return EXIT_DONE;
}

static unsigned wanted_levels(const struct shape *s)
{
	static const unsigned levels[] = {
		[BY_STACK] = 0,
		[BY_THREAD] = 1 << FLAME_BY_THREAD,
		[BY_STREAM] = 1 << FLAME_BY_STREAM,
		[BY_PROCESS] = 1 << FLAME_BY_PROCESS,
		[BY_DEVICE] = 1 << FLAME_BY_DEVICE,
		[BY_SCOPE] = 1 << FLAME_BY_SCOPE,
		[BY_NVTX] = 1 << FLAME_BY_SCOPE,
	};

	if (s->format && s->format->by_address) /* levels of --by are labels */
		return levels[option_by] | 1 << FLAME_BY_PROCESS | 1 << FLAME_BY_THREAD |
		       1 << FLAME_BY_DEVICE | 1 << FLAME_BY_STREAM;
	return levels[option_by];
}

static int make_options(const struct context *c, const struct trace *t, const struct shape *s,
			struct flame_options *o)
{
	*o = (struct flame_options){
		.kinds = s->kinds,
		.levels = wanted_levels(s),
		.detail = option_xpu_perf                      ? STACK_XPU_PERF
			  : s->format && s->format->by_address ? STACK_ADDRESSES
							       : STACK_FUNCTIONS,
		.full_names = option_full_names,
		/* lines move when a program is changed */
		.no_lines = lines_given ? !option_lines : option_diff != NULL,
		.interpreter = option_interpreter,
		.only_kernels = option_xpu_perf,
		.scope = option_scope,
		.captures = option_graphs,
	};
	return window_resolve(c, t, &option_window, &o->since_ns, &o->until_ns);
}

/* Adds up one recording. Returns an exit status; on EXIT_DONE there is a flame graph to release. */
static int build(const struct context *c, struct trace *t, const struct shape *s, struct flame *f)
{
	struct flame_where where = { 0 };
	struct flame_options o;
	struct error e = { 0 };
	int status = make_options(c, t, s, &o), rc = 0;

	if (status != EXIT_DONE)
		return status;
	if (option_where.count) {
		rc = flame_where_init(&where, t, &option_where, &e);
		o.select = flame_where_holds;
		o.user = &where;
	}
	if (rc >= 0)
		rc = flame_init(f, t, &o, &e);
	flame_where_release(&where);
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

/* Adds the recording of --diff. */
static int compare(const struct context *c, const struct shape *s, struct flame *f)
{
	struct trace *trace = NULL;
	struct progress progress;
	struct flame before;
	int status = cli_open_trace(c, option_diff, &progress, NULL, &trace);

	if (status != EXIT_DONE)
		return status;
	status = build(c, trace, s, &before);
	progress_end(&progress);
	if (status == EXIT_DONE) {
		if (flame_compare(f, &before) < 0)
			status = cli_failf(c, "out of memory");
		flame_release(&before);
	}
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

static int print_json(const struct context *c, const struct flame *f)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	flame_print_json(f, &out);
	return cli_print(c, &out);
}

static int print_text(const struct context *c, const struct flame *f, const struct shape *s)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct flame_text text = {
		.flame = f,
		.width = c->width,
		.color = c->color,
		.bars = isatty(STDOUT_FILENO) && terminal_shows_utf8(),
		.least_percent_tenths = s->least_tenths,
		.depth = option_depth,
		.out = &out,
	};

	flame_text_print(&text);
	return cli_print(c, &out);
}

static int write_file(const struct context *c, const struct flame *f, const struct shape *s,
		      const struct flame_write *w)
{
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT, out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	struct error e = { 0 };
	uint64_t bytes = 0;

	terminal_catch_signals();
	if (flame_write(f, s->format, w, s->path, option_force, &bytes, &e) < 0)
		return terminal_stop_signal ? 128 + terminal_stop_signal : cli_fail(c, &e);
	if (c->json) {
		json_object(&j);
		json_key_string(&j, "file", s->path);
		json_key_string(&j, "format", s->format->file.name);
		json_key_u64(&j, "bytes", bytes);
		json_key_u64(&j, "frames", f->tree.nodes.count - 1);
		json_finish(&j);
		return cli_print(c, &out);
	}
	if (s->to_file) {
		human_bytes(&size, bytes);
		cli_note(c, "%s: %s", s->path, strbuf_text(&size));
	}
	return EXIT_DONE;
}

/* An empty graph is an error, and no file is written; with --json a script gets totals of 0. */
static int check_content(const struct context *c, const struct flame *f, const struct shape *s,
			 const char *notes)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	bool narrowed = option_where.count || option_scope || option_window.since_given ||
			option_window.until_given;

	if ((c->json && !s->format) || !flame_print_empty(f, narrowed, &why))
		return EXIT_DONE;
	return cli_failf(c, "nothing to show: %s%s%s", strbuf_text(&why),
			 why.length && notes[0] ? "; " : "", notes);
}

static int show(const struct context *c, struct trace *t, struct flame *f, const struct shape *s,
		const char *path)
{
	_cleanup_strbuf_ struct strbuf notes = STRBUF_INIT;
	struct flame_write w = { .title = option_title,
				 .recording = path,
				 .before = option_diff,
				 .xpu_perf = option_xpu_perf,
				 .cancel = &terminal_stop_signal };
	const struct trace_process *process = main_process(t);
	struct capability_note cpu;
	struct error e = { 0 };
	int status;

	if (flame_filter(f, option_focus, option_ignore, &e) < 0)
		return cli_fail(c, &e);
	if (flame_finish(f, option_inverted) < 0)
		return cli_failf(c, "out of memory");
	if (capability_find(t, feature_cpu, &cpu, &e) < 0)
		return cli_fail(c, &e);
	flame_print_gaps(f, shows_cpu() ? &cpu : NULL, option_mode == MODE_CPU, &notes);
	w.notes = strbuf_text(&notes);
	if (!w.title)
		w.title = !process                           ? path
			  : *capability_app_name(t, process) ? capability_app_name(t, process)
							     : process->command;
	status = check_content(c, f, s, w.notes);
	if (status != EXIT_DONE)
		return status;
	status = s->format ? write_file(c, f, s, &w)
		 : c->json ? print_json(c, f)
			   : print_text(c, f, s);
	if (notes.length && status == EXIT_DONE)
		cli_note(c, "%s", strbuf_text(&notes));
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct progress progress;
	struct flame flame;
	struct shape shape;
	int status = choose_shape(c, &shape);

	(void)argc;
	if (status == EXIT_DONE)
		status = check_options(c, &shape);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, argv[1], &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	status = choose_kinds(c, trace, &shape);
	if (status == EXIT_DONE)
		status = build(c, trace, &shape, &flame);
	progress_end(&progress);
	if (status == EXIT_DONE) {
		if (option_diff)
			status = compare(c, &shape, &flame);
		if (status == EXIT_DONE)
			status = show(c, trace, &flame, &shape, path);
		flame_release(&flame);
	}
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

int flame_prepare(const struct context *c, const struct flame_request *request)
{
	struct error e = { 0 };
	struct output *out;
	struct shape shape;
	int status;

	option_output = request->output;
	option_mode = request->gpu_only ? MODE_GPU : request->cpu_only ? MODE_CPU : MODE_MERGED;
	option_xpu_perf = request->xpu_perf;
	option_force = request->overwrite;
	if (!strcmp(option_output, "-"))
		return cli_usage(c, "--flame takes a file: standard output is the command's");
	status = choose_shape(c, &shape);
	if (status == EXIT_DONE)
		status = check_options(c, &shape);
	if (status != EXIT_DONE)
		return status;
	out = output_open(option_output, option_force, &e);
	if (!out)
		return cli_fail(c, &e);
	output_abort(&out);
	return EXIT_DONE;
}

int flame_write_recording(struct context *c, char *recording)
{
	char *argv[] = { NULL, recording, NULL };
	struct context quiet = *c;

	quiet.json = false; /* the summary of `pitot record` is the JSON, and alone on stderr */
	quiet.quiet |= c->json;
	return run(&quiet, 1, argv);
}

const struct command cmd_flame = {
	.name = "flame",
	.group = COMMAND_SHOW,
	.summary = "show where the time went, by call stack: flame graphs",
	.usage = "[options] [RECORDING]",
	.description =
		"Adds up time by call stack: sampled CPU time; GPU time, with the kernel, copy or "
		"memory set as the innermost frame of the stack that launched it; the time that "
		"threads waited for the GPU; and, if it was recorded, the time that threads spent "
		"off the CPU. Different kinds of time are never added to each other: each has its "
		"own root. The GPU time is the sum of all recorded work, to the nanosecond.\n\n"
		"Without -o it prints a tree on a terminal, and folded stacks (in microseconds) "
		"elsewhere. With -o the file's name decides: x.svg and x.html are interactive "
		"pictures for any browser, x.folded is for flamegraph.pl and similar tools, "
		"x.pb.gz for pprof, x.speedscope.json for speedscope, x.json for the Firefox "
		"Profiler.\n\n"
		"Launches and samples without a stack appear below the name of their thread, work "
		"without a recorded launch below [no launch].",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "1 when there is nothing to show; then no file is written.",
	.run = run,
};
