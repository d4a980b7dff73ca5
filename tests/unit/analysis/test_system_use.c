#include "analysis/system_use.h"

#include "base/clock.h"
#include "report_fixture.h"
#include "system/metrics.h"

#define HOST UINT32_MAX

static void counter(struct maker *m, uint32_t id, const char *name, uint32_t decimals,
		    enum counter_kind kind)
{
	struct row_counter row = { .id = id,
				   .name = maker_string(m, name),
				   .unit = maker_string(m, "W"),
				   .decimals = decimals,
				   .kind = (uint8_t)kind };

	ROW_MISSING(&row, counter, reading);
	writer_append(m->writer, TABLE_counter, &row);
}

static void sample(struct maker *m, uint32_t id, uint32_t device, uint64_t time_ns, int64_t value)
{
	struct row_counter_sample row = {
		.time_ns = time_ns, .counter = id, .device = device, .value = value
	};

	ROW_MISSING_IF(&row, counter_sample, device, device == HOST);
	writer_append(m->writer, TABLE_counter_sample, &row);
}

static const struct system_counter *find(const struct analyzed *a, uint32_t id, uint32_t gpu)
{
	const struct system_use *s = a->report.system_use;

	for (size_t i = 0; i < s->counter_count; i++)
		if (s->counters[i].id == id && s->counters[i].gpu == gpu)
			return &s->counters[i];
	return NULL;
}

/* Kernels from 1500 to 2500 and, on two streams, from 3000 to 3600. */
static void add_kernels(struct maker *m)
{
	uint32_t add = maker_config(m, "add", 4, 128);

	maker_kernel(m, add, 7, 1500, 2500, 1);
	maker_kernel(m, add, 7, 3000, 3500, 2);
	maker_kernel(m, add, 8, 3100, 3600, 3);
	maker_kernel(m, add, 8, 3200, 3300, 4);
}

static void levels_against_work(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct system_counter *c;
	struct analyzed a;

	add_kernels(m);
	counter(m, 5, "gpu_power", 3, counter_kind_level);
	sample(m, 5, 0, 1000, 100000);
	sample(m, 5, 0, 2000, 700000);
	sample(m, 5, 0, 3000, 400000);
	sample(m, 5, 0, 4000, 999000); /* stands for no time */
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.system_use->counter_count, 1);
	c = find(&a, 5, 0);
	assert_non_null(c);
	assert_int_equal(c->readings, 4);
	assert_int_equal(c->known_ns, 3000);
	assert_int_equal(c->busy_ns, 1600);
	assert_int_equal(c->mean, 400000);
	/* 500 ns at 100 W, 500 at 700 W, 600 at 400 W; the rest 500, 500 and 400 */
	assert_int_equal(c->busy_mean, 400000);
	assert_int_equal(c->idle_mean, 400000);
	assert_int_equal(c->min, 100000);
	assert_int_equal(c->max, 999000);
	analyzed_release(&a);
}

static void clocks_are_lower_while_it_works(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct system_counter *c;
	struct analyzed a;

	add_kernels(m);
	counter(m, 3, "gpu_sm_clock", 0, counter_kind_level);
	sample(m, 3, 0, 1500, 1000);
	sample(m, 3, 0, 2500, 2000);
	sample(m, 3, 0, 3000, 1001);
	sample(m, 3, 0, 3600, 2000);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = find(&a, 3, 0);
	assert_int_equal(c->busy_ns, 1600);
	assert_int_equal(c->busy_mean, 1000375);
	assert_int_equal(c->idle_mean, 2000000);
	analyzed_release(&a);
}

static void throttling_by_reason(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct system_throttling *t;
	struct analyzed a;

	add_kernels(m);
	counter(m, 9, "gpu_throttle_reasons", 0, counter_kind_bits);
	sample(m, 9, 0, 1000, 1); /* idle */
	sample(m, 9, 0, 1500, 4);
	sample(m, 9, 0, 2000, 4 | 32);
	sample(m, 9, 0, 2600, 0);
	sample(m, 9, 0, 3000, 4);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.system_use->counter_count, 0);
	assert_int_equal(a.report.system_use->throttled_count, 2);
	t = a.report.system_use->throttled;
	assert_int_equal(t[0].reason, 2);
	assert_int_equal(t[0].total_ns, 1100);
	assert_int_equal(t[0].busy_ns, 1000);
	assert_int_equal(t[1].reason, 5);
	assert_int_equal(t[1].total_ns, 600);
	assert_int_equal(t[1].busy_ns, 500);
	analyzed_release(&a);
}

/* A processor was busy for 0.01 s in 2 s: minimum and maximum are not rounded down to 0. */
static void sums_that_grow_slowly(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct system_counter *c;
	struct analyzed a;

	counter(m, 256, "host_cpu_busy", 2, counter_kind_sum);
	sample(m, 256, HOST, 0, 700);
	sample(m, 256, HOST, 2 * NS_PER_S, 701);
	maker_close(m, 3 * NS_PER_S);
	analyze(&a, *state, EVERYTHING);
	c = find(&a, 256, HOST);
	assert_int_equal(c->mean, 5);
	assert_int_equal(c->min, 5);
	assert_int_equal(c->max, 5);
	analyzed_release(&a);
}

