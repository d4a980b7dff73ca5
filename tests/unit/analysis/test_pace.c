#include "analysis/warmup.h"

#include <string.h>

#include "base/compiler.h"
#include "support/cmocka_tests.h"

#define MS UINT64_C(1000000)

struct pieces {
	struct pace pace;
	uint64_t now;
};

static void add(struct pieces *p, uint64_t count, uint64_t each_ns)
{
	while (count--) {
		pace_add(&p->pace, p->now);
		p->now += each_ns;
	}
}

static struct start_up find(const struct pieces *p)
{
	return pace_start_up(&p->pace, NULL, 0);
}

static void an_even_pace_has_no_start_up(void **state)
{
	struct pieces p = { .now = 5 };

	(void)state;
	assert_int_equal(find(&p).pieces, 0);
	add(&p, 1, MS);
	assert_int_equal(find(&p).pieces, 0);
	add(&p, 100000, MS);
	assert_int_equal(find(&p).pieces, 0);
	assert_int_equal(p.pace.pieces, 100001);
}

static void a_slow_end_is_no_start_up(void **state)
{
	struct pieces p = { 0 };

	(void)state;
	add(&p, 900, MS);
	add(&p, 100, 100 * MS);
	assert_int_equal(find(&p).pieces, 0);
}

static void a_few_slow_pieces_are_found(void **state)
{
	struct pieces p = { .now = 7 };
	struct start_up s;

	(void)state;
	add(&p, 100, 10 * MS);
	add(&p, 300, MS / 10);
	s = find(&p);
	assert_int_equal(s.pieces, 100);
	assert_int_equal(s.length_ns, 1000 * MS);
	assert_int_equal(s.end_ns, 7 + 1000 * MS);
}

/* With a stride the end is known to one stride. */
static void many_pieces(void **state)
{
	struct pieces p = { 0 };
	struct start_up s;

	(void)state;
	add(&p, 100000, MS);
	add(&p, 1900000, MS / 100);
	s = find(&p);
	assert_true(p.pace.count <= PACE_POINTS && p.pace.count >= PACE_POINTS / 2);
	assert_in_range(s.pieces, 100000 - p.pace.stride, 100000 + p.pace.stride);
}

static void a_short_start_is_not_worth_a_word(void **state)
{
	struct pieces p = { 0 };

	(void)state;
	add(&p, 10, MS / 2);
	add(&p, 90, MS / 1000);
	assert_int_equal(find(&p).pieces, 0);
}

static void few_pieces_tell_nothing(void **state)
{
	struct pieces p = { 0 };

	(void)state;
	add(&p, 5, 100 * MS);
	add(&p, 50, MS / 1000);
	assert_int_equal(find(&p).pieces, 0);
}

static void pauses_are_no_time(void **state)
{
	struct pieces p = { 0 };
	struct pace_pause pause = { .start_ns = 10 * MS, .length_ns = 10000 * MS };

	(void)state;
	add(&p, 11, MS);
	p.now += pause.length_ns;
	add(&p, 489, MS);
	assert_int_equal(find(&p).pieces, 11);
	assert_int_equal(pace_start_up(&p.pace, &pause, 1).pieces, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_even_pace_has_no_start_up),
		cmocka_unit_test(a_slow_end_is_no_start_up),
		cmocka_unit_test(a_few_slow_pieces_are_found),
		cmocka_unit_test(many_pieces),
		cmocka_unit_test(a_short_start_is_not_worth_a_word),
		cmocka_unit_test(few_pieces_tell_nothing),
		cmocka_unit_test(pauses_are_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
