/* cmd_diff.c: `pitot diff`. */
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "cli/diff_determinism.h"
#include "cli/diff_github.h"
#include "cli/measure_recording.h"
#include "cli/report_flame.h"
#include "compare/baseline.h"
#include "compare/comparison_print.h"
#include "report/report_view.h"

static uint64_t option_top = 10;
static bool option_determinism, option_force, option_github;
static struct option_list option_fail_if;
static int option_fail_on;
static const char *option_against, *option_output, *option_markdown, *option_junit;
static bool top_given;

static const char *const fail_choices[] = { "interval", "point", NULL };
static const char *const inconclusive_choices[] = { "fail", "pass", NULL };
static int option_inconclusive;

static void complete_baselines(void (*offer)(void *user, const char *word), void *user)
{
	struct baseline_list list;

	if (baseline_list_init(&list, NULL) == 0)
		for (size_t i = 0; i < list.items.count; i++)
			offer(user, list.items.data[i].name);
	baseline_list_release(&list);
}

static const struct option options[] = {
	OPTION(LIST, "fail-if", 0, option_fail_if, "CONDITION",
	       "exit with status 1 if a change from A to B meets a condition: 'step > 2%', "
	       "'kernel:*gemm* > 50us', 'launches > 0', 'memory > 1%'; may be given several "
	       "times"),
	OPTION(ENUM, "fail-on", 0, option_fail_on, "WHAT",
	       "a condition is met if the interval of the change lies beyond the limit "
	       "(interval, default), or the estimate does (point)",
	       .choices = fail_choices),
	OPTION(ENUM, "inconclusive", 0, option_inconclusive, "WHAT",
	       "what the exit status says if the sides cannot be compared: fail (default) or pass",
	       .choices = inconclusive_choices),
	OPTION(STRING, "against", 0, option_against, "NAME",
	       "compare with a baseline, which `pitot baseline save` made: it is side A, and all "
	       "recordings are side B",
	       .complete = complete_baselines),
	FLAG("determinism", 0, option_determinism,
	     "whether A and B launched the same in the same order, and the first differences; no "
	     "times are compared"),
	OPTION(U64, "top", 'n', option_top, "N",
	       "rows per table (default: 10, in a page all); 0 for all", .given = &top_given),
	OPTION(STRING, "output", 'o', option_output, "FILE",
	       "also write the result as an HTML page, x.html, with a flame graph of what changed "
	       "if both sides have call stacks",
	       .is_path = true, .group = "output"),
	OPTION(STRING, "markdown", 0, option_markdown, "FILE",
	       "also write the result as Markdown, for a pull request", .is_path = true,
	       .group = "output"),
	OPTION(STRING, "junit", 0, option_junit, "FILE",
	       "also write it as JUnit's XML, one test case for each condition", .is_path = true,
	       .group = "output"),
	FLAG("github", 0, option_github,
	     "also print annotations for GitHub's runner, and append the Markdown to the file that "
	     "GITHUB_STEP_SUMMARY names",
	     .group = "output"),
	FLAG("force", 'f', option_force, "replace files that exist", .group = "output"),
	OPTION_FILE_MODE("mode"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot diff before.pitot after.pitot", "what changed between two runs" },
	{ "pitot diff a1 a2 a3 a4 a5 -- b1 b2 b3 b4 b5", "several runs a side: with statistics" },
	{ "pitot diff base.pitot new.pitot --fail-if 'step > 2%'", "in a pipeline" },
	{ "pitot diff --against main new.pitot --fail-if 'step > 2%'",
	  "with the baseline of the main branch" },
	{ "pitot diff before.pitot after.pitot -o diff.html", "as a page, to show to others" },
	{ "pitot diff --determinism run1.pitot run2.pitot", "whether two runs did the same" },
	{ NULL, NULL },
};

/* --- sides --- */

struct sides {
	struct measured_run runs[RUNS_MAX];
	size_t a, count;
};

/* Side A is a baseline, and all operands are side B. */
static int split_against(const struct context *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], OPERAND_BETWEEN))
			return cli_usage(c, "with --against all recordings are side B: name them "
					    "without --");
	return argc > 1 ? EXIT_DONE
			: cli_usage(c, "name the recordings to compare with '%s'", option_against);
}

