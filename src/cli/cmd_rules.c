/* cmd_rules.c: `pitot rules`: what rules can say, and when they would have held in a recording. */
#include "base/json.h"
#include "cli/ui.h"
#include "report/text_table.h"
#include "rules/rule_feed.h"
#include "rules/rule_list.h"
#include "rules/rule_plan.h"

static const char *recording;

static const struct option options[] = {
	OPTION(STRING, "test", 0, recording, "RECORDING",
	       "show when the rules would have held in a recording, and which dumps would have "
	       "been made",
	       .is_path = true),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot rules", "list what rules can say" },
	{ "pitot rules --test run.pitot 'step-time > 2x median'",
	  "find a limit that a normal run does not reach" },
	{ "pitot rules --test run.pitot", "the rules that are on if none is given" },
	{ NULL, NULL },
};

/* --- the list of metrics --- */

static void list_json(struct strbuf *out)
{
	struct json json = JSON_PRETTY(out);

	json_array(&json);
	for (unsigned i = 0; i < RULE_METRIC_COUNT; i++) {
		json_object(&json);
		json_key_string(&json, "name", rule_metrics[i].name);
		json_key_string(&json, "default", rule_metrics[i].usual);
		json_key_string(&json, "example", rule_metrics[i].example);
		json_key_string(&json, "meaning", rule_metrics[i].meaning);
		json_end(&json);
	}
	json_finish(&json);
}

static void list_text(const struct context *c, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT("rule"), LEFT("on"),
						      FLEXIBLE("fires when") };
	struct text_table table = TEXT_TABLE_INIT(columns);

	for (unsigned i = 0; i < RULE_METRIC_COUNT; i++) {
		const struct rule_metric *metric = &rule_metrics[i];

		text_table_add(&table, metric->usual ? metric->usual : metric->example);
		text_table_add(&table, metric->usual ? "yes" : "");
		text_table_add(&table, metric->meaning);
	}
	text_table_print(&table, 0, MAX(c->width, 160), c->color, out);
	text_table_release(&table);
}

/* --- a test --- */

struct test {
	const struct context *context;
	const struct rule_list *list;
	struct rule_plan plan;
	uint64_t start_ns;
	uint64_t fired[RULES_MAX];
	uint64_t firings;
	struct strbuf *out;
	struct json json;
	struct text_table table;
};

static const char *outcome_name(enum trigger_outcome outcome)
{
	static const char *const names[] = {
#define V(list, name, value) [value] = #name,
		ENUM_trigger_outcome(V, trigger_outcome)
#undef V
	};

	return names[outcome];
}

static bool has_dump(enum trigger_outcome outcome)
{
	return outcome == trigger_outcome_dump || outcome == trigger_outcome_joined;
}

static void firing_json(struct test *t, const struct rule_firing *firing,
			enum trigger_outcome outcome)
{
	struct json *json = &t->json;

	json_object(json);
	json_key_u64(json, "time_ns", firing->time_ns - MIN(t->start_ns, firing->time_ns));
	json_key_string(json, "rule", t->list->rules[firing->rule].text);
	json_key_known(json, "process", firing->pid != 0, firing->pid);
	json_key_string(json, "outcome", outcome_name(outcome));
	json_key_known(json, "dump", has_dump(outcome), t->plan.dump);
	json_key_string(json, "evidence", firing->evidence);
	json_end(json);
}

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct test *t = user;
	enum trigger_outcome outcome;

	(void)rule_plan_is_due(&t->plan, firing->time_ns);
	outcome = rule_plan_add(&t->plan, firing);
	t->firings++;
	t->fired[firing->rule]++;
	if (t->context->json) {
		firing_json(t, firing, outcome);
		return;
	}
	text_table_addf(&t->table, "%.3f s",
			(double)(firing->time_ns - MIN(t->start_ns, firing->time_ns)) / 1e9);
	text_table_safe(&t->table, t->list->rules[firing->rule].text);
	if (has_dump(outcome))
		text_table_addf(&t->table, "%s %u",
				outcome == trigger_outcome_dump ? "dump" : "of dump",
				(unsigned)t->plan.dump);
	else
		text_table_add(&t->table, outcome_name(outcome));
	text_table_addf(&t->table, "%.0u", (unsigned)firing->pid);
	text_table_safe(&t->table, firing->evidence);
}

