/* cmd_source.c: `pitot source`: samples and counts beside source and instructions. */
#include "cli/source_print.h"
#include "cli/window.h"

static struct source_print print = { .limit_s = SOURCE_LIMIT_S };
static struct window_options option_window;
static uint64_t option_limit_s = SOURCE_LIMIT_S, option_top = 20;
static bool option_sass = true;
static const char *option_kernel;

static const struct option options[] = {
	OPTION(STRING, "output", 'o', print.output, "FILE",
	       "page to write (HTML), - for standard output", .is_path = true),
	OPTION(STRING, "at", 0, print.at, "FILE:LINE|KERNEL",
	       "text: show this line with its instructions, or the lines and instructions of "
	       "matching kernels"),
	KERNEL_OPTION(option_kernel),
	OPTION(STRING, "file", 0, print.file, "GLOB",
	       "show only the text of source files whose path matches"),
	WINDOW_OPTIONS(option_window),
	OPTION(STRING, "source-root", 0, print.root, "DIR",
	       "folder with the source: /build/a/k.cu is DIR/build/a/k.cu, DIR/a/k.cu or "
	       "DIR/k.cu",
	       .is_path = true),
	OPTION(STRING, "nvdisasm", 0, print.nvdisasm, "PROGRAM",
	       "disassembler (default: nvdisasm in PATH, CUDA_HOME/bin, /usr/local/cuda/bin)",
	       .is_path = true, .group = "disassembly"),
	FLAG("sass", 0, option_sass,
	     "disassemble instructions (default); --no-sass runs no disassembler",
	     .negatable = true, .group = "disassembly"),
	OPTION(U64, "time-limit", 0, option_limit_s, "SECONDS",
	       "time limit of nvdisasm for each piece of device code (default 60)",
	       .group = "disassembly"),
	OPTION(U64, "top", 'n', option_top, "N", "text: lines to show (default 20); 0 for all"),
	FLAG("force", 'f', print.overwrite, "replace a file that exists"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot source -o k.html",
	  "a page of the newest recording: source, instructions, samples" },
	{ "pitot source --at kernel.cu:16", "a line and its instructions" },
	{ "pitot source train.pitot -k '*gemm*' --source-root ~/src -o gemm.html",
	  "some kernels, with their source from elsewhere" },
	{ NULL, NULL },
};

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct progress progress;
	int status;

	(void)argc;
	if (!option_limit_s || option_limit_s > 86400)
		return cli_usage(c, "--time-limit takes 1 to 86400 seconds");
	if (print.output && c->json)
		return cli_usage(c, "--json goes to standard output: leave out -o");
	if (print.output && print.at)
		return cli_usage(c, "--at is for text: the page has everything");
	status = cli_open_trace(c, argv[1], &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	print.filter = (struct filter)FILTER_ALL;
	print.filter.kernel = option_kernel;
	print.limit_s = (unsigned)option_limit_s;
	print.top = option_top ? option_top : UINT64_MAX;
	print.no_sass = !option_sass;
	print.recording = path;
	status = window_resolve(c, trace, &option_window, &print.filter.since_ns,
				&print.filter.until_ns);
	if (status == EXIT_DONE)
		status = source_print(c, trace, &print, &progress);
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

const struct command cmd_source = {
	.name = "source",
	.group = COMMAND_SHOW,
	.summary = "show samples and counts of kernels beside source and SASS",
	.usage = "[options] [RECORDING]",
	.description =
		"Shows kernels line by line and instruction by instruction. For a recording made "
		"with `pitot record --engine pc-sampling`: where warps were and what they waited "
		"for. For one made with --engine sass-metrics: how often instructions were "
		"executed, by how many of 32 threads, and with how many sectors of memory compared "
		"with the minimum. With -o it writes a self-contained page: source with a heat map "
		"and instructions beside it; a click leads from one to the other.\n\n"
		"Source lines need code that was compiled with `nvcc -lineinfo`. Source is read "
		"where the compiler found it, or below --source-root, and shown only if size and "
		"time match what the compiler recorded. Instructions are disassembled by nvdisasm "
		"of a CUDA toolkit, which gets a copy of the recorded device code. Where something "
		"is missing, the reason is shown.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.no_names = true,
	.notes = "EXIT STATUS\n\n"
		 "1 if there are neither samples nor counts; then no file is written.",
	.run = run,
};
