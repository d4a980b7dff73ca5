/* test_energy.c: energy is conserved, and steps have what was used in their time. */
#include "analysis/energy.h"

#include <math.h>

#include "analysis/steps.h"
#include "report_fixture.h"
#include "system/metrics.h"

#define S UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static void power_counter(struct maker *m)
{
	struct row_counter row = { .id = METRIC_gpu_power,
				   .name = maker_string(m, "gpu_power"),
				   .unit = maker_string(m, "W"),
				   .decimals = 3 };

	ROW_MISSING(&row, counter, reading);
	writer_append(m->writer, TABLE_counter, &row);
}

static void power(struct maker *m, uint64_t time_ns, int64_t watts)
{
	struct row_counter_sample row = { .time_ns = time_ns,
					  .counter = METRIC_gpu_power,
					  .value = watts * 1000 };

	writer_append(m->writer, TABLE_counter_sample, &row);
}

static void near(double value, double expected)
{
	if (fabs(value - expected) > 1e-6 * fmax(1, fabs(expected)))
		fail_msg("%f instead of %f", value, expected);
}

static void check_sums(const struct energy *e)
{
	double families = e->idle_joules, scopes = e->idle_joules;

	for (size_t i = 0; i < e->family_count; i++)
		families += e->families[i].joules;
	for (size_t i = 0; i < e->scope_count; i++)
		scopes += e->scopes[i].joules;
	near(families, e->joules);
	near(scopes, e->joules);
}

static void run_kernel(struct maker *m, uint32_t kernel, uint32_t stream, uint64_t start_ns,
		       uint64_t end_ns, uint64_t correlation)
{
	maker_call(m, MAKER_LAUNCH, 1, start_ns - 10000, start_ns - 5000, correlation);
	maker_kernel(m, kernel, stream, start_ns, end_ns, correlation);
}

/*
 * 100 W, 300 W and 200 W for a second each. Kernel a for half of the first second and, beside b,
 * for half of the second one; b until the end of the third. What ends later has no known power.
 */
static void energy_is_divided_by_time(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };
	struct maker *m = begin(*state, 100);
	uint32_t a = maker_config(m, "a", 1, 32), b = maker_config(m, "b", 1, 32);
	const struct energy *e;
	struct analyzed analyzed;

	power_counter(m);
	for (int64_t i = 0; i < 4; i++)
		power(m, (uint64_t)(1 + i) * S, (const int64_t[]){ 100, 300, 200, 999 }[i]);
	maker_scope(m, nvtx_kind_push, 1, "first", 0, S);
	run_kernel(m, a, 7, 1500 * MS, 2000 * MS, 1);
	maker_scope(m, nvtx_kind_pop, 1, NULL, 0, 1600 * MS);
	run_kernel(m, a, 7, 2100 * MS, 2600 * MS, 2);
	run_kernel(m, b, 8, 2100 * MS, 4200 * MS, 3);
	maker_close(m, 5 * S);
	analyze(&analyzed, *state, options);
	e = analyzed.report.energy;
	assert_int_equal(e->readings, 4);
	/* Before the first and after the last reading nothing is known. */
	near(e->joules, 600);
	near(e->idle_joules, 100 * 0.5 + 300 * 0.1);
	check_sums(e);
	assert_int_equal(e->family_count, 2);
	assert_int_equal(e->families[0].count, 1); /* b */
	/* In the second second a ran for 500 ms and b for 900 ms, of which 900 ms were busy. */
	near(e->families[0].joules, 300 * 0.9 * 900 / 1400 + 200);
	near(e->families[1].joules, 100 * 0.5 + 300 * 0.9 * 500 / 1400);
	near(e->all_ns, 0.5e9 + 0.9e9 + 1.2e9);
	near(e->known_ns, 0.5e9 + 0.9e9 + 1e9);
	assert_int_equal(e->scope_count, 2);
	assert_int_equal(e->scopes[0].path, SCOPE_NONE);
	near(e->scopes[1].joules, 50);
	/* 100, 300, 200: a mean of 200, a standard deviation of 81.65. */
	near(e->part_uncertainty, hypot(0.05, sqrt(20000.0 / 3) / 200));
	near(e->uncertainty, hypot(0.05, sqrt(20000.0 / 3) / 200 / sqrt(3)));
	analyzed_release(&analyzed);
}

/* Ten steps of 100 ms, at 100 W in the first four and 300 W in the others. */
static void steps_have_the_energy_of_their_time(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "a", 1, 32);
	const struct energy *e;
	struct analyzed a;

	power_counter(m);
	power(m, 0, 100);
	power(m, 1500 * MS, 300);
	power(m, 9 * S, 300);
	for (uint64_t i = 1; i <= 10; i++) {
		uint64_t at = S + i * 100 * MS;

		maker_scope(m, nvtx_kind_push, 1, "step", 0, at);
		run_kernel(m, kernel, 7, at + MS, at + 90 * MS, i);
		maker_scope(m, nvtx_kind_pop, 1, NULL, 0, at + 95 * MS);
	}
	maker_close(m, 3 * S);
	analyze(&a, *state, options);
	e = a.report.energy;
	assert_int_equal(a.report.steps->count, 10);
	assert_int_equal(e->loop_count, 1);
	assert_int_equal(e->loops[0].steps, 10);
	assert_int_equal(e->loops[0].gpus, 1);
	near(e->loops[0].joules, 300 * e->loops[0].ns / 1e9); /* six of the ten */
	check_sums(e);
	analyzed_release(&a);
}

/* Without readings there is no energy; a reading holds for a minute at most. */
static void unknown_power(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };

	for (unsigned with = 0; with < 2; with++) {
		struct maker *m = begin(*state, 100 + with);
		struct analyzed a;

		if (with) {
			power_counter(m);
			power(m, S, 100);
			power(m, 70 * S, 100);
		}
		run_kernel(m, maker_config(m, "a", 1, 32), 7, 2 * S, 3 * S, 1);
		maker_close(m, 80 * S);
		options.filter.pid = 100 + with;
		analyze(&a, *state, options);
		near(a.report.energy->joules, 0);
		near(a.report.energy->known_ns, 0);
		assert_int_equal(a.report.energy->readings, 2 * with);
		analyzed_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(energy_is_divided_by_time),
		folder_test(steps_have_the_energy_of_their_time),
		folder_test(unknown_power),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
