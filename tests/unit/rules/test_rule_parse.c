#include "rules/rule.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rules/rule_list.h"
#include "schema/settings.h"
#include "support/cmocka_tests.h"

static const struct accepted {
	const char *text;
	enum rule_metric_id metric;
	enum rule_op op;
	double value;
	const char *key;
	enum rule_base base;
	uint64_t for_ns;
} accepted[] = {
	{ "hang > 30s", RULE_hang, RULE_GREATER, 30e9, "", 0, 0 },
	{ "  hang>=1.5m ", RULE_hang, RULE_AT_LEAST, 90e9, "", 0, 0 },
	{ "sticky-error", RULE_sticky_error, RULE_ALWAYS, 0, "", 0, 0 },
	{ "xid", RULE_xid, RULE_ALWAYS, 0, "", 0, 0 },
	{ "xid == 79", RULE_xid, RULE_EQUAL, 79, "", 0, 0 },
	{ "xid != 13", RULE_xid, RULE_UNEQUAL, 13, "", 0, 0 },
	{ "exit-status != 0", RULE_exit_status, RULE_UNEQUAL, 0, "", 0, 0 },
	{ "step-time > 2x median", RULE_step_time, RULE_GREATER, 2, "", RULE_MEDIAN, 0 },
	{ "step-time > 2x", RULE_step_time, RULE_GREATER, 2, "", RULE_MEDIAN, 0 },
	{ "step-time train > 1.25x p99", RULE_step_time, RULE_GREATER, 1.25, "train", RULE_P99, 0 },
	{ "step-time \"my > step\" > 10us", RULE_step_time, RULE_GREATER, 10e3, "my > step", 0, 0 },
	{ "range-time request > 500ms", RULE_range_time, RULE_GREATER, 500e6, "request", 0, 0 },
	{ "nvtx == evaluation", RULE_nvtx, RULE_EQUAL, 0, "evaluation", 0, 0 },
	{ "launch-rate < 100/s for 2s", RULE_launch_rate, RULE_LESS, 100, "", 0, 2 * NS_PER_S },
	{ "memory > 95.5%", RULE_memory, RULE_GREATER, 95.5, "", 0, 0 },
	{ "counter loss == nan", RULE_counter, RULE_EQUAL, NAN, "loss", 0, 0 },
	{ "counter x > -0.5", RULE_counter, RULE_GREATER, -0.5, "x", 0, 0 },
	{ "counter gpu_memory_used <= 2G for 1m", RULE_counter, RULE_AT_MOST, 2147483648.,
	  "gpu_memory_used", 0, 60 * NS_PER_S },
	{ "file /tmp/x touched", RULE_file, RULE_ALWAYS, 0, "/tmp/x", 0, 0 },
	{ "file \"a b\"", RULE_file, RULE_ALWAYS, 0, "a b", 0, 0 },
	{ "signal USR2", RULE_signal, RULE_ALWAYS, 0, "USR2", 0, 0 },
};

static void rules_are_parsed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		const struct accepted *want = &accepted[i];
		struct rule rule;
		struct error e = { 0 };

		if (rule_parse(want->text, &rule, &e) < 0)
			fail_msg("%s", e.text);
		assert_string_equal(rule.text, want->text);
		assert_int_equal(rule.metric, want->metric);
		assert_int_equal(rule.op, want->op);
		assert_true(isnan(want->value) ? isnan(rule.value)
					       : fabs(rule.value - want->value) < 1e-6);
		assert_string_equal(rule.key, want->key);
		assert_int_equal(rule.base, want->base);
		assert_int_equal(rule.for_ns, want->for_ns);
	}
}

