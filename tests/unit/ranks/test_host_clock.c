#include "ranks/host_clock.h"

#include <math.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "support/cmocka_tests.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

#define EPOCH UINT64_C(123456789012345) /* a host that has run for 34 hours */

/* Two hosts, one of whose clocks is off. */
struct hosts {
	int64_t offset_ns; /* at EPOCH */
	double drift; /* ns per ns */
	int64_t step_ns; /* of the clock, forwards, after half of the time */
	int64_t jitter_ns; /* of the ends of kernels, to both sides */
	int64_t late_ns; /* the host's ends are systematically later */
	unsigned count, distance_ns; /* of collectives */
	unsigned lines; /* expected */
	int64_t error_ns; /* at most */
};

static uint64_t random_state;

/* Equally distributed within ± limit. */
static int64_t jitter(int64_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return limit ? (int64_t)(random_state >> 33) % (2 * limit + 1) - limit : 0;
}

static int64_t true_offset(const struct hosts *h, uint64_t reference_ns)
{
	uint64_t half = EPOCH + (uint64_t)h->count * h->distance_ns / 2;

	return h->offset_ns + (int64_t)(h->drift * (double)(reference_ns - EPOCH)) +
	       (reference_ns >= half ? h->step_ns : 0);
}

/* Either host may be late, by up to a millisecond; a collective takes 6 us and the jitter. */
static struct host_meeting meet(const struct hosts *h, uint64_t at)
{
	uint64_t start[2] = { at - (uint64_t)(MS + jitter(MS)) / 2,
			      at - (uint64_t)(MS + jitter(MS)) / 2 };
	uint64_t end[2];
	int64_t offset = true_offset(h, at);

	start[random_state >> 62 & 1] = at;
	for (int i = 0; i < 2; i++)
		end[i] = at + 6 * US + (uint64_t)(h->jitter_ns + jitter(h->jitter_ns));
	end[1] += (uint64_t)h->late_ns;
	return (struct host_meeting){
		.reference = { start[0], end[0], end[0] },
		.host = { start[1] + (uint64_t)offset, end[1] + (uint64_t)offset,
			  end[1] + (uint64_t)offset },
	};
}

static struct host_meeting *meetings_of(const struct hosts *h)
{
	struct host_meeting *m = calloc(h->count, sizeof(*m));

	random_state = 7;
	for (unsigned i = 0; i < h->count; i++)
		m[i] = meet(h, EPOCH + (uint64_t)i * h->distance_ns);
	return m;
}

/* The error of a host's time, and that the stated uncertainty covers it. */
static void check(const struct hosts *h, const struct host_clock *c)
{
	int64_t worst = 0;

	for (unsigned i = 0; i < h->count; i++) {
		uint64_t at = EPOCH + (uint64_t)i * h->distance_ns;
		int64_t error =
			(int64_t)(host_clock_convert(c, at + (uint64_t)true_offset(h, at)) - at);

		worst = MAX(worst, llabs(error));
	}
	if (worst > h->error_ns || worst > (int64_t)c->uncertainty_ns)
		fail_msg("offset %lld ns: error %lld ns, uncertainty %llu ns, limit %lld ns",
			 (long long)h->offset_ns, (long long)worst,
			 (unsigned long long)c->uncertainty_ns, (long long)h->error_ns);
}

static void offsets_drifts_and_steps_are_found(void **state)
{
	static const struct hosts all[] = {
		{ .count = 1000, .distance_ns = 10 * MS, .lines = 1, .error_ns = 1 * US },
		{ 3 * S, 0, 0, 10 * US, 0, 1000, 10 * MS, 1, 20 * US },
		{ -5 * S, 100e-6, 0, 10 * US, 0, 1000, 60 * MS, 1, 20 * US },
		{ 2 * MS, -100e-6, 0, 10 * US, 0, 200, 300 * MS, 1, 20 * US },
		{ 40 * US, 1e-6, 0, 10 * US, 3 * US, 10000, 6 * MS, 1, 20 * US },
		{ 5 * US, 0, 0, 1 * US, 0, 100, MS, 1, 5 * US },
		{ 1 * S, 10e-6, 2 * MS, 10 * US, 0, 1000, 60 * MS, 2, 20 * US },
		{ 0, 10e-6, 50 * MS, 10 * US, 0, 1000, 60 * MS, 2, 20 * US },
		{ 0, 0, 0, 10 * US, 0, HOST_CLOCK_MEETINGS_MIN, MS, 1, 26 * US },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct host_meeting *m = meetings_of(&all[i]);
		struct host_clock c;

		assert_int_equal(host_clock_fit(m, all[i].count, UINT64_MAX, &c), 1);
		assert_int_equal(c.count, all[i].lines);
		assert_int_equal(c.meetings, all[i].count);
		check(&all[i], &c);
		free(m);
	}
}

/*
 * Half of the collectives are rarer, so that the mean of their times is far from the middle: offset
 * and rate are those of the clock all the same.
 */
