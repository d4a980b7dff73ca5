#include "rules/rule_watch.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "rules/rule_list.h"
#include "rules/rule_plan.h"
#include "support/cmocka_tests.h"

#define MS NS_PER_MS
#define S NS_PER_S

struct fired {
	struct rule_firing items[64];
	size_t count;
};

struct watching {
	struct rule_list list;
	struct rule_watch *watch;
	struct fired fired;
	uint32_t process;
};

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct fired *f = user;

	assert_true(f->count < ARRAY_SIZE(f->items));
	f->items[f->count++] = *firing;
}

/* Rules are separated by ';'. */
static void begin(struct watching *w, const char *rules)
{
	struct error e = { 0 };
	int64_t process;

	memset(w, 0, sizeof(*w));
	if (rule_list_add_all(&w->list, rules, &e) < 0)
		fail_msg("%s", e.text);
	w->watch = rule_watch_new(w->list.rules, w->list.count, on_firing, &w->fired);
	assert_non_null(w->watch);
	process = rule_watch_process(w->watch, 77, 4711);
	assert_true(process >= 0);
	assert_int_equal(rule_watch_process(w->watch, 77, 4711), process);
	w->process = (uint32_t)process;
}

static void end(struct watching *w)
{
	rule_watch_free(w->watch);
}

static void add(struct watching *w, enum fact_kind kind, uint64_t time_ns, uint64_t value)
{
	struct fact fact = {
		.kind = (uint8_t)kind, .time_ns = time_ns, .process = w->process, .value = value
	};

	rule_watch_add(w->watch, &fact);
}

static void work(struct watching *w, uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	struct fact fact = { .kind = FACT_WORK_BEGINS,
			     .time_ns = start_ns,
			     .other_ns = end_ns,
			     .process = w->process,
			     .value = correlation };

	rule_watch_add(w->watch, &fact);
	fact.kind = FACT_WORK_ENDS;
	fact.time_ns = end_ns;
	fact.other_ns = start_ns;
	rule_watch_add(w->watch, &fact);
}

static void counter(struct watching *w, uint64_t time_ns, double value, bool grows)
{
	struct fact fact = { .kind = FACT_COUNTER,
			     .time_ns = time_ns,
			     .process = w->process,
			     .rules = UINT32_MAX,
			     .grows = grows,
			     .real = value };

	rule_watch_add(w->watch, &fact);
}

static void step(struct watching *w, uint64_t start_ns, uint64_t duration_ns)
{
	struct fact fact = { .kind = FACT_OPENS,
			     .time_ns = start_ns,
			     .process = w->process,
			     .rules = UINT32_MAX,
			     .value = 99 };

	rule_watch_add(w->watch, &fact);
	fact.kind = FACT_CLOSES;
	fact.time_ns += duration_ns;
	rule_watch_add(w->watch, &fact);
}

static void fired_once(struct watching *w, uint64_t time_ns, const char *evidence)
{
	assert_int_equal(w->fired.count, 1);
	assert_int_equal(w->fired.items[0].time_ns, time_ns);
	if (!strstr(w->fired.items[0].evidence, evidence))
		fail_msg("%s", w->fired.items[0].evidence);
	w->fired.count = 0;
}

static void a_hang_is_work_without_an_end(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "hang > 10s");
	add(&w, FACT_LAUNCH, 1 * S, 1);
	work(&w, 2 * S, 3 * S, 1);
	rule_watch_advance(w.watch, 60 * S); /* nothing is outstanding */
	assert_int_equal(w.fired.count, 0);
	add(&w, FACT_LAUNCH, 61 * S, 2);
	add(&w, FACT_LAUNCH, 62 * S, 3);
	rule_watch_advance(w.watch, 71 * S);
	assert_int_equal(w.fired.count, 0);
	rule_watch_advance(w.watch, 72 * S);
	fired_once(&w, 71 * S, "no GPU work has ended for 10.0 s, and 2 launches are outstanding");
	rule_watch_advance(w.watch, 200 * S);
	assert_int_equal(w.fired.count, 0); /* once */
	work(&w, 61 * S, 201 * S, 2); /* it was long work, which is then usual */
	rule_watch_advance(w.watch, 220 * S);
	assert_int_equal(w.fired.count, 0);
	rule_watch_advance(w.watch, 482 * S);
	fired_once(&w, 481 * S, "1 launch is outstanding");
	end(&w);
}

