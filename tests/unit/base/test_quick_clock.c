/* link: -Wl,--wrap=clock_gettime */
/* Where the machine's clock is not the processor's counter there is nothing to test but that. */
#include "base/quick_clock.h"

#include "support/cmocka_tests.h"

#define READINGS 200000
#define BEHIND_NS 2000 /* far more than it ever is, far less than what is wrong here */

static double slew; /* of the clock from then on */
static uint64_t slewed_from_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int result = __real_clock_gettime(clock, t);
	uint64_t ns = (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;

	ns += (uint64_t)((double)(ns - slewed_from_ns) * slew);
	*t = (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				.tv_nsec = (long)(ns % NS_PER_S) };
	return result;
}

static void wait_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * (long)NS_PER_MS }, NULL);
}

/* false: this machine's clock is made of something else. */
static bool calibrate(void)
{
	for (int i = 0; i < 100 && !atomic_load(&quick_clock_rate); i++) {
		quick_clock_calibrate();
		wait_ms(25);
	}
	return atomic_load(&quick_clock_rate) != 0;
}

/* How many readings were quick, and how often one was after the clock or far before it. */
static unsigned read_often(struct quick_clock *c, unsigned *wrong)
{
	uint64_t last = 0;
	unsigned quick = 0;

	*wrong = 0;
	for (unsigned i = 0; i < READINGS; i++) {
		uint64_t before = clock_monotonic_ns(), now = quick_clock_ns(c);

		quick += c->ns < before;
		*wrong += now > clock_monotonic_ns() || now + BEHIND_NS < before || now < last;
		last = now;
	}
	return quick;
}

static void it_is_the_clock(void **state)
{
	struct quick_clock c = { 0 };
	unsigned quick = 0, wrong;

	(void)state;
	assert_int_equal(read_often(&c, &wrong), 0);
	assert_int_equal(wrong, 0);
	if (!calibrate())
		skip();
	for (int i = 0; i < 100 && !quick; i++) {
		quick = read_often(&c, &wrong);
		assert_int_equal(wrong, 0);
	}
	assert_true(quick > 0);
}

static void who_asks_seldom_reads_the_clock(void **state)
{
	struct quick_clock c = { 0 };

	(void)state;
	if (!calibrate())
		skip();
	for (int i = 0; i < 20; i++) {
		uint64_t now;

		wait_ms(1);
		now = quick_clock_ns(&c);
		assert_int_equal(now, c.ns);
		assert_int_equal(c.ticks, 0);
	}
}

static void a_clock_that_runs_differently_is_found(void **state)
{
	static const double slews[] = { 0.08, -0.08 };
	struct quick_clock c = { 0 };
	unsigned wrong;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(slews); i++) {
		if (!calibrate())
			skip();
		slewed_from_ns = clock_monotonic_ns();
		slew = slews[i];
		for (int n = 0; n < 100 && atomic_load(&quick_clock_rate); n++)
			read_often(&c, &wrong);
		assert_int_equal(atomic_load(&quick_clock_rate), 0);
		quick_clock_calibrate();
		wait_ms(25);
		quick_clock_calibrate();
		assert_int_equal(atomic_load(&quick_clock_rate), 0); /* it is not the machine's */
		assert_int_equal(read_often(&c, &wrong), 0);
		assert_int_equal(wrong, 0);
		slew = 0;
		c = (struct quick_clock){ 0 };
	}
	assert_true(calibrate());
	read_often(&c, &wrong);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_clock),
		cmocka_unit_test(who_asks_seldom_reads_the_clock),
		cmocka_unit_test(a_clock_that_runs_differently_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
