/* How busy a GPU was, collectives that do not end, throttling and kills: when, and when not. */
#include <string.h>

#include "base/clock.h"
#include "rules/rule_list.h"
#include "rules/rule_watch.h"
#include "support/cmocka_tests.h"

#define MS NS_PER_MS
#define S NS_PER_S

struct watching {
	struct rule_list list;
	struct rule_watch *watch;
	struct rule_firing fired[16];
	size_t count;
	uint32_t process;
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
	w->process = (uint32_t)rule_watch_process(w->watch, 77, 4711);
}

static void add(struct watching *w, enum fact_kind kind, uint64_t time_ns, uint64_t other_ns,
		uint64_t value, uint32_t instance)
{
	rule_watch_add(w->watch, &(struct fact){ .kind = (uint8_t)kind,
						 .time_ns = time_ns,
						 .other_ns = other_ns,
						 .process = w->process,
						 .instance = instance,
						 .value = value });
}

static void work(struct watching *w, uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	add(w, FACT_WORK_BEGINS, start_ns, end_ns, correlation, 0);
	add(w, FACT_WORK_ENDS, end_ns, start_ns, correlation, 0);
}

static void reads(struct watching *w, uint64_t time_ns, double value, uint32_t gpu)
{
	rule_watch_add(w->watch, &(struct fact){ .kind = FACT_COUNTER,
						 .time_ns = time_ns,
						 .process = w->process,
						 .instance = gpu,
						 .rules = UINT32_MAX,
						 .real = value });
}

static void fires(struct watching *w, uint64_t time_ns, const char *evidence)
{
	if (w->count != 1)
		fail_msg("%zu firings instead of '%s'", w->count, evidence);
	if (w->fired[0].time_ns != time_ns || strcmp(w->fired[0].evidence, evidence) != 0)
		fail_msg("%llu: %s", (unsigned long long)w->fired[0].time_ns, w->fired[0].evidence);
	w->count = 0;
}

static void is_silent(struct watching *w)
{
	if (w->count)
		fail_msg("%llu: %s", (unsigned long long)w->fired[0].time_ns, w->fired[0].evidence);
}

/* `percent` of each second from `from` to `until`, in ten pieces. */
static void busy(struct watching *w, uint64_t from_s, uint64_t until_s, unsigned percent)
{
	for (uint64_t at = from_s * S; at < until_s * S; at += 100 * MS)
		work(w, at, at + percent * MS, 0);
}

static void a_gpu_that_is_less_busy_than_before(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "gpu-busy < 20% for 3s");
	busy(&w, 1, 5, 10); /* it was never more */
	rule_watch_advance(w.watch, 6 * S);
	is_silent(&w);
	busy(&w, 6, 10, 50);
	busy(&w, 10, 12, 10); /* not for long enough */
	busy(&w, 12, 14, 21);
	busy(&w, 14, 20, 10);
	fires(&w, 18 * S, "GPU 0 was busy 10.0% of a second");
	busy(&w, 20, 30, 10); /* once */
	busy(&w, 30, 31, 21); /* not away from the limit by a tenth */
	busy(&w, 31, 36, 10);
	is_silent(&w);
	busy(&w, 36, 37, 23);
	busy(&w, 37, 42, 10);
	rule_watch_advance(w.watch, 43 * S);
	fires(&w, 41 * S, "GPU 0 was busy 10.0% of a second");
	rule_watch_free(w.watch);
}

static void a_gpu_that_is_busier(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "gpu-busy >= 50%");
	busy(&w, 1, 3, 49);
	rule_watch_advance(w.watch, 4 * S);
	is_silent(&w);
	work(&w, 5 * S, 5 * S + 300 * MS, 0); /* overlapping work counts once */
	work(&w, 5 * S + 100 * MS, 5 * S + 400 * MS, 0);
	work(&w, 5 * S + 200 * MS, 5 * S + 300 * MS, 0);
	rule_watch_advance(w.watch, 7 * S);
	is_silent(&w);
	work(&w, 8 * S, 8 * S + 500 * MS, 0);
	rule_watch_advance(w.watch, 10 * S);
	fires(&w, 9 * S, "GPU 0 was busy 50.0% of a second");
	rule_watch_free(w.watch);
}