static const struct {
	const char *text, *why;
} refused[] = {
	{ "", "it is empty" },
	{ "  ", "it is empty" },
	{ "hangs > 3s", "there is no metric 'hangs', did you mean 'hang'?" },
	{ "temperature > 3", "there is no metric 'temperature'; `pitot rules` lists them" },
	{ "hang", "'hang' needs a condition, as in: hang > 2m" },
	{ "hang 3s", "needs a condition" },
	{ "hang > ", "'hang >' needs a time with its unit, such as 500ms" },
	{ "hang > 30", "needs a time with its unit" },
	{ "hang > 0s", "needs a time with its unit" },
	{ "hang > 400000h", "needs a time with its unit" },
	{ "hang > 2x median", "needs a time with its unit" },
	{ "hang < 3s", "'hang' does not take '<'" },
	{ "hang > > 3s", "needs a time with its unit" },
	{ "hang > 3s now", "nothing may follow, but 'now' does" },
	{ "hang > 3s for 2s", "'hang' takes no 'for'" },
	{ "xid for 2s", "'xid' takes no 'for'" },
	{ "ecc > 3", "'ecc' does not take '>'" },
	{ "step-time > 0.5x median", "needs a time with its unit" },
	{ "step-time > 2x mean", "nothing may follow, but 'mean' does" },
	{ "range-time > 3s", "'range-time' needs a name" },
	{ "range-time \"\" > 3s", "'range-time' needs a name" },
	{ "range-time", "'range-time' needs a name" },
	{ "nvtx != x", "'nvtx' does not take '!='" },
	{ "nvtx == \"\"", "needs a name" },
	{ "nvtx == \"x", "" },
	{ "memory-growth > 1G", "needs a size in a time, such as 1G/min" },
	{ "memory-growth > 1G/day", "needs a size in a time" },
	{ "memory-growth > /s", "needs a size in a time" },
	{ "memory-growth > 0/s", "needs a size in a time" },
	{ "memory-growth < 1G/s", "'memory-growth' does not take '<'" },
	{ "every", "'every' needs a name, as in: every 1h" },
	{ "every 10", "'every' needs a time with its unit of at least 1s" },
	{ "every 500ms", "'every' needs a time with its unit of at least 1s" },
	{ "every 1h > 3", "'every' does not take '>'" },
	{ "straggler > 20", "needs a percentage" },
	{ "every 1h:",
	  "after ':' comes dump [pre=TIME] [post=TIME] or deepen ENGINE [TIME], not ''" },
	{ "every 1h: capture", "not 'capture'; `pitot capture --when RULE`" },
	{ "xid: dump pre=30", "'pre' needs a time of at most 1h with its unit: pre=30s" },
	{ "xid: dump pre 30s", "'pre' needs a time of at most 1h with its unit: pre=30s" },
	{ "xid: dump post=", "'post' needs a time of at most 1h with its unit: post=30s" },
	{ "xid: dump post", "'post' needs a time" },
	{ "xid: dump post=61m", "'post' needs a time of at most 1h" },
	{ "xid: dump pre=5s pre=6s", "'pre' is there twice" },
	{ "xid: dump dump", "'dump' is there twice" },
	{ "xid: deepen pm-sampling deepen pm-sampling", "'deepen' is there twice" },
	{ "xid: dump during=5s", "nothing may follow, but 'during' does" },
	{ "xid: pre=5s", "after ':' comes dump" },
	{ "every 1h: deepen", "'deepen' needs an engine that can begin late, pm-sampling or" },
	{ "every 1h: deepen trace", "range-profiler, not 'trace'" },
	{ "every 1h: deepen sass-metrics", "engine sass-metrics cannot begin late: CUPTI counts" },
	{ "xid : deepen deep 3s", "engine deep cannot begin late: it samples only" },
	{ "xid: deepen pm-sampling 3", "'deepen' needs a time with its unit, such as 10s" },
	{ "xid: deepen pm-sampling 3s for", "nothing may follow, but 'for' does" },
	{ "hang > 3s:deepen pm-sampling", "needs a time with its unit" },
	{ "launch-rate < 100", "needs a number a second, such as 100/s" },
	{ "launch-rate < -1/s", "needs a number a second" },
	{ "launch-rate < 1/s for 2", "'for' needs a time with its unit" },
	{ "launch-rate < 1/s for", "'for' needs a time with its unit" },
	{ "memory > 95", "needs a percentage, such as 95%" },
	{ "memory > 101%", "needs a percentage" },
	{ "memory > %", "needs a percentage" },
	{ "counter > 3", "'counter' needs a name" },
	{ "counter x => 3", "'counter' does not take '=>'" },
	{ "counter x > 1.", "needs a number" },
	{ "counter x > -", "needs a number" },
	{ "counter x > 1e3", "needs a number" },
	{ "signal KILL", "none of the signals" },
	{ "signal", "'signal' needs a name" },
	{ "signal USR2 > 3", "'signal' does not take '>'" },
};

