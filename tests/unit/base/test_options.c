#include "base/options.h"

#include <errno.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static bool quiet, sync_on, given, help, color;
static const char *output;
static uint64_t top, max_size, duration, rate;
static int graphs, memory_choice;
static bool memory;
static struct option_list filters;

static const char *const graph_choices[] = { "node", "launch", "off", NULL };

static const char *const memory_choices[] = { "torch", "jax", NULL };

static const struct option options[] = {
	{ .name = "memory",
	  .type = OPTION_FLAG,
	  .value = &memory,
	  .negatable = true,
	  .bare = "on",
	  .choices = memory_choices,
	  .choice = &memory_choice,
	  .help = "record allocations" },
	{ .name = "quiet",
	  .letter = 'q',
	  .type = OPTION_FLAG,
	  .value = &quiet,
	  .help = "say less" },
	{ .name = "sync",
	  .type = OPTION_FLAG,
	  .value = &sync_on,
	  .negatable = true,
	  .help = "record synchronizations, which needs a little more time and space than leaving "
		  "them out" },
	{ .name = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .value = &output,
	  .argument = "DIR",
	  .help = "write the recording to DIR",
	  .given = &given },
	{ .name = "top",
	  .letter = 'n',
	  .type = OPTION_U64,
	  .value = &top,
	  .most = 1000,
	  .argument = "N",
	  .help = "rows" },
	{ .name = "max-size",
	  .type = OPTION_SIZE,
	  .value = &max_size,
	  .argument = "SIZE",
	  .help = "stop at SIZE" },
	{ .name = "duration",
	  .type = OPTION_DURATION,
	  .value = &duration,
	  .positive = true,
	  .argument = "TIME",
	  .help = "record for TIME" },
	{ .name = "rate",
	  .letter = 'r',
	  .type = OPTION_U64,
	  .value = &rate,
	  .argument = "N",
	  .bare = "99",
	  .negatable = true,
	  .help = "look that often" },
	{ .name = "graphs",
	  .type = OPTION_ENUM,
	  .value = &graphs,
	  .choices = graph_choices,
	  .help = "how CUDA graphs are recorded" },
	{ .name = "filter",
	  .type = OPTION_LIST,
	  .value = &filters,
	  .argument = "GLOB",
	  .help = "only kernels of these names" },
	{ .name = "help",
	  .letter = 'h',
	  .type = OPTION_FLAG,
	  .value = &help,
	  .help = "show this text" },
	{ .name = "color",
	  .type = OPTION_FLAG,
	  .value = &color,
	  .help = "with colours",
	  .group = "terminal" },
	{ .name = "level",
	  .type = OPTION_U64,
	  .value = &top,
	  .help = "how deep",
	  .group = "depth" },
	{ .name = "bold",
	  .type = OPTION_FLAG,
	  .value = &color,
	  .help = "bold",
	  .group = "terminal" },
	OPTION_END,
};

static char *arguments[80];
static int argument_count, operand_count;
static struct error error;

static int set_up(void **state)
{
	(void)state;
	quiet = given = help = false;
	sync_on = true;
	output = NULL;
	top = max_size = duration = 0;
	rate = 7;
	graphs = 0;
	filters.count = 0;
	error = (struct error){ 0 };
	return 0;
}

/* Parses the words, separated by blanks, of a command line. */
static int parse(const char *line, bool stop_at_operand)
{
	static char copy[1024];

	strncpy(copy, line, sizeof(copy) - 1);
	argument_count = 0;
	for (char *save, *word = strtok_r(copy, " ", &save); word;
	     word = strtok_r(NULL, " ", &save))
		arguments[argument_count++] = word;
	arguments[argument_count] = NULL;
	return options_parse(options, argument_count, arguments, stop_at_operand, &operand_count,
			     &error);
}

static void assert_refused(const char *line, const char *text)
{
	assert_int_equal(parse(line, false), E_USAGE);
	assert_int_equal(error.code, E_USAGE);
	assert_string_equal(error.text, text);
}

static void all_types_and_spellings(void **state)
{
	(void)state;
	assert_int_equal(
		parse("pitot --quiet --no-sync --output=a=b --top 5 --max-size 2M --duration=1.5s "
		      "--graphs launch --filter a --filter=b",
		      false),
		0);
	assert_true(quiet);
	assert_false(sync_on);
	assert_string_equal(output, "a=b");
	assert_true(given);
	assert_int_equal(top, 5);
	assert_int_equal(max_size, 2 << 20);
	assert_int_equal(duration, 1500000000);
	assert_int_equal(graphs, 1);
	assert_int_equal(filters.count, 2);
	assert_string_equal(filters.items[1], "b");
	assert_int_equal(operand_count, 0);
	assert_false(help);
}

