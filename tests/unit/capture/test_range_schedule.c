/* test_range_schedule.c: which occurrence of which range is measured (range_schedule.h). */
#include "capture/engines/range_schedule.h"

#include "support/cmocka_tests.h"

#define SECOND NS_PER_S

enum { A = 1, B, C };

static uint64_t now;
static bool nests;

static void begin_with(uint64_t skip, uint64_t count)
{
	struct settings s = SETTINGS_INIT;

	s.kernel_skip = skip;
	s.kernel_count = count;
	range_schedule_set(&s);
	now = 100 * SECOND;
	nests = false;
}

/* An occurrence: '.' is not measured, 'p' is a pass of `passes`, 'x' the last one. */
static char one(uint64_t key, unsigned passes)
{
	static unsigned made;

	now += SECOND / 100;
	if (!range_schedule_begin(key, nests, now))
		return '.';
	if (++made < passes)
		return 'p';
	made = 0;
	range_schedule_end(true);
	return 'x';
}

static const char *several(const uint64_t *keys, size_t count, unsigned passes)
{
	static char text[64];

	for (size_t i = 0; i < count; i++)
		text[i] = one(keys[i], passes);
	text[count] = '\0';
	return text;
}

#define SEVERAL(passes, ...)                                                                       \
	several((const uint64_t[]){ __VA_ARGS__ },                                                 \
		sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), passes)

static void test_skip_and_count(void **state)
{
	(void)state;
	begin_with(2, 3);
	assert_string_equal(SEVERAL(1, A, A, A, A, B, A, A, B, B, B), "..xx.x..xx");
	begin_with(0, 0);
	assert_string_equal(SEVERAL(1, A, A, A, A), "xxxx");
}

/* One range until its passes are there, then the one that was measured least. */
static void test_passes(void **state)
{
	(void)state;
	begin_with(0, 0);
	assert_string_equal(SEVERAL(2, A, B, A, B, A, B, A, A), "p.xp.x"
								"px");
	begin_with(0, 1);
	assert_string_equal(SEVERAL(3, A, B, C, A, B, C, A, B, C, A, B, C, A, B, C),
			    "p..p..xp..p..x"
			    "p");
	assert_string_equal(SEVERAL(3, C, A, C), "p.x");
}

/* What does not come any more holds up nothing for longer than 5 s. */
static void test_absent(void **state)
{
	(void)state;
	begin_with(0, 0);
	assert_string_equal(SEVERAL(2, A, B), "p.");
	now += 6 * SECOND;
	assert_true(range_schedule_begin(B, false, now)); /* A is given up */
	range_schedule_end(true);
	assert_true(range_schedule_begin(B, false, now)); /* though A was never measured */
	range_schedule_end(false);
	assert_true(range_schedule_begin(A, false, now));
	range_schedule_end(true);
	assert_true(range_schedule_begin(A, false, now)); /* measured once, as B is */
	range_schedule_end(true);
	assert_false(range_schedule_begin(A, false, now));
}

/* An occurrence is left out after the 1st, 2nd, 4th and 8th measurement: those inside are seen. */
static void test_nested(void **state)
{
	(void)state;
	begin_with(0, 0);
	nests = true;
	assert_string_equal(SEVERAL(1, A, A, A, A, A, A, A, A, A, A, A, A, A), "x.x.xx.xxxx.x");
	begin_with(0, 0);
	nests = true;
	/* B is inside of A, where it is seen only while A is not measured. */
	assert_string_equal(SEVERAL(1, A, A, B, A, A, B, A, B, A), "x.xx...xx");
}

/* What was underway is forgotten with the ranges. */
static void test_set_again(void **state)
{
	(void)state;
	begin_with(0, 0);
	assert_string_equal(SEVERAL(1, A), "x");
	assert_string_equal(SEVERAL(2, B), "p");
	begin_with(0, 0);
	now += SECOND;
	assert_string_equal(SEVERAL(2, C), "x");
}

static void test_too_many(void **state)
{
	(void)state;
	begin_with(0, 1);
	for (uint64_t key = 1; key <= RANGE_SCHEDULE_MAX; key++)
		assert_int_equal(one(key, 1), 'x');
	assert_int_equal(range_schedule_refused(), 0);
	assert_int_equal(one(RANGE_SCHEDULE_MAX + 1, 1), '.');
	assert_int_equal(one(RANGE_SCHEDULE_MAX + 2, 1), '.');
	assert_int_equal(range_schedule_refused(), 2);
	assert_int_equal(range_schedule_refused(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_skip_and_count), cmocka_unit_test(test_passes),
		cmocka_unit_test(test_absent),         cmocka_unit_test(test_nested),
		cmocka_unit_test(test_too_many),       cmocka_unit_test(test_set_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