static void an_exact_clock_is_found_exactly(void **state)
{
	enum { BIN = 21, COUNT = 20 * BIN }; /* whose median is in the middle of each bin */
	static const double rates[] = { 0, 50e-6, -80e-6 };
	struct host_meeting m[COUNT];
	struct host_clock c;

	(void)state;
	for (size_t r = 0; r < ARRAY_SIZE(rates); r++) {
		for (size_t i = 0; i < COUNT; i++) {
			uint64_t since = (i < COUNT / 2 ? i : 20 * i - 19 * COUNT / 2) * MS;
			int64_t offset = 7 * MS + llround(rates[r] * (double)since);
			uint64_t at = EPOCH + since;
			struct host_times t = { at, at + 6 * US, at + 6 * US };

			m[i].reference = m[i].host = t;
			m[i].host.last_start_ns += (uint64_t)offset;
			m[i].host.first_end_ns += (uint64_t)offset;
			m[i].host.median_end_ns += (uint64_t)offset;
		}
		assert_int_equal(host_clock_fit(m, COUNT, UINT64_MAX, &c), 1);
		assert_int_equal(c.count, 1);
		assert_true(fabs(c.pieces[0].rate - rates[r]) < 1e-9);
		assert_in_range(c.uncertainty_ns, 6 * US, 6 * US + 10);
		for (size_t i = 0; i < COUNT; i++)
			assert_in_range(host_clock_convert(&c, m[i].host.median_end_ns) + 5 -
						m[i].reference.median_end_ns,
					0, 10);
	}
}

/* A collective that is matched with a later one contradicts all others. */
static void contradictions_are_no_clock(void **state)
{
	static const struct hosts h = { .count = 1000, .distance_ns = 10 * MS };
	struct host_meeting *m = meetings_of(&h);
	struct host_clock c;

	(void)state;
	assert_int_equal(host_clock_fit(m, HOST_CLOCK_MEETINGS_MIN - 1, UINT64_MAX, &c), 0);
	for (unsigned i = 0; i < h.count; i += 7) {
		m[i].host.last_start_ns += 100 * MS;
		m[i].host.first_end_ns += 100 * MS;
		m[i].host.median_end_ns += 100 * MS;
	}
	assert_int_equal(host_clock_fit(m, h.count, UINT64_MAX, &c), 0);
	assert_int_equal(c.count, 0);
	free(m);
}

/* Two hosts of which others say that their clocks differ by at most so much. */
static void a_limit_bounds_the_clock(void **state)
{
	static const struct hosts h = { .count = 100, .distance_ns = MS, .offset_ns = 50 * US };
	struct host_meeting *m = meetings_of(&h);
	struct host_clock c, alone;

	(void)state;
	assert_int_equal(host_clock_fit(m, 0, 70 * US, &c), 1);
	assert_true(c.by_limit && c.uncertainty_ns == 70 * US);
	assert_int_equal(host_clock_convert(&c, EPOCH), EPOCH);
	/* one meeting in which the host came 900 us later, and that ended 6 us after it came */
	m[0].reference = (struct host_times){ EPOCH - 900 * US, EPOCH + 6 * US, EPOCH + 6 * US };
	m[0].host = (struct host_times){ EPOCH + 50 * US, EPOCH + 56 * US, EPOCH + 56 * US };
	assert_int_equal(host_clock_fit(m, 1, 70 * US, &c), 1);
	assert_int_equal(EPOCH - host_clock_convert(&c, EPOCH), 44 * US);
	assert_int_equal(c.uncertainty_ns, 26 * US);
	assert_int_equal(host_clock_fit(m, 1, 40 * US, &c), 0); /* it disproves the limit */
	assert_false(c.by_limit || c.count);
	assert_int_equal(host_clock_fit(m, 1, UINT64_MAX, &c), 0);
	free(m);

	/* A line is better than the limit, unless the limit is narrow. */
	m = meetings_of(&h);
	for (unsigned i = 0; i < h.count; i++)
		m[i].host.first_end_ns += MS;
	assert_int_equal(host_clock_fit(m, h.count, UINT64_MAX, &alone), 1);
	assert_true(alone.uncertainty_ns > 500 * US);
	assert_int_equal(host_clock_fit(m, h.count, 60 * US, &c), 1);
	assert_false(c.by_limit);
	assert_in_range(c.uncertainty_ns, 100 * US, 120 * US);
	assert_int_equal(host_clock_fit(m, h.count, 10 * US, &c), 1); /* the line is beyond it */
	assert_int_equal(c.uncertainty_ns, alone.uncertainty_ns);
	free(m);
}

/* Times of a damaged recording: whatever comes out, nothing overflows. */
static void arbitrary_times_are_survived(void **state)
{
	struct host_meeting m[200];
	struct host_clock c;

	(void)state;
	random_state = 3;
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
			uint64_t *times = (uint64_t *)&m[i];

			for (size_t k = 0; k < sizeof(m[i]) / sizeof(*times); k++)
				times[k] = (uint64_t)jitter(INT32_MAX / 4) << (round % 40);
		}
		if (host_clock_fit(m, 3 + (size_t)round % 198, (uint64_t)jitter(INT32_MAX), &c) > 0)
			for (int shift = 0; shift < 64; shift++)
				(void)host_clock_convert(&c, UINT64_C(1) << shift);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exact_clock_is_found_exactly),
		cmocka_unit_test(offsets_drifts_and_steps_are_found),
		cmocka_unit_test(contradictions_are_no_clock),
		cmocka_unit_test(a_limit_bounds_the_clock),
		cmocka_unit_test(arbitrary_times_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
