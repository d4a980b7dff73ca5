#include "analysis/graphs.h"

#include "report_fixture.h"

static void replays_by_hand(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	const struct graphs *g;

	/*
	 * Graph 5 three times with two nodes, the second replay overlapping the third; graph 6
	 * once.
	 */
	maker_graph_kernel(m, k, 7, 1000, 1100, 1, 5, 1);
	maker_graph_kernel(m, k, 7, 1200, 1300, 1, 5, 2);
	maker_graph_kernel(m, k, 7, 2000, 2100, 2, 5, 1);
	maker_graph_kernel(m, k, 8, 2050, 2150, 3, 5, 1);
	maker_graph_kernel(m, k, 7, 2200, 2500, 2, 5, 2);
	maker_graph_kernel(m, k, 8, 2300, 2400, 3, 5, 2);
	maker_graph_kernel(m, k, 7, 3000, 3050, 4, 6, 1);
	maker_kernel(m, k, 7, 4000, 4100, 9);
	maker_close(m, 9000);
	/* The same ids in another process are another graph. */
	m = begin(*state, 101);
	maker_graph_kernel(m, maker_config(m, "k", 1, 32), 7, 1000, 1010, 1, 5, 1);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	g = a.report.graphs;
	assert_int_equal(g->count, 3);
	assert_int_equal(g->launches, 5);
	assert_int_equal(g->nodes, 8);
	assert_int_equal(g->items[0].graph, 5);
	assert_int_equal(g->items[0].launches, 3);
	assert_int_equal(g->items[0].nodes, 6);
	assert_int_equal(g->items[0].node_ns, 100 + 100 + 100 + 100 + 300 + 100);
	assert_int_equal(g->items[0].replay.min_ns, 300);
	assert_int_equal(g->items[0].replay.median_ns, 350);
	assert_int_equal(g->items[0].replay.max_ns, 500);
	assert_int_equal(g->items[1].graph, 6);
	assert_int_equal(g->items[2].replay.total_ns, 10);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { folder_test(replays_by_hand) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