/* Times that no process has: nothing overflows. */
static void work_of_all_times_is_no_hang(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "hang > 10s; launch-rate > 1000/s; gpu-idle > 8000h");
	add(&w, FACT_LAUNCH, 1 * S, 1);
	work(&w, 1, (UINT64_C(1) << 63) + 1, 1);
	w.fired.count = 0; /* it did hang */
	add(&w, FACT_LAUNCH, (UINT64_C(1) << 63) + 2 * S, 2);
	rule_watch_advance(w.watch, (UINT64_C(1) << 63) + 3 * S);
	rule_watch_advance(w.watch, UINT64_MAX - 1);
	assert_int_equal(w.fired.count, 0);
	work(&w, 1, UINT64_MAX - 1, 2);
	rule_watch_advance(w.watch, UINT64_MAX);
	assert_int_equal(w.fired.count, 0);
	end(&w);
}

/* Each clears what is outstanding at 2 s; then nothing fires. */
static const struct {
	enum fact_kind kind;
	uint64_t value;
} no_hangs[] = {
	{ FACT_WAITED, 0 },    { FACT_LOST, 0 },        { FACT_ENDS, 0 },
	{ FACT_WORK_ENDS, 2 }, { FACT_WINDOW_ENDS, 0 },
};

static void what_is_no_hang(void **state)
{
	struct watching w;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(no_hangs); i++) {
		begin(&w, "hang > 10s; gpu-idle > 1h");
		add(&w, FACT_RECORDS, 0, 0);
		add(&w, FACT_LAUNCH, 1 * S, 2);
		add(&w, no_hangs[i].kind, 2 * S, no_hangs[i].value);
		rule_watch_advance(w.watch, 100 * S);
		assert_int_equal(w.fired.count, 0);
		end(&w);
	}
	begin(&w, "hang > 10s"); /* no records are known to come */
	add(&w, FACT_LAUNCH, 1 * S, 2);
	rule_watch_advance(w.watch, 100 * S);
	assert_int_equal(w.fired.count, 0);
	add(&w, FACT_RECORDS, 101 * S, 0);
	add(&w, FACT_CAPTURE, 102 * S, 1); /* into a graph: nothing runs */
	add(&w, FACT_WAITED, 102 * S, 0);
	add(&w, FACT_LAUNCH, 103 * S, 3);
	add(&w, FACT_CAPTURE, 104 * S, 0);
	add(&w, FACT_CAPTURE, 104 * S, 0);
	rule_watch_advance(w.watch, 200 * S);
	assert_int_equal(w.fired.count, 0);
	add(&w, FACT_LAUNCH, 200 * S, 4);
	rule_watch_advance(w.watch, 205 * S);
	rule_watch_restart(w.watch, w.process, 205 * S); /* it was stopped */
	rule_watch_advance(w.watch, 214 * S);
	assert_int_equal(w.fired.count, 0);
	rule_watch_last_seen(w.watch, w.process, 214 * S);
	rule_watch_advance(w.watch, 300 * S);
	assert_int_equal(w.fired.count, 0);
	end(&w);
}

static void progress_elsewhere_is_no_hang(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "hang > 10s");
	add(&w, FACT_LAUNCH, 1 * S, 1);
	for (uint64_t i = 2; i < 20000; i++) {
		add(&w, FACT_LAUNCH, i * S, i);
		work(&w, i * S, i * S + 1, i);
	}
	assert_int_equal(w.fired.count, 0);
	end(&w);
}

static void an_idle_gpu_has_no_work_outstanding(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "gpu-idle > 500ms");
	rule_watch_advance(w.watch, 10 * S);
	work(&w, 10 * S, 11 * S, 1);
	work(&w, 11400 * MS, 12 * S, 2);
	assert_int_equal(w.fired.count, 0);
	add(&w, FACT_LAUNCH, 12100 * MS, 3);
	rule_watch_advance(w.watch, 13 * S);
	assert_int_equal(w.fired.count, 0); /* it may run */
	work(&w, 12600 * MS, 13 * S, 3);
	fired_once(&w, 12500 * MS, "GPU 0 has had no work for 500 ms");
	rule_watch_advance(w.watch, 14 * S);
	fired_once(&w, 13500 * MS, "GPU 0");
	rule_watch_advance(w.watch, 15 * S);
	add(&w, FACT_LAUNCH, 15 * S, 4);
	work(&w, 16 * S, 17 * S, 4);
	assert_int_equal(w.fired.count, 0);
	add(&w, FACT_ENDS, 17 * S, 0);
	rule_watch_advance(w.watch, 20 * S);
	assert_int_equal(w.fired.count, 0);
	end(&w);
}