/* Says which rules have not held, or cannot hold here. */
static void note_quiet(const struct test *t)
{
	for (unsigned i = 0; i < t->list->count; i++) {
		const struct rule *rule = &t->list->rules[i];

		if (rule_metrics[rule->metric].family == RULE_OF_OUTSIDE)
			cli_note(t->context, "no recording shows when '%s' holds", rule->text);
		else if (!t->fired[i])
			cli_note(t->context, "'%s' never holds", rule->text);
	}
}

/* Times are those of `pitot report`. */
static int find_start(const char *path, uint64_t *start_ns, struct error *e)
{
	struct trace *trace;
	uint64_t end_ns;
	int rc = trace_open(path, NULL, &trace, e);

	if (rc < 0)
		return rc;
	trace_span(trace, start_ns, &end_ns);
	trace_free(trace);
	return 0;
}

static int run_test(const struct context *c, const struct rule_list *list)
{
	static const struct text_column columns[] = { RIGHT("time"), LEFT("rule"), LEFT("outcome"),
						      RIGHT("process"), FLEXIBLE("evidence") };
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct test t = { .context = c,
			  .list = list,
			  .plan = { .before_ns = PLAN_BEFORE_NS,
				    .after_ns = PLAN_AFTER_NS,
				    .cooldown_ns = PLAN_COOLDOWN_NS },
			  .out = &out,
			  .json = JSON_PRETTY(&out),
			  .table = TEXT_TABLE_INIT(columns) };
	struct error e = { 0 };
	int rc = find_start(recording, &t.start_ns, &e);

	if (c->json)
		json_array(&t.json);
	if (rc == 0)
		rc = rule_feed_recording(recording, list->rules, list->count, on_firing, &t, &e);
	if (c->json)
		json_finish(&t.json);
	else if (t.firings)
		text_table_print(&t.table, 0, c->width, c->color, &out);
	text_table_release(&t.table);
	if (rc < 0)
		return cli_fail(c, &e);
	note_quiet(&t);
	return cli_print(c, &out);
}

static int run_rules(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	static struct rule_list list;
	struct error e = { 0 };

	for (int i = 1; i < argc; i++)
		if (rule_list_add(&list, argv[i], &e) < 0)
			return cli_fail(c, &e);
	if (recording) {
		if (!list.count)
			rule_list_add_usual(&list);
		return run_test(c, &list);
	}
	if (argc > 1)
		return cli_usage(c, "rules are tested in a recording: pitot rules --test RECORDING "
				    "'RULE'");
	if (c->json)
		list_json(&out);
	else
		list_text(c, &out);
	return cli_print(c, &out);
}

const struct command cmd_rules = {
	.name = "rules",
	.group = COMMAND_RECORD,
	.summary = "list what triggers a dump of a ring, or test rules on a recording",
	.usage = "[options] [RULE...]",
	.description =
		"A rule is METRIC [NAME] [OPERATOR VALUE] [for TIME], such as 'step-time > 2x "
		"median'. `pitot record --ring 10m --when RULE` dumps the ring when it holds. "
		"Without an operand this lists the metrics, and which rules are on anyway.\n\n"
		"With --test, the rules are evaluated in a recording, as they would have been "
		"while it was made; without rules, those that are on anyway. Each line is a moment "
		"at which a rule holds, what was the case, and whether it makes a dump: one "
		"\"follows\" from an earlier fault of the process, is in the \"cooldown\" after "
		"the rule's last dump, or beyond the \"limit\" of dumps in an hour.",
	.options = options,
	.operands_max = RULES_MAX,
	.examples = examples,
	.no_names = true,
	.run = run_rules,
};
