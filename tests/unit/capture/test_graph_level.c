/* --graphs auto: launches first, nodes where they are cheap, and no way back. */
#include "capture/cuda/graph_level.h"

#include "base/clock.h"
#include "unit/capture/captured_rows.h"

#define S NS_PER_S
#define NODES 10u /* of a graph */
#define EXPENSIVE 4000u /* launches a second */
#define CHEAP 2000u

struct program {
	struct graph_counts counts;
	uint64_t now, launches_per_second;
	unsigned switches;
};

static void run(struct captured *c, struct program *p, uint64_t ns)
{
	const uint64_t tick = 20 * NS_PER_MS;

	for (uint64_t end = p->now + ns; p->now < end; p->now += tick) {
		p->counts.calls += p->launches_per_second * tick / S;
		p->switches += graph_level_update(c->writer, &p->counts, p->now);
	}
}

/* Two graphs were instantiated, of NODES on average. */
static struct program begin(uint64_t launches_per_second)
{
	graph_level_begin(100 * S);
	return (struct program){ .now = 100 * S,
				 .counts = { .instantiations = 2, .nodes = 2 * NODES },
				 .launches_per_second = launches_per_second };
}

/* The reasons of the capability rows, one behind the other; the last one's state and method. */
static char *reasons(struct captured *c, const char **got)
{
	struct row_capability *rows;
	char *text = calloc(1, 1u << 16);
	size_t count;

	captured_close(c);
	rows = captured_rows(c, TABLE_capability, &count);
	*got = NULL;
	for (size_t i = 0; i < count; i++) {
		strcat(text, captured_text(c, rows[i].reason));
		strcat(text, "\n");
		*got = captured_text(c, rows[i].got);
		assert_int_equal(rows[i].state, capability_state_degraded);
	}
	free(rows);
	return text;
}

static int setup(void **state)
{
	*state = captured_begin();
	return 0;
}

static int teardown(void **state)
{
	captured_free(*state);
	return 0;
}

static void test_cheap_nodes_are_recorded_in_the_end(void **state)
{
	struct captured *c = *state;
	struct program p = begin(CHEAP);
	const char *got;
	char *text;

	run(c, &p, 4900 * NS_PER_MS);
	assert_true(graph_level_is_launch());
	run(c, &p, 200 * NS_PER_MS);
	assert_false(graph_level_is_launch());
	p.launches_per_second = EXPENSIVE; /* too late */
	run(c, &p, 60 * S);
	assert_false(graph_level_is_launch());
	assert_int_equal(p.switches, 1);
	graph_level_end(c->writer);
	text = reasons(c, &got);
	assert_string_equal(text,
			    "one record per launch until 5.000 s, then nodes, which cost less "
			    "than 10 % of the time\n");
	assert_string_equal(got, "node");
	free(text);
}

static void test_expensive_ones_are_not(void **state)
{
	struct captured *c = *state;
	struct program p = begin(EXPENSIVE);
	const char *got;
	char *text;

	run(c, &p, 120 * S);
	assert_true(graph_level_is_launch());
	assert_int_equal(p.switches, 0);
	graph_level_end(c->writer);
	text = reasons(c, &got);
	assert_string_equal(
		text,
		"one record per launch: node records would have cost up to 14 % of the time\n");
	assert_string_equal(got, "launch");
	free(text);
}

/* Five cheap seconds one after the other; those without a launch say nothing. */
static void test_seconds_in_turn(void **state)
{
	struct program p = begin(CHEAP);

	run(*state, &p, 4500 * NS_PER_MS);
	p.launches_per_second = EXPENSIVE;
	run(*state, &p, 2 * S);
	p.launches_per_second = 0;
	run(*state, &p, 60 * S);
	p.launches_per_second = CHEAP;
	run(*state, &p, 3 * S);
	assert_true(graph_level_is_launch());
	run(*state, &p, 3 * S);
	assert_false(graph_level_is_launch());
}

static void test_larger_graphs_cost_more(void **state)
{
	struct program p = begin(CHEAP);

	p.counts.nodes = 4 * NODES;
	run(*state, &p, 60 * S);
	assert_true(graph_level_is_launch());
}

/* In this process there is no other decision any more, in later sessions neither. */
static void test_refused(void **state)
{
	struct captured *c = *state;
	struct program p = begin(CHEAP);
	const char *got;
	char *text;

	graph_level_refused("too late");
	run(c, &p, 3 * S);
	assert_false(graph_level_is_launch());
	p = begin(CHEAP);
	run(c, &p, 3 * S);
	assert_false(graph_level_is_launch());
	assert_int_equal(p.switches, 0);
	text = reasons(c, &got);
	assert_string_equal(text, "too late\ntoo late\n");
	assert_string_equal(got, "node");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cheap_nodes_are_recorded_in_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_expensive_ones_are_not, setup, teardown),
		cmocka_unit_test_setup_teardown(test_seconds_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_larger_graphs_cost_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
