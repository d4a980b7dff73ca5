/* cmd_rules.c: `pitot rules`: what rules can say, and when they would have held in a recording. */
#include <errno.h>

#include "base/json.h"
#include "base/vec.h"
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
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);

	for (unsigned i = 0; i < RULE_METRIC_COUNT; i++) {
		const struct rule_metric *metric = &rule_metrics[i];

		text_table_add(&table, metric->usual ? metric->usual : metric->example);
		text_table_add(&table, metric->usual ? "yes" : "");
		text_table_add(&table, metric->meaning);
	}
	text_table_print(&table, 0, MAX(c->width, 160), c->color, out);
}

static void list_actions(const struct context *c, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT("action"), LEFT("example"),
						      FLEXIBLE("what it does") };
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);

	for (unsigned i = 0; i < RULE_ACTION_COUNT; i++) {
		text_table_add(&table, rule_actions[i].form);
		text_table_add(&table, rule_actions[i].example);
		text_table_add(&table, rule_actions[i].meaning);
	}
	strbuf_addc(out, '\n');
	text_table_print(&table, 0, MAX(c->width, 160), c->color, out);
}

/* --- a test --- */

struct tested {
	struct rule_firing firing;
	enum trigger_outcome outcome;
	uint32_t dump; /* that it makes or belongs to */
};

struct dump_window {
	uint64_t from_ns, until_ns;
};

struct test {
	const struct context *context;
	const struct rule_list *list;
	struct rule_plan plan;
	uint64_t start_ns;
	uint64_t fired[RULES_MAX];
	VEC(struct tested) all;
	VEC(struct dump_window) dumps; /* by number, from 1 */
	bool has_no_memory;
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

/* The window of a firing's dump; NULL: it has none. */
static const struct dump_window *window_of(const struct test *t, const struct tested *tested)
{
	bool has_dump = tested->outcome == trigger_outcome_dump ||
			tested->outcome == trigger_outcome_joined;

	return has_dump ? &t->dumps.data[tested->dump - 1] : NULL;
}

static uint64_t since_start(const struct test *t, uint64_t time_ns)
{
	return time_ns - MIN(t->start_ns, time_ns);
}

/* Later firings may make the window of a dump longer. */
static void on_firing(void *user, const struct rule_firing *firing)
{
	struct test *t = user;
	struct tested tested = { .firing = *firing };
	struct dump_window window;

	(void)rule_plan_is_due(&t->plan, firing->time_ns);
	tested.outcome = rule_plan_add(&t->plan, firing);
	tested.dump = t->plan.dump;
	window = (struct dump_window){ t->plan.from_ns, t->plan.due_ns };
	t->fired[firing->rule]++;
	if ((tested.dump > t->dumps.count && vec_push(&t->dumps, window) < 0) ||
	    vec_push(&t->all, tested) < 0)
		t->has_no_memory = true;
	else if (t->plan.is_pending)
		t->dumps.data[tested.dump - 1] = window;
}

static void print_json(const struct test *t, struct strbuf *out)
{
	struct json json = JSON_PRETTY(out);

	json_array(&json);
	for (size_t i = 0; i < t->all.count; i++) {
		const struct tested *tested = &t->all.data[i];
		const struct rule_firing *firing = &tested->firing;
		const struct dump_window *window = window_of(t, tested);

		json_object(&json);
		json_key_u64(&json, "time_ns", since_start(t, firing->time_ns));
		json_key_string(&json, "rule", t->list->rules[firing->rule].text);
		json_key_known(&json, "process", firing->pid != 0, firing->pid);
		json_key_string(&json, "outcome", outcome_name(tested->outcome));
		json_key_known(&json, "dump", window != NULL, tested->dump);
		json_key_known(&json, "from_ns", window != NULL,
			       window ? since_start(t, window->from_ns) : 0);
		json_key_known(&json, "until_ns", window != NULL,
			       window ? since_start(t, window->until_ns) : 0);
		json_key_string(&json, "evidence", firing->evidence);
		json_end(&json);
	}
	json_finish(&json);
}

static void print_text(const struct test *t, struct strbuf *out)
{
	static const struct text_column columns[] = { RIGHT("time"),    LEFT("rule"),
						      LEFT("outcome"),  LEFT("window"),
						      RIGHT("process"), FLEXIBLE("evidence") };
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < t->all.count; i++) {
		const struct tested *tested = &t->all.data[i];
		const struct rule_firing *firing = &tested->firing;
		const struct dump_window *window = window_of(t, tested);
		bool is_first = tested->outcome == trigger_outcome_dump;

		text_table_addf(&table, "%.3f s", (double)since_start(t, firing->time_ns) / 1e9);
		text_table_safe(&table, t->list->rules[firing->rule].text);
		if (window)
			text_table_addf(&table, "%s %u", is_first ? "dump" : "of dump",
					(unsigned)tested->dump);
		else
			text_table_add(&table, outcome_name(tested->outcome));
		if (window && is_first)
			text_table_addf(&table, "%.3f to %.3f s",
					(double)since_start(t, window->from_ns) / 1e9,
					(double)since_start(t, window->until_ns) / 1e9);
		else
			text_table_add(&table, "");
		text_table_addf(&table, "%.0u", (unsigned)firing->pid);
		text_table_safe(&table, firing->evidence);
	}
	if (t->all.count)
		text_table_print(&table, 0, t->context->width, t->context->color, out);
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
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct test t = { .context = c, .list = list };
	struct error e = { 0 };
	int rc = find_start(recording, &t.start_ns, &e);

	rule_plan_init(&t.plan, list, PLAN_BEFORE_NS, PLAN_AFTER_NS);
	if (rc == 0)
		rc = rule_feed_recording(recording, list->rules, list->count, on_firing, &t, &e);
	if (rc == 0 && t.has_no_memory)
		rc = error_set(&e, -ENOMEM, "out of memory");
	if (rc == 0)
		(c->json ? print_json : print_text)(&t, &out);
	vec_release(&t.all);
	vec_release(&t.dumps);
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
	else {
		list_text(c, &out);
		list_actions(c, &out);
	}
	return cli_print(c, &out);
}

const struct command cmd_rules = {
	.name = "rules",
	.group = COMMAND_RECORD,
	.summary = "list what triggers a dump of a ring, or test rules on a recording",
	.usage = "[options] [RULE...]",
	.description =
		"A rule is METRIC [NAME] [OPERATOR VALUE] [for TIME] [: ACTION...], such as "
		"'step-time > 2x median'. `pitot record --ring 10m --when RULE` dumps the ring "
		"when it holds. Without an operand this lists the metrics, which rules are on "
		"anyway, and the actions.\n\n"
		"With --test, the rules are evaluated in a recording, as they would have been "
		"while it was made; without rules, those that are on anyway. Each line is a moment "
		"at which a rule holds, what was the case, and whether it makes a dump, of which "
		"time: one "
		"\"follows\" from an earlier fault of the process, is in the \"cooldown\" after "
		"the rule's last dump, or beyond the \"limit\" of dumps in an hour.",
	.options = options,
	.operands_max = RULES_MAX,
	.examples = examples,
	.no_names = true,
	.run = run_rules,
};
