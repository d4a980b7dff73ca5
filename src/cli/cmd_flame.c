/* cmd_flame.c: `pitot flame`: where time went, by call stack. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "cli/flame_text.h"
#include "cli/flame_where.h"
#include "cli/text_table.h"
#include "cli/ui.h"
#include "export/flame_formats.h"

static const char *const mode_choices[] = { "merged", "gpu", "cpu", "wait", "launches", NULL };
enum { MODE_MERGED, MODE_GPU, MODE_CPU, MODE_WAIT, MODE_LAUNCHES };

static const char *const by_choices[] = { "stack",  "thread", "stream", "process",
					  "device", "nvtx",   NULL };
enum { BY_STACK, BY_THREAD, BY_STREAM, BY_PROCESS, BY_DEVICE, BY_NVTX };

static const char *option_output, *option_format, *option_focus, *option_ignore, *option_diff,
	*option_least = "0.5", *option_title;
static struct option_list option_where;
static uint64_t option_since, option_until, option_depth;
static bool since_given, until_given, least_given, depth_given, option_inverted, option_full_names,
	option_xpu_perf, option_force;
static int option_mode, option_by;

static const struct option options[] = {
	{ .name = "mode",
	  .letter = 'm',
	  .type = OPTION_ENUM,
	  .value = &option_mode,
	  .argument = "MODE",
	  .choices = mode_choices,
	  .help = "gpu: GPU time by launching stack; wait: time waiting for the GPU; launches: "
		  "time "
		  "in launch calls; merged: gpu and wait, each below a root of its own (default); "
		  "cpu: not before recordings have CPU samples" },
	{ .name = "by",
	  .letter = 'b',
	  .type = OPTION_ENUM,
	  .value = &option_by,
	  .argument = "WHAT",
	  .choices = by_choices,
	  .help = "put thread, stream, process, device or nvtx ranges below the root" },
	{ .name = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .value = &option_output,
	  .argument = "FILE",
	  .help = "file to write, - for standard output: x.svg, x.html, x.folded, x.pb.gz, "
		  "x.speedscope.json, x.json (Firefox Profiler)" },
	{ .name = "format",
	  .type = OPTION_STRING,
	  .value = &option_format,
	  .argument = "FORMAT",
	  .help = "text, folded, svg, html, pprof, speedscope or firefox (default: by the file's "
		  "name)" },
	{ .name = "where",
	  .letter = 'w',
	  .type = OPTION_LIST,
	  .value = &option_where,
	  .argument = "CONDITION",
	  .help = "only such work and calls, as with `pitot view`: COLUMN=VALUE, or != < <= > >=" },
	{ .name = "since",
	  .type = OPTION_DURATION,
	  .value = &option_since,
	  .given = &since_given,
	  .argument = "TIME",
	  .help = "from this time after the start of the recording on, such as 1.5s" },
	{ .name = "until",
	  .type = OPTION_DURATION,
	  .value = &option_until,
	  .given = &until_given,
	  .argument = "TIME",
	  .help = "up to this time after the start of the recording" },
	{ .name = "focus",
	  .type = OPTION_STRING,
	  .value = &option_focus,
	  .argument = "REGEX",
	  .help = "only stacks with a frame that matches (POSIX extended)" },
	{ .name = "ignore",
	  .type = OPTION_STRING,
	  .value = &option_ignore,
	  .argument = "REGEX",
	  .help = "no stacks with a frame that matches" },
	{ .name = "inverted",
	  .letter = 'i',
	  .type = OPTION_FLAG,
	  .value = &option_inverted,
	  .help = "innermost frames first: who called each kernel" },
	{ .name = "diff",
	  .type = OPTION_STRING,
	  .value = &option_diff,
	  .argument = "OTHER",
	  .help = "compare with an earlier recording: what grew and what shrank since" },
	{ .name = "min-percent",
	  .type = OPTION_STRING,
	  .value = &option_least,
	  .given = &least_given,
	  .argument = "P",
	  .help = "text: frames below this share are only counted (default 0.5)" },
	{ .name = "depth",
	  .type = OPTION_U64,
	  .value = &option_depth,
	  .given = &depth_given,
	  .argument = "N",
	  .help = "text: levels that are shown (default all)" },
	{ .name = "full-names",
	  .type = OPTION_FLAG,
	  .value = &option_full_names,
	  .help = "functions and kernels with all their parameters" },
	{ .name = "title",
	  .type = OPTION_STRING,
	  .value = &option_title,
	  .argument = "TEXT",
	  .help = "title of the picture (default: the recorded command)" },
	{ .name = "xpu-perf-compat",
	  .type = OPTION_FLAG,
	  .value = &option_xpu_perf,
	  .help = "folded: as xpu-perf writes it, samples at 50 Hz below [GPU_Kernel] frames" },
	{ .name = "force",
	  .letter = 'f',
	  .type = OPTION_FLAG,
	  .value = &option_force,
	  .help = "replace a file that exists" },
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot flame", "the newest recording, as a tree" },
	{ "pitot flame train.pitot -o train.html", "a page to click through" },
	{ "pitot flame --mode gpu --inverted", "kernels first, and who launched them" },
	{ "pitot flame --by nvtx -o train.svg", "below the NVTX ranges of the launches" },
	{ "pitot flame new.pitot --diff old.pitot -o diff.html", "what grew and what shrank" },
	{ "pitot flame -o train.pb.gz && go tool pprof -http=: train.pb.gz", "with pprof" },
	{ NULL, NULL },
};

/* How the graph is shown: a format, or text when format is NULL. */
struct shape {
	const struct flame_format *format;
	const char *path; /* NULL: text */
	uint64_t least_tenths;
};

