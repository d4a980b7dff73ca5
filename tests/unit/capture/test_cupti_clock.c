/* Times of CUPTI's clock on CLOCK_MONOTONIC, also when somebody sets the clock. */
#include "capture/cuda/cupti_clock.h"

#include "base/clock.h"
#include "capture/cuda/clock_pairs.h"
#include "support/cmocka_tests.h"

#define S NS_PER_S
#define MS NS_PER_MS

/* A pair each 250 ms from a moment on; CUPTI's clock is so much ahead. */
static void add_pairs(uint64_t from_ns, uint64_t to_ns, uint64_t ahead_ns)
{
	for (uint64_t now = from_ns; now <= to_ns; now += 250 * MS)
		cupti_clock_add(now + ahead_ns, now);
}

static int reset(void **state)
{
	(void)state;
	cupti_clock_reset();
	return 0;
}

static void without_pairs_times_stay(void **state)
{
	(void)state;
	assert_int_equal(cupti_clock_convert(17), 17);
	add_pairs(S, S, 5 * S);
	assert_int_equal(cupti_clock_convert(0), 0);
	assert_int_equal(cupti_clock_convert(6 * S + 3), S + 3);
	assert_int_equal(cupti_clock_convert(5 * S + 3), 3);
}

static void drift_is_interpolated(void **state)
{
	(void)state;
	cupti_clock_add(100 * S, 10 * S);
	cupti_clock_add(101 * S, 11 * S + 1000);
	assert_int_equal(cupti_clock_convert(100 * S + S / 2), 10 * S + S / 2 + 500);
	assert_int_equal(cupti_clock_convert(102 * S), 12 * S + 1000);
	assert_int_equal(cupti_clock_steps(), 0);
}

static void clock_set_forward(void **state)
{
	(void)state;
	add_pairs(10 * S, 12 * S, 90 * S);
	add_pairs(12 * S + 250 * MS, 14 * S, 95 * S);
	assert_int_equal(cupti_clock_steps(), 1);
	assert_int_equal(cupti_clock_steps(), 0);
	assert_int_equal(cupti_clock_convert(11 * S + 90 * S), 11 * S);
	assert_int_equal(cupti_clock_convert(13 * S + 95 * S), 13 * S);
	/* between the runs: the nearer one's */
	assert_int_equal(cupti_clock_convert(12 * S + 10 * MS + 90 * S), 12 * S + 10 * MS);
	assert_int_equal(cupti_clock_convert(12 * S + 240 * MS + 95 * S), 12 * S + 240 * MS);
}

static void clock_set_back(void **state)
{
	(void)state;
	add_pairs(10 * S, 12 * S, 90 * S);
	add_pairs(12 * S + 250 * MS, 13 * S, 85 * S);
	assert_int_equal(cupti_clock_steps(), 1);
	/* later than the latest pair: that was before */
	assert_int_equal(cupti_clock_convert(11 * S + 90 * S), 11 * S);
	assert_int_equal(cupti_clock_convert(12 * S + 90 * S), 12 * S);
	assert_int_equal(cupti_clock_convert(12 * S + 500 * MS + 85 * S), 12 * S + 500 * MS);
	/* a little before the first pair after it */
	assert_int_equal(cupti_clock_convert(12 * S + 200 * MS + 85 * S), 12 * S + 200 * MS);
	/* in the time between the last pair before it and the setting */
	assert_int_equal(cupti_clock_convert(12 * S + 100 * MS + 90 * S), 12 * S + 100 * MS);
	/* a little after the latest */
	assert_int_equal(cupti_clock_convert(13 * S + MS / 2 + 85 * S), 13 * S + MS / 2);
}

static void clock_set_twice(void **state)
{
	(void)state;
	add_pairs(10 * S, 11 * S, 90 * S);
	add_pairs(12 * S, 13 * S, 190 * S);
	add_pairs(14 * S, 15 * S, 90 * S);
	assert_int_equal(cupti_clock_steps(), 2);
	assert_int_equal(cupti_clock_convert(10 * S + 500 * MS + 90 * S), 10 * S + 500 * MS);
	assert_int_equal(cupti_clock_convert(12 * S + 500 * MS + 190 * S), 12 * S + 500 * MS);
	assert_int_equal(cupti_clock_convert(14 * S + 500 * MS + 90 * S), 14 * S + 500 * MS);
	/* reached by no run */
	assert_int_equal(cupti_clock_convert(500 * S), 310 * S);
}

static void lengths_survive_a_clock_that_is_set(void **state)
{
	uint64_t start_ns, end_ns;

	(void)state;
	add_pairs(10 * S, 12 * S, 90 * S);
	add_pairs(12 * S + 250 * MS, 13 * S, 85 * S);
	for (uint64_t start = 96 * S; start < 103 * S; start += 7 * MS) {
		cupti_clock_convert_span(start, start + 40 * MS, &start_ns, &end_ns);
		assert_int_equal(end_ns - start_ns, 40 * MS);
	}
	cupti_clock_convert_span(0, 101 * S, &start_ns, &end_ns);
	assert_int_equal(start_ns, 0);
	assert_int_equal(end_ns, 11 * S);
}

