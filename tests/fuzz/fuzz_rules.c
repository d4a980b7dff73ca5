/* layer: rules */
/*
 * Rules and facts: the first line has rules, the rest is facts of 8 bytes. A rule that is accepted
 * is accepted again as its own text, firings are of rules and have evidence, and a dump is counted
 * once.
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "rules/rule_list.h"
#include "rules/rule_plan.h"

struct judging {
	struct rule_plan plan;
	unsigned rules;
};

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct judging *j = user;
	uint32_t before = j->plan.dump;
	enum trigger_outcome outcome;

	(void)rule_plan_is_due(&j->plan, firing->time_ns);
	outcome = rule_plan_add(&j->plan, firing);
	if (firing->rule >= j->rules || strlen(firing->evidence) >= sizeof(firing->evidence) ||
	    !*firing->evidence || (outcome == trigger_outcome_dump) != (j->plan.dump == before + 1))
		abort();
}

static void add_rules(struct rule_list *list, const char *text)
{
	struct error e = { 0 };
	unsigned before = 0;

	if (rule_list_add_all(list, text, &e) < 0 && !*e.text)
		abort();
	for (; before < list->count; before++) {
		struct rule again;

		if (rule_parse(list->rules[before].text, &again, NULL) < 0 ||
		    again.metric != list->rules[before].metric ||
		    again.for_ns != list->rules[before].for_ns ||
		    again.before_ns != list->rules[before].before_ns ||
		    again.after_ns != list->rules[before].after_ns)
			abort();
	}
}

/*
 * Small steps of time, and large ones in either direction. Whoever makes a fact knows the rules, so
 * there are no bits of others.
 */
static void add_fact(struct rule_watch *w, struct cursor *c, uint64_t *now, unsigned rules)
{
	struct fact fact = { .kind = cursor_u8(c) % (FACT_OUTSIDE + 1), .process = 0 };
	uint8_t step = cursor_u8(c), value;

	*now += step < 0xf0 ? (uint64_t)step * 10000000 : UINT64_MAX << (step & 15) * 4;
	fact.time_ns = *now;
	fact.other_ns = fact.time_ns + ((uint64_t)cursor_u8(c) << 24);
	fact.instance = cursor_u8(c);
	fact.rules = (uint32_t)(cursor_u8(c) * 0x01010101u & ((UINT64_C(1) << rules) - 1));
	fact.grows = cursor_u8(c) & 1;
	fact.process += cursor_u8(c) & 1;
	value = cursor_u8(c);
	fact.value = value;
	if (fact.kind == FACT_COUNTER)
		fact.real = value == 0xff ? NAN : value - 7.5;
	rule_watch_add(w, &fact);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *end = memchr(bytes, '\n', size);
	size_t length = end ? (size_t)(end - bytes) : size;
	struct rule_list list = { .count = 0 };
	struct judging judging;
	char *text = malloc(length + 1);
	struct rule_watch *w;
	uint64_t now = 0;

	if (!text)
		abort();
	memcpy(text, bytes, length);
	text[length] = '\0';
	add_rules(&list, text);
	free(text);
	judging.rules = list.count;
	rule_plan_init(&judging.plan, &list, 5000000000, 5000000000);
	w = rule_watch_new(list.rules, list.count, on_firing, &judging);
	if (!w)
		abort();
	if (rule_watch_process(w, 1, 7) == 0 && rule_watch_process(w, 2, 8) == 1 && end)
		for (struct cursor c = cursor_of(end + 1, size - length - 1); cursor_left(&c) >= 8;)
			add_fact(w, &c, &now, list.count);
	rule_watch_free(w);
	return 0;
}