static void steps_are_compared_with_those_before(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "step-time > 2x median");
	for (uint64_t i = 0; i < 20; i++)
		step(&w, i * S, i < 2 ? 900 * MS : 100 * MS); /* warm-up */
	assert_int_equal(w.fired.count, 0);
	step(&w, 20 * S, 199 * MS);
	assert_int_equal(w.fired.count, 0);
	step(&w, 21 * S, 201 * MS);
	fired_once(&w, 21 * S + 201 * MS, "it took 201 ms; the median of those before is 100 ms");
	end(&w);

	begin(&w, "step-time > 2x median"); /* of 1 ms: 10 ms more */
	for (uint64_t i = 0; i < 30; i++)
		step(&w, i * S, 1 * MS);
	step(&w, 31 * S, 11 * MS);
	assert_int_equal(w.fired.count, 0);
	step(&w, 32 * S, 12 * MS);
	assert_int_equal(w.fired.count, 1);
	end(&w);

	begin(&w, "step-time > 1x p99");
	for (uint64_t i = 0; i < 100; i++)
		step(&w, i * S, i * MS);
	w.fired.count = 0;
	step(&w, 101 * S, 105 * MS);
	assert_int_equal(w.fired.count, 0);
	step(&w, 102 * S, 116 * MS);
	fired_once(&w, 102 * S + 116 * MS, "99th percentile");
	end(&w);

	begin(&w, "range-time x > 1s");
	step(&w, 1 * S, 1 * S);
	assert_int_equal(w.fired.count, 0);
	step(&w, 3 * S, 1001 * MS);
	fired_once(&w, 4001 * MS, "it took 1.00 s");
	add(&w, FACT_CLOSES, 5 * S, 99); /* of none */
	add(&w, FACT_CLOSES, 5 * S, 98);
	end(&w);
}

/* A range that begins in place of another of its thread and depth, whose end was lost. */
static void a_range_that_is_lost_is_forgotten(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "range-time x > 1s");
	for (uint64_t i = 1; i < 50; i++) {
		struct fact opens = { .kind = FACT_OPENS,
				      .time_ns = i * 10 * S,
				      .process = w.process,
				      .rules = i & 1,
				      .value = 99 };

		rule_watch_add(w.watch, &opens);
	}
	add(&w, FACT_CLOSES, 495 * S, 99);
	fired_once(&w, 495 * S, "it took 5.00 s");
	end(&w);
}

static void launch_rates_are_of_whole_seconds(void **state)
{
	struct watching w;
	uint64_t launch = 0;

	(void)state;
	begin(&w, "launch-rate < 100/s for 2s");
	for (uint64_t second = 1; second < 20; second++)
		for (uint64_t i = 0; i < (second < 5 || second > 9 ? 150 : 50); i++)
			add(&w, FACT_LAUNCH, second * S + i, launch++);
	fired_once(&w, 8 * S, "50 launches in a second"); /* held from 6 to 8 s */
	rule_watch_advance(w.watch, 23 * S);
	fired_once(&w, 23 * S, "0 launches in a second");
	end(&w);

	begin(&w, "launch-rate < 100/s; launch-rate > 10/s"); /* it never launched more */
	for (uint64_t second = 1; second < 20; second++)
		for (uint64_t i = 0; i < 20; i++)
			add(&w, FACT_LAUNCH, second * S + i, launch++);
	assert_int_equal(w.fired.count, 1);
	assert_int_equal(w.fired.items[0].rule, 1);
	rule_watch_advance(w.watch, UINT64_MAX / 2); /* in reasonable time */
	end(&w);

	begin(&w, "launch-rate > 2/s"); /* a second ends by the clock, not when it is judged */
	add(&w, FACT_LAUNCH, 1 * S, launch++);
	add(&w, FACT_LAUNCH, 2 * S - 50 * NS_PER_MS, launch++);
	add(&w, FACT_LAUNCH, 2 * S + 10 * NS_PER_MS, launch++);
	rule_watch_advance(w.watch, 5 * S);
	assert_int_equal(w.fired.count, 0);
	end(&w);
}