static void values_that_can_be_left_out(void **state)
{
	(void)state;
	assert_refused("pitot --rate 50", "the value of '--rate' is given as --rate=50");
	assert_int_equal(parse("pitot --rate -- 50", false), 0);
	assert_int_equal(rate, 99);
	assert_int_equal(operand_count, 1); /* 50 */
	assert_int_equal(parse("pitot --rate x", false), 0);
	assert_int_equal(operand_count, 1); /* x */
	assert_int_equal(parse("pitot --rate=50", false), 0);
	assert_int_equal(rate, 50);
	assert_int_equal(parse("pitot -qr x", false), 0);
	assert_int_equal(rate, 99);
	assert_int_equal(operand_count, 1);
	assert_int_equal(parse("pitot --no-rate", false), 0);
	assert_int_equal(rate, 0);
	assert_refused("pitot --no-rate=5", "option '--no-rate' takes no value");
	assert_refused("pitot --rate=x", "option '--rate' takes a number, not 'x'");
	assert_refused("pitot --rate=", "option '--rate' takes a number, not ''");
}

static void flags_with_a_choice(void **state)
{
	(void)state;
	assert_int_equal(parse("pitot --memory x", false), 0);
	assert_true(memory);
	assert_int_equal(memory_choice, 0);
	assert_int_equal(parse("pitot --memory=jax", false), 0);
	assert_true(memory);
	assert_int_equal(memory_choice, 2);
	assert_int_equal(parse("pitot --memory=torch --no-memory", false), 0);
	assert_false(memory);
	assert_int_equal(memory_choice, 0);
	assert_int_equal(parse("pitot --memory=torch --memory=on", false), 0);
	assert_true(memory);
	assert_int_equal(memory_choice, 0);
	assert_refused("pitot --memory=tf", "option '--memory' takes torch or jax, not 'tf'");
	assert_refused("pitot --memory torch",
		       "the value of '--memory' is given as --memory=torch");
	assert_refused("pitot --no-memory=torch", "option '--no-memory' takes no value");
}

static void letters(void **state)
{
	(void)state;
	assert_int_equal(parse("pitot -qn7 -o out -n 9", false), 0);
	assert_true(quiet);
	assert_int_equal(top, 9);
	assert_string_equal(output, "out");
	assert_int_equal(parse("pitot -ooutput", false), 0);
	assert_string_equal(output, "output");
}

static void operands_move_to_the_front(void **state)
{
	(void)state;
	assert_int_equal(parse("pitot a -q b - --top 3 c -- --sync -x", false), 0);
	assert_int_equal(operand_count, 6);
	assert_string_equal(arguments[1], "a");
	assert_string_equal(arguments[2], "b");
	assert_string_equal(arguments[3], "-");
	assert_string_equal(arguments[4], "c");
	assert_string_equal(arguments[5], "--sync");
	assert_string_equal(arguments[6], "-x");
	assert_null(arguments[7]);
	assert_int_equal(top, 3);
}

static void commands_keep_their_options(void **state)
{
	(void)state;
	assert_int_equal(parse("record -q python -n 4 -- train.py", true), 0);
	assert_int_equal(operand_count, 5);
	assert_string_equal(arguments[1], "python");
	assert_string_equal(arguments[2], "-n");
	assert_string_equal(arguments[4], "--");
	assert_null(arguments[6]);
	assert_int_equal(top, 0);
	assert_int_equal(parse("record -q -- --top", true), 0);
	assert_int_equal(operand_count, 1);
	assert_string_equal(arguments[1], "--top");
	assert_int_equal(parse("record --", true), 0);
	assert_int_equal(operand_count, 0);
}

static void unknown_options_name_the_nearest(void **state)
{
	(void)state;
	assert_refused("pitot --ouptut x", "unknown option '--ouptut', did you mean '--output'?");
	assert_refused("pitot --durations=3",
		       "unknown option '--durations', did you mean '--duration'?");
	assert_refused("pitot --max", "unknown option '--max', did you mean '--max-size'?");
	assert_refused("pitot --no-snc", "unknown option '--no-snc', did you mean '--no-sync'?");
	assert_refused("pitot --no-quiet", "unknown option '--no-quiet'");
	assert_refused("pitot --on-sync", "unknown option '--on-sync'");
	assert_refused("pitot --xyzzy", "unknown option '--xyzzy'");
	assert_refused("pitot -qx", "unknown option '-x'");
	assert_refused("pitot --=3", "unknown option '--'");
	assert_refused("pitot ---", "unknown option '---'");
}