/* Operands of A, "--", operands of B; without "--" there are two. */
static int split(const struct context *c, int argc, char **argv, size_t *a)
{
	*a = 0;
	if (option_against)
		return split_against(c, argc, argv);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], OPERAND_BETWEEN) != 0)
			continue;
		if (*a)
			return cli_usage(c, "there is more than one --: A and B are two sides");
		*a = (size_t)i - 1;
		if (!*a || i + 1 == argc)
			return cli_usage(c, "a side of -- has no recording: A1 A2 -- B1 B2");
	}
	if (!*a && argc != 3)
		return cli_usage(c, "name two recordings, or several of each side with -- between "
				    "them");
	*a = *a ? *a : 1;
	return EXIT_DONE;
}

static int measure_all(const struct context *c, int argc, char **argv, struct sides *s)
{
	int status = EXIT_DONE;
	struct error e = { 0 };

	if (option_against) {
		if (baseline_load(option_against, s->runs, RUNS_MAX - 1, &s->count, &e) < 0)
			status = cli_fail(c, &e);
		s->a = s->count;
	}
	for (int i = 1; i < argc && status == EXIT_DONE; i++) {
		if (!strcmp(argv[i], OPERAND_BETWEEN))
			continue;
		if (s->count == RUNS_MAX)
			return cli_usage(c, "at most %u recordings can be compared", RUNS_MAX);
		status = measure_recording(c, argv[i], &s->runs[s->count++]);
	}
	return status;
}

/* --- results --- */

static int write_file(const struct context *c, const char *path,
		      void (*print)(const struct comparison_view *v), struct comparison_view v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct error e = { 0 };
	struct output *output;

	if (!path)
		return EXIT_DONE;
	v.out = &text;
	print(&v);
	if (text.failed)
		return cli_failf(c, "out of memory");
	output = output_open(path, option_force, &e);
	if (!output)
		return cli_fail(c, &e);
	output_write(output, text.data, text.length);
	return output_commit(&output, NULL, &e) < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

static int add_flame(const struct context *c, const char *path, const char *before,
		     struct strbuf *page)
{
	struct trace *traces[2] = { NULL, NULL };
	struct progress progress;
	struct error e = { 0 };
	int status = cli_open_trace(c, path, &progress, NULL, &traces[0]);

	if (status == EXIT_DONE) {
		progress_end(&progress);
		status = cli_open_trace(c, before, &progress, NULL, &traces[1]);
	}
	if (status == EXIT_DONE &&
	    report_flame_diff(traces[0], path, traces[1], before, page, &e) < 0)
		status = cli_fail(c, &e);
	if (traces[1])
		progress_end(&progress);
	trace_free(traces[0]);
	trace_free(traces[1]);
	return status;
}

/* The first recording of each side stands for it in the flame graph; a baseline has no stacks. */
static int write_page(const struct context *c, struct comparison_view v)
{
	_cleanup_strbuf_ struct strbuf flame = STRBUF_INIT, title = STRBUF_INIT;
	const struct comparison *of = v.comparison;
	const char *a = option_against ? option_against : of->a.runs->path;
	int status = EXIT_DONE;

	if (!option_output)
		return EXIT_DONE;
	if (!option_against)
		status = add_flame(c, of->b.runs->path, a, &flame);
	strbuf_addf(&title, "%s, compared with %s", of->b.runs->path, a);
	v.html = true;
	v.width = REPORT_WIDTH_MAX;
	v.title = strbuf_text(&title);
	v.flame = strbuf_text(&flame);
	v.flame_title = of->a.count + of->b.count > 2
				? "flame graph of the first recording of B, compared with that of A"
				: "flame graph of B, compared with A";
	v.top = top_given ? v.top : UINT64_MAX;
	return status == EXIT_DONE ? write_file(c, option_output, comparison_print_html, v)
				   : status;
}

static int print(const struct context *c, const struct comparison_view *v)
{
	int status = write_file(c, option_markdown, comparison_print_markdown, *v);

	if (status == EXIT_DONE)
		status = write_page(c, *v);
	if (status == EXIT_DONE)
		status = write_file(c, option_junit, comparison_print_junit, *v);
	if (status != EXIT_DONE)
		return status;
	if (c->json)
		comparison_print_json(v);
	else
		comparison_print_text(v);
	return option_github ? diff_github(c, v) : cli_print(c, v->out);
}

static bool is_bad(const struct comparison *of, const struct condition *conditions)
{
	bool failed = false, unknown = of->verdict == VERDICT_INCONCLUSIVE;

	for (unsigned i = 0; i < option_fail_if.count; i++) {
		failed |= conditions[i].state == CONDITION_FAILED;
		unknown |= conditions[i].state == CONDITION_UNKNOWN;
	}
	return failed || (unknown && !option_inconclusive);
}

static int compare(const struct context *c, const struct sides *s, struct condition *conditions)
{
	struct comparison comparison;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	struct comparison_view view = {
		.comparison = &comparison,
		.conditions = conditions,
		.condition_count = option_fail_if.count,
		.inconclusive_passes = option_inconclusive == 1,
		.top = option_top ? option_top : UINT64_MAX,
		.width = MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX),
		.color = c->color,
		.out = &out,
	};
	int rc = comparison_init(&comparison, (struct run_side){ s->runs, s->a },
				 (struct run_side){ s->runs + s->a, s->count - s->a }, &e);
	int status;

	for (unsigned i = 0; i < option_fail_if.count && rc == 0; i++)
		rc = condition_check(&conditions[i], &comparison, option_fail_on == 1);
	if (rc < 0)
		status = cli_failf(c, "out of memory");
	else
		status = print(c, &view);
	if (status == EXIT_DONE && is_bad(&comparison, conditions))
		status = EXIT_FAILED;
	comparison_release(&comparison);
	return status;
}