static void counters_fire_when_they_reach_a_limit(void **state)
{
	struct watching w;

	(void)state;
	begin(&w, "counter x > 10 for 2s");
	counter(&w, 1 * S, 11, false);
	counter(&w, 2 * S, 12, false);
	counter(&w, 3 * S, 10, false); /* holds no more */
	counter(&w, 4 * S, 13, false);
	assert_int_equal(w.fired.count, 0);
	counter(&w, 6 * S, 14, false);
	fired_once(&w, 6 * S, "it is 14");
	counter(&w, 7 * S, 9.5, false); /* not away by a tenth */
	counter(&w, 8 * S, 15, false);
	counter(&w, 11 * S, 15, false);
	assert_int_equal(w.fired.count, 0);
	counter(&w, 12 * S, 8, false);
	counter(&w, 13 * S, 15, false);
	counter(&w, 15 * S, 15, false);
	fired_once(&w, 15 * S, "it is 15");
	end(&w);

	begin(&w, "counter x > 0; counter x < 1"); /* a tenth of 0 is nothing */
	for (uint64_t i = 1; i <= 6; i++)
		counter(&w, i * S, i % 2 ? 1.1 : 0, false);
	assert_int_equal(w.fired.count, 6);
	end(&w);

	begin(&w, "counter x > 10 for 2s");
	counter(&w, 5 * S, 11, false);
	counter(&w, 4 * S, 12, false); /* it comes late */
	assert_int_equal(w.fired.count, 0);
	counter(&w, 6 * S, 11, false);
	fired_once(&w, 6 * S, "it is 11");
	end(&w);

	begin(&w, "counter x == nan");
	counter(&w, 1 * S, 1, false);
	assert_int_equal(w.fired.count, 0);
	counter(&w, 2 * S, NAN, false);
	fired_once(&w, 2 * S, "it is NaN");
	end(&w);

	begin(&w, "counter x > 9"); /* per second */
	counter(&w, 1 * S, 1000, true);
	counter(&w, 3 * S, 1018, true);
	counter(&w, 4 * S, 0, true); /* restarted */
	assert_int_equal(w.fired.count, 0);
	counter(&w, 6 * S, 20, true);
	fired_once(&w, 6 * S, "it is 10/s");
	end(&w);

	begin(&w, "ecc");
	counter(&w, 1 * S, 3, true);
	counter(&w, 2 * S, 3, true);
	assert_int_equal(w.fired.count, 0);
	counter(&w, 3 * S, 4, true);
	counter(&w, 4 * S, 5, true);
	assert_int_equal(w.fired.count, 2);
	assert_false(w.fired.items[0].follows);
	assert_true(w.fired.items[1].follows);
	end(&w);
}

/* What fires for a call's error, a code of Xid and a process's status. */
static const struct {
	const char *rule;
	enum fact_kind kind;
	uint64_t value;
	const char *evidence; /* NULL: it does not fire */
} events[] = {
	{ "sticky-error", FACT_FAILURE, 700, "CUDA_ERROR_ILLEGAL_ADDRESS (700)" },
	{ "sticky-error", FACT_FAILURE, 2, NULL },
	{ "cuda-error", FACT_FAILURE, 2, "CUDA_ERROR_OUT_OF_MEMORY (2)" },
	{ "cuda-error == 2", FACT_FAILURE, 3, NULL },
	{ "cuda-error >= 700", FACT_FAILURE, 12345, "an error (12345)" },
	{ "exit-status != 0", FACT_EXIT, 3, "it ended with status 3" },
	{ "exit-status != 0", FACT_EXIT, 0, NULL },
	{ "fatal-signal", FACT_EXIT, 139, "it was killed by SIGSEGV" },
	{ "fatal-signal", FACT_EXIT, 137, "it was killed by SIGKILL" },
	{ "fatal-signal", FACT_EXIT, 143, NULL }, /* SIGTERM */
	{ "fatal-signal", FACT_EXIT, 11, NULL },
	{ "nvtx == x", FACT_MARK, 0, "the mark is set" },
	{ "nvtx == x", FACT_OPENS, 0, "the range begins" },
	{ "file /x touched", FACT_OUTSIDE, 0, "the file was touched" },
	{ "signal USR2", FACT_OUTSIDE, 0, "the signal was received" },
};