static int unknown_format(const struct context *c, const char *what)
{
	return cli_usage(c,
			 "%s; there are text, folded (.folded), svg (.svg), html (.html), pprof "
			 "(.pb.gz), speedscope (.speedscope.json), firefox (.json)",
			 what);
}

static int choose_shape(const struct context *c, struct shape *s)
{
	bool terminal = isatty(STDOUT_FILENO);
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;

	*s = (struct shape){ .path = option_output ? option_output : "-" };
	if (option_format) {
		s->format = flame_format_by_name(option_format);
		if (!s->format && strcmp(option_format, "text") != 0) {
			strbuf_addf(&what, "unknown format '%s'", option_format);
			return unknown_format(c, strbuf_text(&what));
		}
	} else if (option_output && strcmp(option_output, "-") != 0) {
		s->format = flame_format_by_path(option_output);
		if (!s->format) {
			strbuf_addf(&what, "no format has files like '%s': give --format",
				    option_output);
			return unknown_format(c, strbuf_text(&what));
		}
	} else if (option_xpu_perf || (!terminal && !c->json && !least_given && !depth_given)) {
		s->format = flame_format_by_name("folded");
	}
	if (!s->format && option_output && strcmp(option_output, "-") != 0)
		return cli_usage(c, "text goes to standard output: leave out -o");
	if (s->format && s->format->by_address && terminal && !strcmp(s->path, "-"))
		return cli_usage(c, "standard output is a terminal: name a file with -o");
	if (c->json && s->format && !strcmp(s->path, "-"))
		return cli_usage(c, "--json goes to standard output: name a file with -o");
	return EXIT_DONE;
}

/* "0.5" as 5 tenths of a percent. */
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
	bool folded = s->format && !strcmp(s->format->name, "folded");

	if (option_mode == MODE_CPU)
		return cli_usage(c, "--mode cpu: recordings have no CPU samples yet; there are "
				    "merged, gpu, wait and launches");
	if (option_xpu_perf && !folded)
		return cli_usage(c, "--xpu-perf-compat is a kind of folded stacks: use it with -o "
				    "FILE.folded");
	if (option_xpu_perf && option_mode != MODE_MERGED && option_mode != MODE_GPU)
		return cli_usage(c, "--xpu-perf-compat knows only --mode merged and gpu");
	if (option_diff && s->format && !s->format->diff)
		return cli_usage(c, "%s cannot show a comparison; text, folded, svg and html can",
				 s->format->name);
	if (parse_percent(option_least, &s->least_tenths) < 0)
		return cli_usage(c, "--min-percent: '%s' is no number from 0 to 100", option_least);
	return EXIT_DONE;
}

static unsigned wanted_kinds(const struct shape *s)
{
	static const unsigned kinds[] = {
		[MODE_MERGED] = 1 << FLAME_GPU | 1 << FLAME_WAIT,
		[MODE_GPU] = 1 << FLAME_GPU,
		[MODE_WAIT] = 1 << FLAME_WAIT,
		[MODE_LAUNCHES] = 1 << FLAME_LAUNCHES,
	};

	if (option_xpu_perf)
		return 1 << FLAME_GPU;
	if (s->format && s->format->by_address && option_mode == MODE_MERGED)
		return kinds[MODE_MERGED] | 1 << FLAME_LAUNCHES;
	return kinds[option_mode];
}

static unsigned wanted_levels(const struct shape *s)
{
	static const unsigned levels[] = {
		[BY_STACK] = 0,
		[BY_THREAD] = 1 << FLAME_BY_THREAD,
		[BY_STREAM] = 1 << FLAME_BY_STREAM,
		[BY_PROCESS] = 1 << FLAME_BY_PROCESS,
		[BY_DEVICE] = 1 << FLAME_BY_DEVICE,
		[BY_NVTX] = 1 << FLAME_BY_NVTX,
	};

	if (s->format && s->format->by_address) /* as labels */
		return levels[option_by] | 1 << FLAME_BY_PROCESS | 1 << FLAME_BY_THREAD |
		       1 << FLAME_BY_DEVICE | 1 << FLAME_BY_STREAM;
	return levels[option_by];
}

