/* make_recording_main.c: make-recording, the command around big_recording.h. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "support/big_recording.h"

static uint64_t kernels = 1000000, processes = 1, seed = 1, stacks, cpu_samples;
static int pattern = BIG_TRAIN;
static const char *const patterns[] = { "train", "graph", "streams", "copies", NULL };
static const struct option options[] = {
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
	  .help = "train, graph, streams or copies" },
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
	{ .name = "seed",
	  .type = OPTION_U64,
	  .value = &seed,
	  .argument = "S",
	  .help = "of the random numbers" },
	OPTION_END,
};

static int usage(FILE *to)
{
	struct strbuf help = { 0 };

	options_help(options, 80, &help);
	fprintf(to,
		"usage: make-recording OUT.pitot [options]\n\n"
		"Writes a synthetic recording for tests and benchmarks.\n\n%s",
		strbuf_text(&help));
	strbuf_release(&help);
	return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
	struct error e = { 0 };
	bool help_wanted;
	int operands, result;

	if (options_parse(options, argc, argv, false, &operands, &help_wanted, &e) < 0) {
		fprintf(stderr, "make-recording: %s\n", e.text);
		return 2;
	}
	if (help_wanted)
		return usage(stdout);
	if (operands != 1 || processes < 1 || processes > 64 || stacks > 10000000)
		return usage(stderr);
	result = big_recording_write(argv[1],
				     &(struct big_recording){ .kernels = kernels,
							      .processes = (uint32_t)processes,
							      .pattern = (enum big_pattern)pattern,
							      .seed = seed,
							      .stacks = (uint32_t)stacks,
							      .cpu_samples = cpu_samples });
	if (result < 0)
		fprintf(stderr, "make-recording: cannot make '%s': %s\n", argv[1],
			strerror(-result));
	return result < 0;
}
