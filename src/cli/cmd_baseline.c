/* cmd_baseline.c: `pitot baseline`: runs under a name, for `pitot diff --against`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/plural.h"
#include "cli/measure_recording.h"
#include "compare/baseline.h"
#include "compare/comparison_print.h"
#include "report/text_table.h"

static bool option_force;

static const struct option options[] = {
	FLAG("force", 'f', option_force, "replace a baseline that exists"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot baseline save main a1.pitot a2.pitot a3.pitot a4.pitot a5.pitot",
	  "store what they say of their steps as 'main'" },
	{ "pitot diff --against main new.pitot", "compare with it, even when they are gone" },
	{ "pitot baseline list", "the baselines that there are" },
	{ "pitot baseline rm main", "remove one" },
	{ NULL, NULL },
};

struct runs {
	struct measured_run all[RUNS_MAX];
	size_t count;
};

static void release_runs(struct runs *r)
{
	for (size_t i = 0; i < r->count; i++)
		measured_run_release(&r->all[i]);
	r->count = 0;
}

static size_t steps_of(const struct runs *r)
{
	size_t steps = 0;

	for (size_t i = 0; i < r->count; i++)
		steps += r->all[i].step_count;
	return steps;
}

/* --- save --- */

static void warn_of(const struct context *c, const struct measured_run *run)
{
	const char *reason = *run->no_steps ? run->no_steps : run->loss;

	if (*reason)
		cli_warn(c, "%s %s: %s; comparing with this baseline is inconclusive", run->path,
			 *run->no_steps ? "has no steps" : "is not complete", reason);
}

static int save(const struct context *c, int argc, char **argv)
{
	static struct runs runs;
	struct error e = { 0 };
	int status = EXIT_DONE;

	if (argc < 2)
		return cli_usage(c, "name the baseline, and the recordings of it: `pitot baseline "
				    "save NAME RECORDING...`");
	if (argc - 1 >= (int)RUNS_MAX)
		return cli_usage(c, "a baseline has at most %u recordings", RUNS_MAX - 1);
	if (baseline_check_name(argv[0], &e) < 0)
		return cli_fail(c, &e);
	for (int i = 1; i < argc && status == EXIT_DONE; i++)
		status = measure_recording(c, argv[i], &runs.all[runs.count++]);
	for (size_t i = 0; i < runs.count && status == EXIT_DONE; i++)
		warn_of(c, &runs.all[i]);
	if (status == EXIT_DONE &&
	    baseline_save(argv[0], runs.all, runs.count, option_force, &e) < 0)
		status = cli_fail(c, &e);
	if (status == EXIT_DONE)
		cli_note(c,
			 "saved %zu run%s with %zu step%s; `pitot diff --against %s` "
			 "compares with %s",
			 runs.count, plural(runs.count), steps_of(&runs), plural(steps_of(&runs)),
			 argv[0], runs.count == 1 ? "it" : "them");
	release_runs(&runs);
	return status;
}

/* --- list --- */

static const struct text_column columns[] = {
	LEFT("baseline"), RIGHT("runs"), RIGHT("steps"),      RIGHT("a step"),
	LEFT("GPU"),      LEFT("saved"), FLEXIBLE("command"),
};

static void add_date(int64_t saved_s, struct strbuf *out)
{
	time_t seconds = (time_t)saved_s;
	char date[64];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) && strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm))
		strbuf_adds(out, date);
}

static double median_step(const struct runs *r)
{
	double values[RUNS_MAX], median = 0;
	size_t count = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct quantity *step = measured_run_find(&r->all[i], QUANTITY_step, "");

		if (step)
			values[count++] = step->value;
	}
	return sample_median((struct sample){ values, count }, &median) == 0 ? median : 0;
}

static void add_row(const struct baseline_entry *entry, const struct runs *runs,
		    const struct error *e, struct text_table *t)
{
	double step = median_step(runs);

	text_table_add(t, entry->name);
	text_table_count(t, runs->count);
	text_table_count(t, steps_of(runs));
	if (step > 0)
		comparison_value_text(QUANTITY_step, step, text_table_begin(t));
	else
		text_table_add(t, "-");
	text_table_safe(t, e->code ? "" : runs->all[0].facts[RUN_FACT_gpu]);
	add_date(entry->saved_s, text_table_begin(t));
	text_table_safe(t, e->code ? "cannot be read" : runs->all[0].command);
}