static void wrong_values_say_what_is_right(void **state)
{
	(void)state;
	assert_refused("pitot --graphs=nodes",
		       "option '--graphs' takes node, launch or off, not 'nodes'");
	assert_refused("pitot --top many", "option '--top' takes a number, not 'many'");
	assert_refused("pitot --top=-1", "option '--top' takes a number, not '-1'");
	assert_refused("pitot --max-size=3Q",
		       "option '--max-size' takes a size such as 64K, 10M or 1G, not '3Q'");
	assert_refused("pitot --duration=x",
		       "option '--duration' takes a duration such as 10s, 250ms or 1.5m, not 'x'");
	assert_refused("pitot --top=1001", "option '--top' takes at most 1000, not '1001'");
	assert_int_equal(parse("pitot --top=1000", false), 0);
	assert_refused("pitot --duration=0s", "option '--duration' must be greater than 0");
	assert_refused("pitot --quiet=1", "option '--quiet' takes no value");
	assert_refused("pitot --no-sync=1", "option '--no-sync' takes no value");
	assert_refused("pitot --output", "option '--output' needs a value: DIR");
	assert_refused("pitot -qo", "option '--output' needs a value: DIR");
	assert_refused("pitot --graphs", "option '--graphs' needs a value: node|launch|off");
	assert_false(given);
}

static void lists_have_an_end(void **state)
{
	char line[1024] = "pitot";

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		memcpy(line + 5 + 12 * i, " --filter=ab", 13);
	assert_int_equal(parse(line, false), 0);
	assert_int_equal(filters.count, 64);
	filters.count = 0;
	memcpy(line + 5 + 12 * 64, " --filter=ab", 13);
	assert_refused(line, "option '--filter' was given more than 64 times");
}

static void help_is_aligned_and_wrapped(void **state)
{
	struct strbuf out = STRBUF_INIT;

	(void)state;
	options_help(options, true, 72, &out);
	assert_string_equal(out.data,
			    "options:\n"
			    "      --[no-]memory[=torch|jax]\n"
			    "                       record allocations\n"
			    "  -q, --quiet          say less\n"
			    "      --[no-]sync      record synchronizations, which needs a little\n"
			    "                       more time and space than leaving them out\n"
			    "  -o, --output DIR     write the recording to DIR\n"
			    "  -n, --top N          rows\n"
			    "      --max-size SIZE  stop at SIZE\n"
			    "      --duration TIME  record for TIME\n"
			    "  -r, --[no-]rate[=N]  look that often\n"
			    "      --graphs node|launch|off\n"
			    "                       how CUDA graphs are recorded\n"
			    "      --filter GLOB    only kernels of these names\n"
			    "  -h, --help           show this text\n"
			    "\n"
			    "terminal:\n"
			    "      --color          with colours\n"
			    "      --bold           bold\n"
			    "\n"
			    "depth:\n"
			    "      --level VALUE    how deep\n");
	strbuf_clear(&out);
	options_help(options, false, 72, &out);
	assert_null(strstr(out.data, "terminal"));
	assert_null(strstr(out.data, "--level"));
	assert_non_null(strstr(out.data, "--help"));
	strbuf_release(&out);
}

static void nearest_words(void **state)
{
	static const char *const commands[] = {
		"record", "report", "export", "info", "view", NULL
	};
	static const char *const columns[] = { "start_ns", "config_name", "max-size", NULL };
	char endless[300];

	(void)state;
	memset(endless, 'r', sizeof(endless));
	endless[sizeof(endless) - 1] = '\0';
	assert_string_equal(options_nearest("recrod", commands), "record");
	assert_string_equal(options_nearest("reprot", commands), "report");
	assert_string_equal(options_nearest("inf", commands), "info");
	assert_string_equal(options_nearest("exp", commands), "export");
	assert_string_equal(options_nearest("name", columns), "config_name");
	assert_string_equal(options_nearest("size", columns), "max-size");
	assert_null(options_nearest("s", columns));
	assert_null(options_nearest("frobnicate", commands));
	assert_null(options_nearest("", commands));
	assert_null(options_nearest(endless, commands));
}