static void wrong_rules_are_explained(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct rule rule = { .for_ns = 7 };
		struct error e = { 0 };
		int rc = rule_parse(refused[i].text, &rule, &e);

		if (!*refused[i].why) { /* an open quote is a part of the word */
			assert_int_equal(rc, 0);
			continue;
		}
		if (rc != E_USAGE || !strstr(e.text, refused[i].why))
			fail_msg("'%s': %d, %s", refused[i].text, rc, e.text);
		assert_memory_equal(e.text, "rule '", 6);
		assert_int_equal(rule.for_ns, 7);
	}
}

static void rules_have_windows(void **state)
{
	static const struct {
		const char *text;
		bool has_before, has_after;
		uint64_t before_ns, after_ns, deepen_ns;
	} rules[] = {
		{ "xid: dump", false, false, 0, 0, 0 },
		{ "xid: dump pre=5m", true, false, 300 * NS_PER_S, 0, 0 },
		{ "xid == 79 : dump post=0s pre = 1h", true, true, 3600 * NS_PER_S, 0, 0 },
		{ "hang > 3s: dump post=500ms deepen pm-sampling 3s", false, true, 0,
		  500 * NS_PER_MS, 3 * NS_PER_S },
		{ "hang > 3s: deepen pm-sampling dump pre=2s", true, false, 2 * NS_PER_S, 0,
		  RULE_DEEPEN_NS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct error e = { 0 };
		struct rule rule;

		if (rule_parse(rules[i].text, &rule, &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(rule.has_before, rules[i].has_before);
		assert_int_equal(rule.has_after, rules[i].has_after);
		assert_int_equal(rule.before_ns, rules[i].before_ns);
		assert_int_equal(rule.after_ns, rules[i].after_ns);
		assert_int_equal(rule.deepen_ns, rules[i].deepen_ns);
	}
	for (unsigned i = 0; i < RULE_ACTION_COUNT; i++) {
		struct rule rule;

		assert_int_equal(rule_parse(rule_actions[i].example, &rule, NULL), 0);
		assert_memory_equal(rule_actions[i].form, rule_actions[i].name,
				    strlen(rule_actions[i].name));
	}
}

static void rules_start_engines(void **state)
{
	static const struct {
		const char *text;
		int engine;
		uint64_t for_ns;
	} rules[] = {
		{ "xid", 0, 0 },
		{ "xid == 79: deepen pm-sampling 3s", SETTING_ENGINE_PM_SAMPLING, 3 * NS_PER_S },
		{ "step-time > 2x median : deepen range-profiler", SETTING_ENGINE_RANGE_PROFILER,
		  RULE_DEEPEN_NS },
		{ "gpu-busy < 5% for 2s: deepen pm-sampling 500ms", SETTING_ENGINE_PM_SAMPLING,
		  500 * NS_PER_MS },
		{ "range-time \"a: b\" > 5ms", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct rule_list list = { .count = 0 };
		struct error e = { 0 };

		if (rule_list_add(&list, rules[i].text, &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(list.rules[0].deepen, rules[i].engine);
		assert_int_equal(list.rules[0].deepen_ns, rules[i].for_ns);
		assert_int_equal(rule_list_deepens(&list), rules[i].engine != 0);
		assert_int_equal(rule_list_add(&list, "xid", NULL), 0);
		assert_int_equal(rule_list_deepens(&list), rules[i].engine != 0);
	}
}

static void long_rules_are_refused(void **state)
{
	char text[RULE_TEXT_MAX + 1] = "nvtx == ";
	struct rule rule;
	struct error e = { 0 };

	(void)state;
	memset(text + 8, 'x', RULE_TEXT_MAX - 8);
	assert_int_equal(rule_parse(text, &rule, &e), E_USAGE);
	assert_non_null(strstr(e.text, "more than 255 bytes"));
	text[RULE_TEXT_MAX - 1] = '\0';
	assert_int_equal(rule_parse(text, &rule, &e), 0);
	assert_int_equal(strlen(rule.key), RULE_TEXT_MAX - 1 - 8);
}

/* Whether 1, 2 and 3 compare with 2. */
static const struct {
	const char *op;
	bool less, equal, more, nan;
} comparisons[] = {
	{ ">", false, false, true, false },  { ">=", false, true, true, false },
	{ "<", true, false, false, false },  { "<=", true, true, false, false },
	{ "==", false, true, false, false }, { "!=", true, false, true, true },
};

static void operators_compare(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
		char text[40];
		struct rule rule;

		snprintf(text, sizeof(text), "counter x %s 2", comparisons[i].op);
		assert_int_equal(rule_parse(text, &rule, NULL), 0);
		assert_int_equal(rule_compares(&rule, 1, 2), comparisons[i].less);
		assert_int_equal(rule_compares(&rule, 2, 2), comparisons[i].equal);
		assert_int_equal(rule_compares(&rule, 3, 2), comparisons[i].more);
		assert_int_equal(rule_compares(&rule, NAN, 2), comparisons[i].nan);
	}
}

/* The metrics' own examples are right, and usual rules come where none is given. */
static void examples_and_usual_rules_are_rules(void **state)
{
	struct rule_list list = { .count = 0 };
	struct rule rule;

	(void)state;
	for (unsigned i = 0; i < RULE_METRIC_COUNT; i++) {
		assert_int_equal(rule_parse(rule_metrics[i].example, &rule, NULL), 0);
		assert_int_equal(rule.metric, i);
		if (rule_metrics[i].usual)
			assert_int_equal(rule_parse(rule_metrics[i].usual, &rule, NULL), 0);
		assert_int_equal(rule.metric, i);
	}
	assert_int_equal(rule_list_add_all(&list, "hang > 2s; xid==3;; ", NULL), 0);
	assert_int_equal(list.count, 2);
	rule_list_add_usual(&list);
	assert_int_equal(list.count, 5);
	assert_string_equal(list.rules[0].text, "hang > 2s");
	assert_int_equal(list.rules[2].metric, RULE_sticky_error);
	assert_int_equal(list.rules[3].metric, RULE_fatal_signal);
	assert_int_equal(rule_list_add_all(&list, "xid; hang", NULL), E_USAGE);
	while (list.count < RULES_MAX)
		assert_int_equal(rule_list_add(&list, "xid", NULL), 0);
	assert_int_equal(rule_list_add(&list, "xid", NULL), E_USAGE);
}

static void signals_have_numbers(void **state)
{
	(void)state;
	assert_int_equal(rule_signal("USR1"), SIGUSR1);
	assert_int_equal(rule_signal("SIGUSR2"), SIGUSR2);
	assert_int_equal(rule_signal("HUP"), SIGHUP);
	assert_int_equal(rule_signal("SIG"), 0);
	assert_int_equal(rule_signal("INT"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_parsed),
		cmocka_unit_test(wrong_rules_are_explained),
		cmocka_unit_test(rules_have_windows),
		cmocka_unit_test(rules_start_engines),
		cmocka_unit_test(long_rules_are_refused),
		cmocka_unit_test(operators_compare),
		cmocka_unit_test(examples_and_usual_rules_are_rules),
		cmocka_unit_test(signals_have_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