/* The oldest pairs go; the latest run is still known. */
static void many_pairs(void **state)
{
	(void)state;
	add_pairs(10 * S, 12 * S, 90 * S);
	add_pairs(12 * S + 250 * MS, 100 * S, 85 * S);
	assert_int_equal(cupti_clock_convert(100 * S + 85 * S), 100 * S);
	assert_int_equal(cupti_clock_convert(50 * S + 85 * S), 50 * S);
	add_pairs(100 * S + 250 * MS, 101 * S, 80 * S);
	assert_int_equal(cupti_clock_convert(100 * S + 500 * MS + 80 * S), 100 * S + 500 * MS);
	assert_int_equal(cupti_clock_convert(99 * S + 85 * S), 99 * S);
}

/*
 * What one time is does not depend on which were asked for before: pairs that drift, a clock that
 * is set twice.
 */
static void in_any_order(void **state)
{
	enum { TIMES = 4000 };
	static uint64_t first[TIMES];
	uint64_t ahead = 90 * S;

	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		ahead += i == 20 ? 3 * S : i == 40 ? -2 * S : 700 * (i % 7);
		cupti_clock_add(10 * S + i * 20 * MS + ahead, 10 * S + i * 20 * MS);
	}
	for (uint64_t i = 0; i < TIMES; i++)
		first[i] = cupti_clock_convert(99 * S + i * 2 * MS);
	for (uint64_t i = 0, at = 0; i < TIMES; i++, at = (at + 1237) % TIMES)
		assert_int_equal(cupti_clock_convert(99 * S + at * 2 * MS), first[at]);
}

/* Of one run: beyond both of its ends, and in it, one after the other and back. */
static void beyond_the_only_run(void **state)
{
	const uint64_t times[] = { 1 * S, 5 * S,  10 * S + 500 * MS, 12 * S, 900 * S,
				   2 * S, 11 * S, 12 * S + 1 * MS,   9 * S,  12 * S + 2 * MS };

	(void)state;
	cupti_clock_add(110 * S, 10 * S);
	cupti_clock_add(112 * S + 2000, 12 * S);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint64_t ahead = times[i] < 10 * S   ? 0
				 : times[i] > 12 * S ? 2000
						     : (times[i] - 10 * S) / (1000 * 1000);

		assert_in_range(cupti_clock_convert(100 * S + times[i] + ahead), times[i] - 1,
				times[i] + 1);
	}
	cupti_clock_add(212 * S + 250 * MS,
			12 * S + 250 * MS); /* a step: those after it are others */
	assert_int_equal(cupti_clock_convert(300 * S), 100 * S);
	assert_int_equal(cupti_clock_convert(101 * S), 1 * S);
}

/* A clock that was set back by far: the later run is before the earlier one. */
static void before_the_earlier_run(void **state)
{
	(void)state;
	cupti_clock_add(110 * S, 10 * S);
	cupti_clock_add(112 * S, 12 * S);
	cupti_clock_add(62 * S, 13 * S);
	cupti_clock_add(64 * S, 15 * S);
	assert_int_equal(cupti_clock_convert(109 * S), 9 * S);
	assert_int_equal(cupti_clock_convert(63 * S), 14 * S);
	assert_int_equal(cupti_clock_convert(61 * S), 12 * S);
}

/* Clocks that move at each reading: as if the reader lost its processor then. */
static uint64_t now_ns, pause_ns;

static int fake_clock(clockid_t clock, struct timespec *t)
{
	(void)clock;
	now_ns += pause_ns;
	*t = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

static CUptiResult CUPTIAPI fake_timestamp(uint64_t *time)
{
	*time = now_ns + 5 * S;
	return CUPTI_SUCCESS;
}

static void read_pair(uint64_t at_ns, uint64_t pause, struct writer *w)
{
	const struct cupti cupti = { .GetTimestamp = fake_timestamp };
	int (*real)(clockid_t, struct timespec *) = clock_function;

	now_ns = at_ns;
	pause_ns = pause;
	clock_function = fake_clock;
	assert_true(clock_pairs_read(&cupti));
	clock_function = real;
	clock_pairs_drain(w);
}

/* A pair whose reading was interrupted is no step, and nothing is converted with it. */
static void interrupted_readings(void **state)
{
	const struct writer_options options = { .prefix = "x" };
	struct writer *w = writer_new(&options);

	(void)state;
	clock_pairs_reset();
	read_pair(10 * S, 40 * MS, w); /* the first is used for want of another */
	assert_int_equal(cupti_clock_convert(15 * S), 10 * S + 20 * MS);
	read_pair(11 * S, 0, w);
	read_pair(12 * S, 50 * MS, w);
	read_pair(13 * S, 0, w);
	assert_int_equal(cupti_clock_convert(15 * S), 10 * S);
	assert_int_equal(cupti_clock_convert(17 * S), 12 * S);
	assert_int_equal(cupti_clock_steps(), 0);
	clock_pairs_reset();
	assert_int_equal(writer_close(&w), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_pairs_times_stay, reset),
		cmocka_unit_test_setup(drift_is_interpolated, reset),
		cmocka_unit_test_setup(clock_set_forward, reset),
		cmocka_unit_test_setup(clock_set_back, reset),
		cmocka_unit_test_setup(clock_set_twice, reset),
		cmocka_unit_test_setup(lengths_survive_a_clock_that_is_set, reset),
		cmocka_unit_test_setup(many_pairs, reset),
		cmocka_unit_test_setup(in_any_order, reset),
		cmocka_unit_test_setup(beyond_the_only_run, reset),
		cmocka_unit_test_setup(before_the_earlier_run, reset),
		cmocka_unit_test(interrupted_readings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