static void events_fire(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct watching w;
		struct fact fact = { .kind = (uint8_t)events[i].kind,
				     .time_ns = 5 * S,
				     .rules = 1,
				     .value = events[i].value };

		begin(&w, events[i].rule);
		fact.process = fact.kind == FACT_EXIT ? 4712 : w.process;
		if (fact.kind == FACT_EXIT) {
			rule_watch_add(w.watch, &fact); /* a process that has recorded nothing */
			fact.process = 4711;
		}
		rule_watch_add(w.watch, &fact);
		if (events[i].evidence)
			fired_once(&w, 5 * S, events[i].evidence);
		assert_int_equal(w.fired.count, 0);
		end(&w);
	}
}

/* One fault of a process, and what follows; another process has its own. */
static void faults_follow_from_the_first(void **state)
{
	struct watching w;
	struct fact xid = { .kind = FACT_COUNTER, .time_ns = 6 * S, .rules = 4, .real = 31 };
	struct fact dies = { .kind = FACT_EXIT, .time_ns = 900 * S, .process = 4711, .value = 134 };

	(void)state;
	begin(&w, "sticky-error; fatal-signal; xid; hang > 10s; cuda-error");
	add(&w, FACT_RECORDS, 0, 0);
	add(&w, FACT_LAUNCH, 4 * S, 1);
	rule_watch_advance(w.watch, 20 * S); /* hangs */
	add(&w, FACT_FAILURE, 21 * S, 719); /* sticky only if it is the first fault */
	xid.time_ns = 22 * S;
	rule_watch_add(w.watch, &xid);
	rule_watch_add(w.watch, &dies);
	assert_int_equal(w.fired.count, 4);
	assert_int_equal(w.fired.items[0].rule, 3);
	assert_false(w.fired.items[0].follows);
	assert_int_equal(w.fired.items[1].rule, 4); /* no fault: its own cause */
	assert_false(w.fired.items[1].follows);
	assert_int_equal(w.fired.items[2].rule, 2);
	assert_true(w.fired.items[2].follows);
	assert_int_equal(w.fired.items[3].rule, 1);
	assert_true(w.fired.items[3].follows);
	assert_int_equal(w.fired.items[3].pid, 4711);
	xid.process = (uint32_t)rule_watch_process(w.watch, 78, 4713);
	rule_watch_add(w.watch, &xid);
	assert_false(w.fired.items[4].follows);
	rule_watch_advance(w.watch, 5000 * S); /* the dead do not hang */
	assert_int_equal(w.fired.count, 5);
	end(&w);
}

/* In a pid namespace, the process has another id for us than for itself. */
static void ends_are_of_the_id_that_we_see(void **state)
{
	struct fact dies = { .kind = FACT_EXIT, .time_ns = 9 * S, .process = 1, .value = 139 };
	struct watching w;

	(void)state;
	begin(&w, "fatal-signal");
	rule_watch_writer(w.watch, (uint32_t)rule_watch_process(w.watch, 78, 1), 5000);
	rule_watch_add(w.watch, &dies); /* of another namespace */
	assert_int_equal(w.fired.count, 0);
	dies.process = 5000;
	rule_watch_add(w.watch, &dies);
	assert_int_equal(w.fired.count, 1);
	assert_int_equal(w.fired.items[0].pid, 1);
	end(&w);
}

/* --- dumps --- */

static const struct planned {
	uint64_t time_s;
	unsigned rule;
	bool follows;
	enum trigger_outcome outcome;
	uint32_t dump;
} planned[] = {
	{ 100, 0, false, trigger_outcome_dump, 1 },
	{ 102, 1, false, trigger_outcome_joined, 1 },
	{ 105, 2, true, trigger_outcome_joined, 1 },
	{ 106, 3, true, trigger_outcome_follows, 1 },
	{ 107, 0, false, trigger_outcome_cooldown, 1 },
	{ 164, 1, false, trigger_outcome_cooldown, 1 },
	{ 165, 0, false, trigger_outcome_dump, 2 },
	{ 171, 4, false, trigger_outcome_dump, 3 },
	{ 300, 0, false, trigger_outcome_dump, 4 },
	{ 400, 0, false, trigger_outcome_dump, 5 },
	{ 500, 0, false, trigger_outcome_dump, 6 },
	{ 600, 0, false, trigger_outcome_dump, 7 },
	{ 700, 0, false, trigger_outcome_dump, 8 },
	{ 800, 0, false, trigger_outcome_dump, 9 },
	{ 900, 0, false, trigger_outcome_dump, 10 },
	{ 1000, 0, false, trigger_outcome_limit, 10 },
	{ 3699, 5, false, trigger_outcome_limit, 10 },
	{ 3700, 6, false, trigger_outcome_dump, 11 },
	{ 3764, 0, false, trigger_outcome_limit, 11 },
	{ 3765, 0, false, trigger_outcome_dump, 12 },
};