/* A second is judged when all of its work is known; a pause of the process is one without work. */
static void work_that_ends_late_is_waited_for(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "gpu-busy < 20%");
	busy(&w, 1, 3, 90);
	add(&w, FACT_LAUNCH, 3 * S, 0, 5, 0);
	rule_watch_advance(w.watch, 8 * S);
	is_silent(&w);
	work(&w, 3 * S + 1, 8 * S, 5); /* it ran all the time */
	rule_watch_advance(w.watch, 8 * S + 1);
	is_silent(&w);
	rule_watch_advance(w.watch, 10 * S);
	fires(&w, 9 * S, "GPU 0 was busy 0.0% of a second");
	rule_watch_free(w.watch);
	begin(&w, "gpu-busy < 20%");
	busy(&w, 1, 3, 90);
	add(&w, FACT_LOST, 3 * S, 0, 0, 0); /* some of its work */
	rule_watch_advance(w.watch, 10 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
	begin(&w, "gpu-busy < 20%");
	busy(&w, 1, 3, 90);
	rule_watch_last_seen(w.watch, w.process, 3 * S); /* nothing is known afterwards */
	rule_watch_advance(w.watch, 10 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
}

static void a_collective_without_its_peers(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "collective > 10s");
	add(&w, FACT_RECORDS, 0, 0, 0, 0);
	add(&w, FACT_LAUNCH, 1 * S, 0, 1, 0);
	add(&w, FACT_LAUNCH, 2 * S, 0, 2, 0);
	add(&w, FACT_COLLECTIVE, 2 * S, 0, 2, 0);
	add(&w, FACT_LAUNCH, 3 * S, 0, 3, 0);
	rule_watch_advance(w.watch, 30 * S); /* a kernel before it runs */
	is_silent(&w);
	work(&w, 1 * S, 31 * S, 1);
	work(&w, 3 * S, 32 * S, 3); /* work of another stream */
	rule_watch_advance(w.watch, 41 * S);
	is_silent(&w);
	rule_watch_advance(w.watch, 42 * S);
	fires(&w, 41 * S,
	      "a collective has not ended for 10.0 s, and all work that was launched "
	      "before it has");
	rule_watch_advance(w.watch, 100 * S);
	is_silent(&w); /* once */
	work(&w, 32 * S, 101 * S, 2);
	add(&w, FACT_LAUNCH, 102 * S, 0, 4, 0); /* no collective */
	rule_watch_advance(w.watch, 150 * S);
	is_silent(&w);
	work(&w, 102 * S, 151 * S, 4);
	add(&w, FACT_COLLECTIVE, 152 * S - 1, 0, 5, 0); /* its row comes before its launch */
	add(&w, FACT_LAUNCH, 152 * S, 0, 5, 0);
	rule_watch_advance(w.watch, 170 * S);
	assert_int_equal(w.count, 1);
	assert_int_equal(w.fired[0].time_ns, 162 * S);
	w.count = 0;
	add(&w, FACT_WAITED, 171 * S, 0, 0, 0); /* a call has waited for it */
	add(&w, FACT_LAUNCH, 172 * S, 0, 6, 0);
	rule_watch_advance(w.watch, 300 * S);
	is_silent(&w);
	rule_watch_free(w.watch);
}

static void clocks_that_are_held_down(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "throttle > 50% for 4s");
	for (uint64_t at = 1; at <= 20; at++) /* idle, and a setting of the user: no limits */
		reads(&w, at * S, 3, 1);
	is_silent(&w);
	for (uint64_t at = 21; at <= 25; at++)
		reads(&w, at * S, at < 23 ? 4 : 0, 1); /* half of the time is not more */
	is_silent(&w);
	for (uint64_t at = 26; at <= 29; at++)
		reads(&w, at * S, at < 29 ? 36 : 0, 1);
	fires(&w, 29 * S, "it is 75%");
	for (uint64_t at = 30; at <= 33; at++) /* it goes on */
		reads(&w, at * S, 4, 1);
	is_silent(&w);
	for (uint64_t at = 34; at <= 42; at++)
		reads(&w, at * S, at < 36 ? 0 : 4, 2); /* another GPU */
	fires(&w, 42 * S, "it is 100%");
	reads(&w, 100 * S, 4, 2); /* nothing is known of the time between */
	reads(&w, 103 * S, 4, 2);
	is_silent(&w);
	rule_watch_free(w.watch);
}