static void add_json(const struct baseline_entry *entry, const struct runs *runs,
		     const struct error *e, struct json *j)
{
	_cleanup_strbuf_ struct strbuf date = STRBUF_INIT;

	add_date(entry->saved_s, &date);
	json_object(j);
	json_key_string(j, "name", entry->name);
	json_key_string(j, "saved", strbuf_text(&date));
	json_key_u64(j, "bytes", entry->bytes);
	json_key_string(j, "error", e->code ? e->text : NULL);
	json_key_string(j, "command", e->code ? NULL : runs->all[0].command);
	comparison_runs_json(j, "runs", (struct run_side){ runs->all, e->code ? 0 : runs->count });
	json_end(j);
}

static int print_list(const struct context *c, const struct baseline_list *list)
{
	static struct runs runs;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct text_table t = TEXT_TABLE_INIT(columns);
	struct json j = JSON_PRETTY(&out);

	if (c->json)
		json_array(&j);
	for (size_t i = 0; i < list->items.count; i++) {
		const struct baseline_entry *entry = &list->items.data[i];
		struct error e = { 0 };

		if (baseline_load(entry->name, runs.all, RUNS_MAX - 1, &runs.count, &e) < 0)
			cli_warn(c, "%s", e.text);
		if (c->json)
			add_json(entry, &runs, &e, &j);
		else
			add_row(entry, &runs, &e, &t);
		release_runs(&runs);
	}
	if (c->json)
		json_finish(&j);
	else if (list->items.count)
		text_table_print(&t, 0, c->width, c->color, &out);
	text_table_release(&t);
	if (!c->json && !list->items.count)
		cli_note(c, "there are no baselines; `pitot baseline save NAME RECORDING...` makes "
			    "one");
	return cli_print(c, &out);
}

static int list(const struct context *c, int argc, char **argv)
{
	struct baseline_list all;
	struct error e = { 0 };
	int status;

	if (argc)
		return cli_usage(c, "list takes no names, such as '%s'", argv[0]);
	status = baseline_list_init(&all, &e) < 0 ? cli_fail(c, &e) : print_list(c, &all);
	baseline_list_release(&all);
	return status;
}

static int rm(const struct context *c, int argc, char **argv)
{
	struct error e = { 0 };

	if (!argc)
		return cli_usage(c, "name the baselines to remove; `pitot baseline list` shows "
				    "them");
	for (int i = 0; i < argc; i++)
		if (baseline_remove(argv[i], &e) < 0)
			return cli_fail(c, &e);
	return EXIT_DONE;
}

/* --- the command --- */

#define ACTIONS(A)                                                                                 \
	A(save)                                                                                    \
	A(list)                                                                                    \
	A(rm)

#define NAME(action) #action,
static const char *const actions[] = { ACTIONS(NAME) NULL };
#undef NAME
static int (*const functions[])(const struct context *c, int argc, char **argv) = {
#define FUNCTION(action) action,
	ACTIONS(FUNCTION)
#undef FUNCTION
};

static int run(struct context *c, int argc, char **argv)
{
	const char *action = argc > 1 ? argv[1] : "list";

	for (unsigned i = 0; actions[i]; i++)
		if (!strcmp(action, actions[i]))
			return functions[i](c, MAX(argc - 2, 0), argv + MIN(argc, 2));
	return cli_unknown(c, "action", action, actions, "pitot baseline --help");
}

const struct command cmd_baseline = {
	.name = "baseline",
	.group = COMMAND_SHOW,
	.summary = "store runs under a name, to compare later ones with",
	.usage = "save NAME RECORDING... | list | rm NAME...",
	.description =
		"Stores what recordings say of their steps, the same as `pitot diff` measures, in "
		"a file of the user's data ($XDG_DATA_HOME/pitot/baselines, or "
		"~/.local/share/pitot/baselines). `pitot diff --against NAME` compares later "
		"recordings with it, with the same result as with the recordings themselves, "
		"which need not be there any more.\n\n"
		"With five recordings or more, small differences can be shown, too (see `pitot "
		"diff`).",
	.options = options,
	.examples = examples,
	.operands = actions,
	.or_files = true,
	.operands_max = RUNS_MAX + 2, /* one more than there may be */
	.run = run,
};