static int make_options(const struct context *c, const struct trace *t, const struct shape *s,
			struct flame_options *o)
{
	uint64_t start_ns, end_ns;

	trace_span(t, &start_ns, &end_ns);
	*o = (struct flame_options){
		.kinds = wanted_kinds(s),
		.levels = wanted_levels(s),
		.detail = option_xpu_perf                      ? STACK_XPU_PERF
			  : s->format && s->format->by_address ? STACK_ADDRESSES
							       : STACK_FUNCTIONS,
		.full_names = option_full_names,
		.only_kernels = option_xpu_perf,
		.until_ns = UINT64_MAX,
	};
	if (since_given && __builtin_add_overflow(start_ns, option_since, &o->since_ns))
		o->since_ns = UINT64_MAX;
	if (until_given && __builtin_add_overflow(start_ns, option_until, &o->until_ns))
		o->until_ns = UINT64_MAX;
	return o->since_ns < o->until_ns ? EXIT_DONE
					 : cli_usage(c, "--since must be before --until");
}

/* Adds up one recording. Returns an exit status; on EXIT_DONE there is a flame graph to release. */
static int build(const struct context *c, struct trace *t, const struct shape *s, struct flame *f)
{
	struct flame_where where = { 0 };
	struct flame_options o;
	struct error e = { 0 };
	int status = make_options(c, t, s, &o), r = 0;

	if (status != EXIT_DONE)
		return status;
	if (option_where.count) {
		r = flame_where_init(&where, t, &option_where, &e);
		o.wanted = flame_where_holds;
		o.user = &where;
	}
	if (r >= 0)
		r = flame_init(f, t, &o, &e);
	flame_where_release(&where);
	return r < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

/* Adds the recording of --diff. */
static int compare(const struct context *c, const struct shape *s, struct flame *f)
{
	char *argv[] = { (char *)(uintptr_t) "flame", (char *)(uintptr_t)option_diff, NULL };
	struct trace *trace = NULL;
	struct progress progress;
	struct flame before;
	int status = cli_open_trace(c, 2, argv, &progress, NULL, &trace);

	if (status != EXIT_DONE)
		return status;
	status = build(c, trace, s, &before);
	progress_end(&progress);
	if (status == EXIT_DONE) {
		if (flame_compare(f, &before) < 0)
			status = cli_failf(c, "out of memory");
		flame_release(&before);
	}
	trace_free(trace);
	return status;
}

/* What is missing, in words: work without times, work without a launch, calls without a stack. */
static void describe_gaps(const struct flame *f, struct strbuf *out)
{
	const struct flame_section *gpu = &f->sections[FLAME_GPU];

	if (gpu->untimed) {
		human_count(out, gpu->untimed);
		strbuf_adds(out, gpu->untimed == 1 ? " operation without times is left out"
						   : " operations without times are left out");
	}
	if (gpu->unmatched) {
		strbuf_adds(out, out->length ? "; " : "");
		human_count(out, gpu->unmatched);
		strbuf_adds(out, gpu->unmatched == 1 ? " operation (" : " operations (");
		human_duration(out, gpu->unmatched_ns);
		strbuf_adds(out, ") without a recorded launch");
	}
	if (f->calls && !f->calls_with_stack) {
		strbuf_adds(out, out->length ? "; " : "");
		strbuf_adds(out, "no call stacks were recorded: threads stand for them");
	}
}

/* Block characters only where the locale says that they can be shown. */
static bool speaks_utf8(void)
{
	const char *names[] = { getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i] && *names[i])
			return strcasestr(names[i], "utf-8") || strcasestr(names[i], "utf8");
	return false;
}

static void json_node(struct json *j, const struct flame *f, uint32_t i, uint32_t first)
{
	const struct flame_node *n = &f->tree.nodes.data[i];

	json_object(j);
	json_key_u64(j, "id", i - first);
	json_key(j, "parent");
	if (i == first)
		json_null(j);
	else
		json_u64(j, n->parent - first);
	json_key_string(j, "name", flame_name(f, i));
	json_key_string(j, "class", frame_class_name((enum frame_class)flame_frame(f, i)->class));
	json_key_u64(j, "self_ns", n->self_ns);
	json_key_u64(j, "total_ns", n->total_ns);
	json_key_u64(j, "count", n->total_count);
	if (f->diff)
		json_key_u64(j, "before_total_ns", n->before_total_ns);
	json_end(j);
}