static void processes_that_were_killed(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "oom-killed; fatal-signal; exit-status == 9");
	rule_watch_add(w.watch, &(struct fact){ .kind = FACT_EXIT,
						.time_ns = 5 * S,
						.process = 4711,
						.other_ns = 1,
						.value = 137 });
	assert_int_equal(w.count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_non_null(strstr(w.fired[i].evidence, "its control group was out of memory"));
		assert_int_equal(w.fired[i].follows, i);
	}
	rule_watch_free(w.watch);
	begin(&w, "oom-killed");
	for (unsigned status = 0; status < 256;
	     status++) /* not by SIGKILL; not for want of memory */
		rule_watch_add(w.watch, &(struct fact){ .kind = FACT_EXIT,
							.time_ns = (5 + status) * S,
							.process = 4711,
							.other_ns = status != 137,
							.value = status });
	is_silent(&w);
	rule_watch_free(w.watch);
}

static void values_at_a_limit_and_away_from_it(void **state)
{
	static const char *const rules[] = { "counter x > 10", "counter x >= 10", "counter x < 10",
					     "counter x <= 10", "counter x == 10" };
	/* Values in turn, and which of them fire, by rule. */
	static const double values[] = { 10, 11, 9, 10, 8.9, 10, 11.1, 9.9, 10 };
	static const char *const fired[] = { "-+----+--", "+--+-+---", "--+----+-", "+-+----+-",
					     "+--+-+--+" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct watching w;

		begin(&w, rules[i]);
		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			reads(&w, (1 + k) * S, values[k], 1);
			if (w.count != (fired[i][k] == '+'))
				fail_msg("'%s' at value %zu: %zu", rules[i], k, w.count);
			w.count = 0;
		}
		rule_watch_free(w.watch);
	}
}

/* Work that ends says that a hang is over; it does not say that an error is. */
static void progress_ends_a_hang_alone(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "sticky-error; fatal-signal");
	add(&w, FACT_FAILURE, 1 * S, 0, 700, 0);
	assert_int_equal(w.count, 1);
	add(&w, FACT_LAUNCH, 2 * S, 0, 1, 0);
	work(&w, 2 * S, 3 * S, 1);
	rule_watch_add(w.watch, &(struct fact){ .kind = FACT_EXIT,
						.time_ns = 4 * S,
						.process = 4711,
						.value = 134 });
	assert_int_equal(w.count, 2);
	assert_true(w.fired[1].follows);
	rule_watch_free(w.watch);
	begin(&w, "hang > 10s; fatal-signal");
	add(&w, FACT_RECORDS, 0, 0, 0, 0);
	add(&w, FACT_LAUNCH, 1 * S, 0, 1, 0);
	rule_watch_advance(w.watch, 20 * S);
	assert_int_equal(w.count, 1);
	work(&w, 2 * S, 21 * S, 1);
	rule_watch_add(w.watch, &(struct fact){ .kind = FACT_EXIT,
						.time_ns = 22 * S,
						.process = 4711,
						.value = 134 });
	assert_int_equal(w.count, 2);
	assert_false(w.fired[1].follows);
	rule_watch_free(w.watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_at_a_limit_and_away_from_it),
		cmocka_unit_test(progress_ends_a_hang_alone),
		cmocka_unit_test(a_gpu_that_is_less_busy_than_before),
		cmocka_unit_test(a_gpu_that_is_busier),
		cmocka_unit_test(work_that_ends_late_is_waited_for),
		cmocka_unit_test(a_collective_without_its_peers),
		cmocka_unit_test(clocks_that_are_held_down),
		cmocka_unit_test(processes_that_were_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