static void one_cause_has_one_dump(void **state)
{
	struct rule_list list = { .count = RULES_MAX };
	struct rule_plan plan;

	(void)state;
	list.rules[1].has_after = list.rules[2].has_after = true; /* they make the dump no longer */
	rule_plan_init(&plan, &list, 30 * S, 5 * S);
	for (size_t i = 0; i < ARRAY_SIZE(planned); i++) {
		struct rule_firing firing = { .rule = planned[i].rule,
					      .time_ns = planned[i].time_s * S,
					      .follows = planned[i].follows };

		(void)rule_plan_is_due(&plan, firing.time_ns);
		assert_int_equal(rule_plan_add(&plan, &firing), planned[i].outcome);
		assert_int_equal(plan.dump, planned[i].dump);
	}
	assert_int_equal(plan.from_ns, (3765 - 30) * S);
	assert_false(rule_plan_is_due(&plan, 3770 * S));
	assert_true(rule_plan_is_due(&plan, 3770 * S + 1));
	assert_false(rule_plan_is_due(&plan, 3771 * S));
}

static void plan_at(struct rule_plan *plan, uint64_t time_s, unsigned rule, uint64_t from_s,
		    uint64_t due_s)
{
	const struct rule_firing firing = { .rule = rule, .time_ns = time_s * S };

	(void)rule_plan_add(plan, &firing);
	assert_int_equal(plan->from_ns, from_s * S);
	assert_int_equal(plan->due_ns, due_s * S);
}

/* The dump has the windows of all rules that fire before it is made, of each for its first time. */
static void windows_overlap(void **state)
{
	struct rule_list list = { .count = 0 };
	struct rule_plan plan;

	(void)state;
	assert_int_equal(rule_list_add_all(&list,
					   "xid;ecc: dump pre=2m post=20s;hang > 3s: dump post=0s",
					   NULL),
			 0);
	rule_plan_init(&plan, &list, 30 * S, 5 * S);
	plan_at(&plan, 200, 0, 170, 205);
	plan_at(&plan, 203, 0, 170, 205);
	plan_at(&plan, 204, 1, 84, 224);
	plan_at(&plan, 210, 1, 84, 224);
	plan_at(&plan, 220, 2, 84, 224);
	assert_false(rule_plan_is_due(&plan, 224 * S));
	assert_true(rule_plan_is_due(&plan, 224 * S + 1));
	assert_int_equal(plan.cooled_ns[0], (205 + 60) * S);
	assert_int_equal(plan.cooled_ns[1], (224 + 60) * S);
	plan_at(&plan, 400, 2, 370, 400);
	plan_at(&plan, 400, 0, 370, 405);
	assert_int_equal(plan.dump, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hang_is_work_without_an_end),
		cmocka_unit_test(work_of_all_times_is_no_hang),
		cmocka_unit_test(what_is_no_hang),
		cmocka_unit_test(progress_elsewhere_is_no_hang),
		cmocka_unit_test(an_idle_gpu_has_no_work_outstanding),
		cmocka_unit_test(steps_are_compared_with_those_before),
		cmocka_unit_test(a_range_that_is_lost_is_forgotten),
		cmocka_unit_test(launch_rates_are_of_whole_seconds),
		cmocka_unit_test(counters_fire_when_they_reach_a_limit),
		cmocka_unit_test(events_fire),
		cmocka_unit_test(faults_follow_from_the_first),
		cmocka_unit_test(ends_are_of_the_id_that_we_see),
		cmocka_unit_test(one_cause_has_one_dump),
		cmocka_unit_test(windows_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