static int check_options(const struct context *c)
{
	bool writes = option_output || option_markdown || option_junit || option_github;

	if (option_determinism && (option_fail_if.count || option_against || writes))
		return cli_usage(c, "--determinism takes no conditions and no baseline, and writes "
				    "no files");
	if (option_output && !output_path_ends(option_output, ".html .htm"))
		return cli_usage(c, "'%s' is no page: name it x.html; text goes to standard output",
				 option_output);
	return EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	static struct sides s;
	struct condition conditions[ARRAY_SIZE(option_fail_if.items)] = { 0 };
	struct error e = { 0 };
	int status = check_options(c);

	if (status == EXIT_DONE)
		status = split(c, argc, argv, &s.a);
	if (status == EXIT_DONE && option_determinism)
		return argc == 3 ? diff_determinism(c, argv + 1)
				 : cli_usage(c, "--determinism compares two recordings");
	for (unsigned i = 0; i < option_fail_if.count && status == EXIT_DONE; i++)
		if (condition_parse(option_fail_if.items[i], &conditions[i], &e) < 0)
			status = cli_usage(c, "--fail-if %s", e.text);
	if (status == EXIT_DONE)
		status = measure_all(c, argc, argv, &s);
	if (status == EXIT_DONE)
		status = compare(c, &s, conditions);
	for (size_t i = 0; i < s.count; i++)
		measured_run_release(&s.runs[i]);
	for (unsigned i = 0; i < option_fail_if.count; i++)
		condition_release(&conditions[i]);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.group = COMMAND_SHOW,
	.summary = "compare recordings: what changed, beyond chance",
	.usage = "[options] A B | A1 A2 ... -- B1 B2 ... | --against NAME B...",
	.description =
		"Compares the steps of two sides: their time, what they spend on the critical "
		"path, kernels, copies, the lines that launched them, and memory. Steps are those "
		"of `pitot report --steps`; slow ones are left out.\n\n"
		"Each recording is one value of the sample. With five or more on each side the "
		"step is called slower or faster if chance is unlikely (Mann-Whitney's test, p "
		"below 0.01), rows are called significant by their false discovery rate (below "
		"5%), and no time whose change is below 0.1% of the step or 1 us. With fewer, runs "
		"are assumed to differ by 3%, and only a large change is called a difference: of "
		"one run on each side 20%. A smaller one is inconclusive, with how many runs would "
		"settle it.\n\n"
		"Recordings of different GPUs, drivers, engines or settings, with other clocks, "
		"with unsafe losses, or without steps are not compared: the result is "
		"inconclusive, with the reasons.",
	.options = options,
	.takes_recording = true,
	.or_files = true,
	.has_sides = true,
	.operands_max = RUNS_MAX + 1,
	.examples = examples,
	.notes = "EXIT STATUS\n\n0: compared, and no condition of --fail-if is met. 1: a condition "
		 "is met, the comparison or a condition is inconclusive (unless "
		 "--inconclusive=pass), or an error. 2: wrong usage.",
	.run = run,
};