static int print_json(const struct context *c, const struct flame *f)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_INIT(&out);

	json_object(&j);
	json_key(&j, "sections");
	json_array(&j);
	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++) {
		const struct flame_section *s = &f->sections[kind];

		if (!(f->kinds & 1u << kind))
			continue;
		json_object(&j);
		json_key_string(&j, "name", flame_kind_frame(kind));
		json_key_u64(&j, "total_ns", s->total_ns);
		json_key_u64(&j, "count", s->count);
		json_key_u64(&j, "untimed", s->untimed);
		json_key_u64(&j, "unmatched", s->unmatched);
		json_key_u64(&j, "unmatched_ns", s->unmatched_ns);
		json_key(&j, "nodes");
		json_array(&j);
		for (uint32_t i = s->node; i != FLAME_NONE && i < f->tree.nodes.data[s->node].end;
		     i++)
			json_node(&j, f, i, s->node);
		json_end(&j);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	strbuf_addc(&out, '\n');
	return cli_print(c, &out);
}

static int print_text(const struct context *c, const struct flame *f, const struct shape *s)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct flame_text text = {
		.flame = f,
		.width = c->width,
		.color = c->color,
		.bars = isatty(STDOUT_FILENO) && speaks_utf8(),
		.least_percent_tenths = s->least_tenths,
		.depth = option_depth,
		.out = &out,
	};

	flame_text_print(&text);
	return cli_print(c, &out);
}

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal_number)
{
	stop_signal = signal_number;
}

/* From here on signals that end the command lead to the removal of what was written. */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

static int write_file(const struct context *c, const struct flame *f, const struct shape *s,
		      const struct flame_write *w)
{
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT, out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	struct error e = { 0 };
	uint64_t bytes = 0;

	catch_signals();
	if (flame_write(f, s->format, w, s->path, option_force, &bytes, &e) < 0)
		return stop_signal ? 128 + stop_signal : cli_fail(c, &e);
	if (c->json) {
		json_object(&j);
		json_key_string(&j, "file", s->path);
		json_key_string(&j, "format", s->format->name);
		json_key_u64(&j, "bytes", bytes);
		json_key_u64(&j, "frames", f->tree.nodes.count - 1);
		json_end(&j);
		strbuf_addc(&out, '\n');
		return cli_print(c, &out);
	}
	if (strcmp(s->path, "-") != 0) {
		human_bytes(&size, bytes);
		cli_note(c, "%s: %s", s->path, strbuf_text(&size));
	}
	return EXIT_DONE;
}

static int show(const struct context *c, const struct trace *t, struct flame *f,
		const struct shape *s, const char *path)
{
	_cleanup_strbuf_ struct strbuf notes = STRBUF_INIT;
	struct flame_write w = { .title = option_title,
				 .recording = path,
				 .before = option_diff,
				 .xpu_perf = option_xpu_perf,
				 .cancel = &stop_signal };
	struct error e = { 0 };
	int status;

	if (flame_filter(f, option_focus, option_ignore, &e) < 0)
		return cli_fail(c, &e);
	if (flame_finish(f, option_inverted) < 0)
		return cli_failf(c, "out of memory");
	describe_gaps(f, &notes);
	w.notes = strbuf_text(&notes);
	for (size_t i = 0; i < trace_process_count(t) && !w.title; i++)
		if (*trace_process(t, i)->command)
			w.title = trace_process(t, i)->command;
	w.title = w.title ? w.title : path;
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

	if (status == EXIT_DONE)
		status = check_options(c, &shape);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, argc, argv, &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	status = build(c, trace, &shape, &flame);
	progress_end(&progress);
	if (status == EXIT_DONE) {
		if (option_diff)
			status = compare(c, &shape, &flame);
		if (status == EXIT_DONE)
			status = show(c, trace, &flame, &shape, path);
		flame_release(&flame);
	}
	trace_free(trace);
	return status;
}

const struct command cmd_flame = {
	.name = "flame",
	.summary = "where time went, by call stack: flame graphs",
	.usage = "[options] [RECORDING]",
	.description =
		"Adds up time by call stack: GPU time below the stack that launched the work, with "
		"the kernel, copy or memory set as the innermost frame, and the time that threads "
		"waited for the GPU. Kinds of time are never added to each other: each has a root "
		"of its own, and the GPU time is the sum of what CUPTI reported, to the "
		"nanosecond.\n\n"
		"Without -o it prints a tree on a terminal, and folded stacks (in microseconds) "
		"elsewhere. With -o the file's name decides: x.svg and x.html are interactive "
		"pictures for any browser, x.folded is for flamegraph.pl and its relatives, "
		"x.pb.gz "
		"for pprof, x.speedscope.json for speedscope, x.json for the Firefox Profiler.\n\n"
		"A launch without a recorded stack stands below the name of its thread, work "
		"without a recorded launch below [no launch].",
	.options = options,
	.examples = examples,
	.run = run,
};
