/* Ranks for which others wait, memory that grows, and timers: when, and when not. */
#include <string.h>

#include "base/clock.h"
#include "rules/rule_list.h"
#include "rules/rule_watch.h"
#include "support/cmocka_tests.h"

#define MS NS_PER_MS
#define S NS_PER_S
#define RANKS 3
#define WORLD 77 /* a communicator */

struct watching {
	struct rule_list list;
	struct rule_watch *watch;
	struct rule_firing fired[64];
	size_t count;
	uint32_t ranks[RANKS];
	uint64_t collectives;
};

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct watching *w = user;

	assert_true(w->count < ARRAY_SIZE(w->fired));
	w->fired[w->count++] = *firing;
}

static void begin(struct watching *w, const char *rules)
{
	struct error e = { 0 };

	memset(w, 0, sizeof(*w));
	if (rule_list_add_all(&w->list, rules, &e) < 0)
		fail_msg("%s", e.text);
	w->watch = rule_watch_new(w->list.rules, w->list.count, on_firing, w);
	for (uint32_t i = 0; i < RANKS; i++)
		w->ranks[i] = (uint32_t)rule_watch_process(w->watch, 100 + i, 4711 + i);
}

static void fires(struct watching *w, uint64_t time_ns, uint32_t pid, const char *evidence)
{
	if (w->count != 1)
		fail_msg("%zu firings instead of '%s'", w->count, evidence);
	if (w->fired[0].time_ns != time_ns || w->fired[0].pid != pid ||
	    strcmp(w->fired[0].evidence, evidence) != 0)
		fail_msg("%llu: %u: %s", (unsigned long long)w->fired[0].time_ns, w->fired[0].pid,
			 w->fired[0].evidence);
	w->count = 0;
}

static void is_silent(struct watching *w)
{
	if (w->count)
		fail_msg("%llu: %s", (unsigned long long)w->fired[0].time_ns, w->fired[0].evidence);
}

static void part(struct watching *w, unsigned rank, enum fact_kind kind, uint64_t time_ns,
		 uint64_t other_ns, uint64_t correlation)
{
	rule_watch_add(w->watch, &(struct fact){ .kind = (uint8_t)kind,
						 .time_ns = time_ns,
						 .other_ns = other_ns,
						 .process = w->ranks[rank],
						 .thread = WORLD,
						 .value = correlation });
}

/* A collective to which the ranks come `late` after `at`, and which ends 1 ms after the last. */
static void collective(struct watching *w, uint64_t at, unsigned count, const uint64_t late[RANKS])
{
	uint64_t id = ++w->collectives, end_ns = 0;

	for (unsigned i = 0; i < count; i++) {
		part(w, i, FACT_COLLECTIVE, at, 1000 + id, 10 * id + i);
		end_ns = MAX(end_ns, at + late[i] + 1 * MS);
	}
	for (unsigned i = 0; i < count; i++)
		part(w, i, FACT_WORK_ENDS, end_ns, at + late[i], 10 * id + i);
}

/* `part` of each 100 ms the others wait for the last rank, until the first moment of `until`. */
static void waits(struct watching *w, uint64_t from, uint64_t until, uint64_t part_ns)
{
	for (uint64_t at = from; at < until; at += 100 * MS)
		collective(w, at, RANKS, (uint64_t[]){ 0, 10 * MS, 10 * MS + part_ns });
	rule_watch_advance(w->watch, until);
}

static void a_rank_for_which_the_others_wait(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "straggler > 20% for 5s");
	waits(&w, 1 * S, 11 * S, 10 * MS);
	is_silent(&w);
	waits(&w, 20 * S, 26 * S, 30 * MS);
	assert_int_equal(w.count, 1);
	assert_int_equal(w.fired[0].pid, 4713);
	assert_non_null(strstr(w.fired[0].evidence, "% of 5."));
	assert_non_null(strstr(w.fired[0].evidence, " the others waited for it, in "));
	w.count = 0;
	waits(&w, 26 * S, 46 * S, 30 * MS); /* once */
	is_silent(&w);
	waits(&w, 46 * S, 56 * S, 18 * MS + 500000); /* not a tenth below the limit */
	waits(&w, 56 * S, 66 * S, 30 * MS);
	is_silent(&w);
	waits(&w, 66 * S, 76 * S, 5 * MS);
	waits(&w, 80 * S, 86 * S, 30 * MS);
	assert_int_equal(w.count, 1);
	rule_watch_free(w.watch);

	begin(&w, "straggler > 20% for 5s");
	waits(&w, 1 * S, 7 * S, 30 * MS);
	assert_int_equal(w.count, 1);
	assert_non_null(strstr(w.fired[0].evidence, "% of 5."));
	rule_watch_free(w.watch);
}