static void sizes(void **state)
{
	static const char *const bad[] = { "",       "K",
					   "-1",     "1.5M",
					   "1KK",    "1 K",
					   "0x10",   "18446744073709551616",
					   "16384P", "18014398509481984K",
					   "1Kx" };
	uint64_t v = 42;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_size(bad[i], &v), -EINVAL);
	assert_int_equal(v, 42);
	assert_int_equal(parse_size("0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(parse_size("64K", &v), 0);
	assert_int_equal(v, 65536);
	assert_int_equal(parse_size("3MiB", &v), 0);
	assert_int_equal(v, 3 << 20);
	assert_int_equal(parse_size("1g", &v), 0);
	assert_int_equal(v, 1 << 30);
	assert_int_equal(parse_size("10b", &v), 0);
	assert_int_equal(v, 10);
	assert_int_equal(parse_size("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(parse_size("16777215T", &v), 0);
	assert_true(v == UINT64_C(16777215) << 40);
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = { { "10", 10000000000 },
		     { "10s", 10000000000 },
		     { "1.5s", 1500000000 },
		     { "250ms", 250000000 },
		     { "40us", 40000 },
		     { "5ns", 5 },
		     { "2m", 120000000000 },
		     { "1h", 3600000000000 },
		     { "0.000000001", 1 },
		     { "0", 0 },
		     { "1.25h", 4500000000000 },
		     { "0.1234567890123456789s", 123456789 },
		     { "18446744073.709551615s", UINT64_MAX } };
	static const char *const bad[] = { "",
					   "s",
					   "-1s",
					   "1.s",
					   ".5s",
					   "1d",
					   "1 s",
					   "1.5.5s",
					   "5124096h",
					   "1s2",
					   "1.",
					   "1,5s",
					   "+1s",
					   "18446744073.709551616s",
					   "99999999999999999999ns" };
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(parse_duration(good[i].text, &v), 0);
		assert_true(v == good[i].ns);
	}
	v = 42;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_duration(bad[i], &v), -EINVAL);
	assert_int_equal(v, 42);
}

static void numbers(void **state)
{
	static const char *const bad[] = {
		"", "0x", "x", "-1", "1a", " 1", "1 ", "18446744073709551616", "0x10000000000000000"
	};
	uint64_t v = 42;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_u64(bad[i], &v), -EINVAL);
	assert_int_equal(v, 42);
	assert_int_equal(parse_u64("0xffFFffffFFFFffff", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(parse_u64("007", &v), 0);
	assert_int_equal(v, 7);
}

/* Texts of the environment and of files. */
static void test_values_outside_of_the_command_line(void **state)
{
	static const char *const engines[] = { "slow", "fast", NULL };
	bool on = false;
	int engine = 0;
	uint64_t every = 0;
	struct option flag = { .name = "f", .type = OPTION_FLAG, .value = &on },
		      choice = { .name = "e",
				 .type = OPTION_ENUM,
				 .value = &engine,
				 .choices = engines },
		      time = { .name = "t",
			       .type = OPTION_DURATION,
			       .value = &every,
			       .bare = "2s",
			       .negatable = true };
	struct error e;

	(void)state;
	assert_int_equal(option_set(&flag, "F", "Yes", &e), 0);
	assert_true(on);
	assert_int_equal(option_set(&flag, "F", "0", &e), 0);
	assert_false(on);
	assert_int_equal(option_set(&flag, "F", "2", &e), E_USAGE);
	assert_string_equal(e.text, "F takes on or off, not '2'");
	assert_int_equal(option_set(&time, "T", "1", &e), 0);
	assert_int_equal(every, 1000000000);
	assert_int_equal(option_set(&time, "T", "on", &e), 0);
	assert_int_equal(every, 2000000000);
	assert_int_equal(option_set(&time, "T", "off", &e), 0);
	assert_int_equal(every, 0);
	assert_int_equal(option_set(&choice, "E", "fast", &e), 0);
	assert_int_equal(engine, 1);
	assert_int_equal(option_set(&choice, "E", "faster", &e), E_USAGE);
	assert_string_equal(e.text, "E takes slow or fast, not 'faster'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_types_and_spellings, set_up),
		cmocka_unit_test_setup(values_that_can_be_left_out, set_up),
		cmocka_unit_test_setup(flags_with_a_choice, set_up),
		cmocka_unit_test_setup(letters, set_up),
		cmocka_unit_test_setup(operands_move_to_the_front, set_up),
		cmocka_unit_test_setup(commands_keep_their_options, set_up),
		cmocka_unit_test_setup(unknown_options_name_the_nearest, set_up),
		cmocka_unit_test_setup(wrong_values_say_what_is_right, set_up),
		cmocka_unit_test_setup(lists_have_an_end, set_up),
		cmocka_unit_test_setup(help_is_aligned_and_wrapped, set_up),
		cmocka_unit_test_setup(nearest_words, set_up),
		cmocka_unit_test_setup(sizes, set_up),
		cmocka_unit_test_setup(durations, set_up),
		cmocka_unit_test_setup(numbers, set_up),
		cmocka_unit_test(test_values_outside_of_the_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