static void sums_that_begin_again(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct system_counter *c;
	struct analyzed a;

	counter(m, 256, "host_disk_read", 0, counter_kind_sum);
	sample(m, 256, HOST, 1000, 500);
	sample(m, 256, HOST, 2000, 600);
	sample(m, 256, HOST, 3000, 10);
	sample(m, 256, HOST, 5000, 410);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = find(&a, 256, HOST);
	assert_int_equal(c->total, 500);
	assert_int_equal(c->known_ns, 3000);
	assert_int_equal(c->min, INT64_C(100000000000));
	assert_int_equal(c->max, INT64_C(200000000000));
	assert_int_equal(c->mean, INT64_C(166666666667));
	analyzed_release(&a);
}

/* The program's own counters are none of the machine's; the errors are in order. */
static void other_counters_and_errors(void **state)
{
	struct maker *m = begin(*state, 100);
	struct analyzed a;

	counter(m, 1024, "loss", 0, counter_kind_level);
	counter(m, 36, "gpu_xid", 0, counter_kind_event);
	sample(m, 1024, HOST, 1000, 5);
	sample(m, 1024, HOST, 2000, 5);
	sample(m, 36, 0, 3000, 79);
	sample(m, 36, 0, 2000, 48);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.system_use->counter_count, 0);
	assert_int_equal(a.report.system_use->error_count, 2);
	assert_int_equal(a.report.system_use->errors[0].code, 48);
	assert_int_equal(a.report.system_use->errors[1].time_ns, 3000);
	analyzed_release(&a);
}

/*
 * Ticks of 10 ms: in 50 ms a processor seems to have worked for 60, and two of them for 110. No
 * share exceeds 100 %.
 */
static void ticks_are_no_time_beyond_the_clock(void **state)
{
	const uint32_t busy = METRIC_host_cpu_busy, core = METRIC_CORE_FIRST;
	struct maker *m = begin(*state, 100);
	struct analyzed a;

	counter(m, busy, "host_cpu_busy", 2, counter_kind_sum);
	counter(m, core, "host_core_0_busy", 2, counter_kind_sum);
	counter(m, core + 1, "host_core_1_busy", 2, counter_kind_sum);
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t at = i * 50 * NS_PER_MS + 1;

		sample(m, busy, HOST, at, (int64_t)(i == 2 ? 16 : 5 * i));
		sample(m, core, HOST, at, (int64_t)(6 * i));
		sample(m, core + 1, HOST, at, (int64_t)i);
	}
	maker_close(m, NS_PER_S);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(find(&a, core, HOST)->max, 1000);
	assert_int_equal(find(&a, core + 1, HOST)->max, 200);
	assert_int_equal(find(&a, busy, HOST)->min, 1000);
	assert_int_equal(find(&a, busy, HOST)->max, 2000);
	analyzed_release(&a);
}

/* One process after the other reads the same GPU; the time between them is nobody's. */
static void two_processes(void **state)
{
	const struct system_counter *c;
	struct analyzed a;

	for (uint32_t pid = 100; pid <= 101; pid++) {
		struct maker *m = begin(*state, pid);
		uint64_t start = (pid - 100) * 10000;

		counter(m, 5, "gpu_power", 3, counter_kind_level);
		counter(m, 300, "process_memory", 0, counter_kind_level);
		for (uint64_t i = 0; i < 3; i++) {
			sample(m, 5, 0, 1000 + start + i * 1000, (int64_t)pid * 1000);
			sample(m, 300, HOST, 1000 + start + i * 1000, 7);
		}
		maker_close(m, start + 9000);
	}
	analyze(&a, *state, EVERYTHING);
	c = find(&a, 5, 0);
	assert_int_equal(c->readings, 6);
	assert_int_equal(c->known_ns, 4000);
	assert_int_equal(c->mean, 100500);
	assert_int_equal(a.report.system_use->counter_count, 3); /* processes each have their own */
	analyzed_release(&a);
}

static void a_window(void **state)
{
	struct maker *m = begin(*state, 100);
	struct report_options options = EVERYTHING;
	struct analyzed a;

	counter(m, 5, "gpu_power", 3, counter_kind_level);
	for (uint64_t i = 1; i < 8; i++)
		sample(m, 5, 0, 1000 * i, (int64_t)i);
	maker_close(m, 9000);
	options.filter.since_ns = 2000;
	options.filter.until_ns = 5000;
	analyze(&a, *state, options);
	assert_int_equal(find(&a, 5, 0)->readings, 3);
	assert_int_equal(find(&a, 5, 0)->max, 4);
	analyzed_release(&a);
	options.filter.device = 1;
	analyze(&a, *state, options);
	assert_int_equal(a.report.system_use->counter_count, 0);
	analyzed_release(&a);
}

/* Numbers that no machine says. */
static void extremes(void **state)
{
	struct maker *m = begin(*state, 100);
	struct analyzed a;

	counter(m, 5, "level", 40, counter_kind_level);
	counter(m, 6, "sum", 0, counter_kind_sum);
	sample(m, 5, 0, 0, INT64_MIN);
	sample(m, 5, 0, UINT64_MAX, INT64_MAX);
	sample(m, 6, 0, 1, INT64_MIN);
	sample(m, 6, 0, 2, INT64_MAX);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(find(&a, 6, 0)->max, INT64_MAX);
	assert_int_equal(find(&a, 5, 0)->min, INT64_MIN);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(levels_against_work),
		folder_test(ticks_are_no_time_beyond_the_clock),
		folder_test(clocks_are_lower_while_it_works),
		folder_test(throttling_by_reason),
		folder_test(sums_that_begin_again),
		folder_test(sums_that_grow_slowly),
		folder_test(other_counters_and_errors),
		folder_test(two_processes),
		folder_test(a_window),
		folder_test(extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
