/* make_recording_main.c: make-recording, a command for big_recording.h and recordings.h. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "support/big_recording.h"
#include "support/recordings/recordings.h"

#define KIND_NAME(name) #name,
#define KIND_WRITE(name) recording_##name,

static bool help_only;
static uint64_t kernels = 1000000, processes = 1, seed = 1, stacks, cpu_samples, lost;
static int kind, pattern = BIG_TRAIN;
static const char *const kinds[] = { "synthetic", RECORDINGS(KIND_NAME) NULL };
static void (*const writers[])(const char *) = { NULL, RECORDINGS(KIND_WRITE) };
static const char *const patterns[] = { "train", "graph", "streams", "threads", "copies", NULL };
static const struct option options[] = {
	{ .name = "kind",
	  .type = OPTION_ENUM,
	  .value = &kind,
	  .argument = "NAME",
	  .choices = kinds,
	  .help = "of tests/support/recordings/recordings.h; the other options are for synthetic, "
		  "the default" },
	{ .name = "kernels",
	  .type = OPTION_U64,
	  .value = &kernels,
	  .argument = "N",
	  .help = "kernels of all processes together" },
	{ .name = "processes",
	  .type = OPTION_U64,
	  .value = &processes,
	  .argument = "P",
	  .help = "processes, 1 to 64" },
	{ .name = "pattern",
	  .type = OPTION_ENUM,
	  .value = &pattern,
	  .argument = "NAME",
	  .choices = patterns,
	  .help = "train, graph, streams, threads or copies" },
	{ .name = "stacks",
	  .type = OPTION_U64,
	  .value = &stacks,
	  .argument = "N",
	  .help = "distinct call stacks of a process's calls, up to 10000000 (default 0: none)" },
	{ .name = "cpu-samples",
	  .type = OPTION_U64,
	  .value = &cpu_samples,
	  .argument = "N",
	  .help = "CPU samples of all processes together (default 0)" },
	{ .name = "lost",
	  .type = OPTION_U64,
	  .value = &lost,
	  .argument = "PERCENT",
	  .help = "launches whose calls are missing, in bursts (default 0)" },
	{ .name = "seed",
	  .type = OPTION_U64,
	  .value = &seed,
	  .argument = "S",
	  .help = "of the random numbers" },
	FLAG("help", 'h', help_only, "show this text"),
	OPTION_END,
};

static int usage(FILE *to)
{
	struct strbuf help = { 0 };

	options_help(options, true, 80, &help);
	fprintf(to,
		"usage: make-recording OUT.pitot [options]\n\n"
		"Writes a recording for tests and benchmarks.\n\n%s",
		strbuf_text(&help));
	strbuf_release(&help);
	return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
	struct error e = { 0 };
	int operands, result;

	if (options_parse(options, argc, argv, false, &operands, &e) < 0) {
		fprintf(stderr, "make-recording: %s\n", e.text);
		return 2;
	}
	if (help_only)
		return usage(stdout);
	if (operands != 1 || processes < 1 || processes > 64 || stacks > 10000000 || lost > 100)
		return usage(stderr);
	if (writers[kind]) {
		writers[kind](argv[1]);
		return 0;
	}
	result = big_recording_write(argv[1],
				     &(struct big_recording){ .kernels = kernels,
							      .processes = (uint32_t)processes,
							      .pattern = (enum big_pattern)pattern,
							      .seed = seed,
							      .stacks = (uint32_t)stacks,
							      .lost_percent = (uint32_t)lost,
							      .cpu_samples = cpu_samples });
	if (result < 0)
		fprintf(stderr, "make-recording: cannot make '%s': %s\n", argv[1],
			strerror(-result));
	return result < 0;
}
