/* Which parts of a collective wait for which others, by function, root and times. */
#include "ranks/collective_wait.h"

#include "schema/schema.h"
#include "support/cmocka_tests.h"

#define PARTS 4

struct wait_test {
	struct collective_part parts[PARTS + 1]; /* behind one of another match */
	struct collective_match match;
	uint32_t needs[PARTS], last[PARTS];
};

/* Parts that begin at these times, and end at 1000. */
static void begin(struct wait_test *t, enum collective_function function, uint32_t count,
		  const uint64_t *starts)
{
	*t = (struct wait_test){ .match = { .first = 1, .parts = count } };
	t->parts[0] = (struct collective_part){ .start_ns = 900, .end_ns = 1000, .root = 0 };
	for (uint32_t i = 0; i < count; i++)
		t->parts[1 + i] = (struct collective_part){
			.start_ns = starts[i],
			.end_ns = 1000,
			.root = -1,
			.member = (int32_t)i,
			.function = (uint8_t)function,
			.mutual = function <= collective_function_reduce_scatter,
		};
}

static void set_root(struct wait_test *t, int32_t root)
{
	for (uint32_t i = 0; i < t->match.parts; i++)
		t->parts[1 + i].root = root;
}

static void check(struct wait_test *t, uint64_t uncertainty_ns, const uint32_t *expected)
{
	collective_find_needs(t->parts, &t->match, t->needs);
	collective_find_last(t->parts, &t->match, t->needs, uncertainty_ns, t->last);
	for (uint32_t i = 0; i < t->match.parts; i++)
		if (t->last[i] != expected[i])
			fail_msg("part %u waits for %u, not %u", i + 1, t->last[i], expected[i]);
}

#define STARTS(...)                                                                                \
	(const uint64_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define LAST(...)                                                                                  \
	(const uint32_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static void all_wait_for_the_last(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_all_reduce, 4, STARTS(100, 400, 300, 200));
	check(&t, 0, LAST(2, 2, 2, 2));
	assert_true(t.needs[0] == NEEDS_ALL && t.needs[1] == NEEDS_ALL);
	/* Of two that came together, the first. */
	begin(&t, collective_function_all_gather, 3, STARTS(100, 400, 400));
	check(&t, 0, LAST(2, 2, 3));
}

static void who_came_as_good_as_last_waits_for_none(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_all_reduce, 4, STARTS(100, 400, 395, 394));
	check(&t, 5, LAST(2, 2, 3, 2));
	check(&t, 300, LAST(1, 2, 3, 4));
	check(&t, 299, LAST(2, 2, 3, 4));
}

static void a_broadcast_waits_for_its_root(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_broadcast, 3, STARTS(300, 100, 500));
	set_root(&t, 0);
	check(&t, 0, LAST(1, 1, 3));
	set_root(&t, 2);
	check(&t, 0, LAST(3, 3, 3));
	set_root(&t, -1);
	check(&t, 0, LAST(1, 2, 3));
	begin(&t, collective_function_scatter, 2, STARTS(100, 300));
	set_root(&t, 1);
	check(&t, 0, LAST(2, 2));
	t.parts[2].member = -1; /* the root is unknown, but there is only one other part */
	check(&t, 0, LAST(2, 2));
	t.parts[1].end_ns = 299;
	check(&t, 0, LAST(1, 2));
}

static void only_the_root_of_a_reduce_waits(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_reduce, 3, STARTS(300, 100, 500));
	set_root(&t, 1);
	check(&t, 0, LAST(1, 3, 3));
	set_root(&t, 2);
	check(&t, 0, LAST(1, 2, 3));
	set_root(&t, -1);
	check(&t, 0, LAST(1, 2, 3));
	begin(&t, collective_function_gather, 2, STARTS(100, 300));
	set_root(&t, 0);
	check(&t, 0, LAST(2, 2));
	set_root(&t, 1);
	check(&t, 0, LAST(1, 2));
	set_root(&t, -1);
	check(&t, 0, LAST(2, 2));
}

static void a_send_that_was_buffered_did_not_wait(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_send, 2, STARTS(100, 300));
	check(&t, 0, LAST(2, 2));
	t.parts[1].end_ns = 300;
	check(&t, 0, LAST(2, 2));
	t.parts[1].end_ns = 299;
	check(&t, 0, LAST(1, 2));
	begin(&t, collective_function_recv, 2, STARTS(400, 300));
	check(&t, 0, LAST(1, 1));
	t.match.parts = 1; /* the other side was not recorded */
	check(&t, 0, LAST(1));
}

static void nothing_is_known_of_others(void **state)
{
	struct wait_test t;

	(void)state;
	begin(&t, collective_function_other, 2, STARTS(100, 300));
	set_root(&t, 1);
	check(&t, 0, LAST(2, 2));
	begin(&t, collective_function_other, 3, STARTS(100, 300, 500));
	check(&t, 0, LAST(1, 2, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_wait_for_the_last),
		cmocka_unit_test(who_came_as_good_as_last_waits_for_none),
		cmocka_unit_test(a_broadcast_waits_for_its_root),
		cmocka_unit_test(only_the_root_of_a_reduce_waits),
		cmocka_unit_test(a_send_that_was_buffered_did_not_wait),
		cmocka_unit_test(nothing_is_known_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