/* What all wait for together is nobody's fault, nor is the time before the last but one came. */
static void only_what_one_rank_alone_delays_counts(void **state)
{
	static const uint64_t two_late[RANKS] = { 0, 80 * MS, 80 * MS },
			      spread[RANKS] = { 0, 80 * MS, 85 * MS };
	struct watching w;

	(void)state;
	begin(&w, "straggler > 10% for 2s");
	for (uint64_t at = 1 * S; at < 9 * S; at += 100 * MS)
		collective(&w, at, RANKS, at < 5 * S ? two_late : spread);
	rule_watch_advance(w.watch, 12 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
}

/* Of two ranks the later one delays the other, in whatever order their ends come. */
static void two_ranks(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "straggler > 20%");
	for (uint64_t at = 1 * S; at < 12 * S; at += 100 * MS)
		collective(&w, at, 2, (uint64_t[RANKS]){ 40 * MS, 0 });
	rule_watch_advance(w.watch, 13 * S);
	assert_int_equal(w.count, 1);
	assert_int_equal(w.fired[0].pid, 4711);
	rule_watch_free(w.watch);
}

/* A checkpoint on one rank, collectives of one process, and records that were lost. */
static void what_is_no_straggler(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "straggler > 20% for 5s");
	waits(&w, 1 * S, 5 * S, 1 * MS);
	collective(&w, 5 * S, RANKS, (uint64_t[]){ 0, 0, 4 * S });
	rule_watch_advance(w.watch, 30 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
	begin(&w, "straggler > 20% for 5s");
	for (uint64_t at = 1 * S; at < 20 * S; at += 100 * MS)
		collective(&w, at, 1, (uint64_t[RANKS]){ 90 * MS });
	rule_watch_advance(w.watch, 30 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
	begin(&w, "straggler > 20% for 5s");
	part(&w, 2, FACT_LOST, 1 * S, 0, 0);
	waits(&w, 2 * S, 12 * S, 50 * MS);
	is_silent(&w);
	rule_watch_free(w.watch);
}

/* A rank whose parts never end: what was begun is forgotten before it fills the memory. */
static void collectives_that_do_not_end_are_forgotten(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "straggler > 20% for 5s");
	for (uint64_t i = 0; i < 200000; i++)
		part(&w, i % RANKS, FACT_COLLECTIVE, S + i, 1 + i, 1000000 + i);
	waits(&w, 2 * S, 12 * S, 30 * MS);
	assert_int_equal(w.count, 1);
	rule_watch_free(w.watch);
}

static void reads(struct watching *w, uint64_t time_ns, double gib)
{
	rule_watch_add(w->watch, &(struct fact){ .kind = FACT_COUNTER,
						 .time_ns = time_ns,
						 .process = w->ranks[0],
						 .instance = 1,
						 .rules = UINT32_MAX,
						 .real = gib * 1073741824.0 });
}

static void memory_that_grows(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "memory-growth > 1G/min for 10s");
	for (uint64_t s = 1; s <= 22; s++) /* half of it */
		reads(&w, s * S, 10 + (double)s / 120);
	reads(&w, 23 * S, 30); /* at once, and then no more */
	is_silent(&w);
	reads(&w, 30 * S, 30); /* the readings between are unknown */
	for (uint64_t s = 31; s <= 39; s++)
		reads(&w, s * S, 30 + (double)(s - 30) / 20);
	is_silent(&w);
	reads(&w, 40 * S, 30.5);
	fires(&w, 40 * S, 4711, "it is 3.0 GiB a minute");
	for (uint64_t s = 41; s <= 60; s++)
		reads(&w, s * S, 30.5 + (double)(s - 40) / 20); /* once */
	is_silent(&w);
	for (uint64_t s = 61; s <= 90; s++)
		reads(&w, s * S, 20); /* freed */
	for (uint64_t s = 91; s <= 110; s++)
		reads(&w, s * S, 20 + (double)(s - 90));
	assert_int_equal(w.count, 1);
	rule_watch_free(w.watch);
}

static void timers(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "every 10s");
	for (uint64_t at = 3 * S; at < 13 * S; at += 200 * MS)
		rule_watch_advance(w.watch, at);
	is_silent(&w);
	rule_watch_advance(w.watch, 13 * S + 1);
	fires(&w, 13 * S, 0, "the time has passed");
	rule_watch_advance(w.watch, 58 * S); /* the last one that has passed */
	fires(&w, 53 * S, 0, "the time has passed");
	rule_watch_advance(w.watch, 62 * S);
	is_silent(&w);
	rule_watch_advance(w.watch, 63 * S);
	fires(&w, 63 * S, 0, "the time has passed");
	rule_watch_free(w.watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_for_which_the_others_wait),
		cmocka_unit_test(only_what_one_rank_alone_delays_counts),
		cmocka_unit_test(two_ranks),
		cmocka_unit_test(what_is_no_straggler),
		cmocka_unit_test(collectives_that_do_not_end_are_forgotten),
		cmocka_unit_test(memory_that_grows),
		cmocka_unit_test(timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
