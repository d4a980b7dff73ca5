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

/* A process that launches a graph of so many nodes again and again. */
static void replay(const char *folder, uint32_t pid, unsigned launches, unsigned nodes,
		   uint64_t every_ns)
{
	struct maker *m = begin(folder, pid);
	uint32_t k = maker_config(m, "k", 1, 32);

	for (unsigned i = 0; i < launches; i++)
		for (unsigned n = 0; n < nodes; n++) {
			uint64_t start_ns = 1000 + i * every_ns + n * 2000;

			maker_graph_kernel(m, k, 7, start_ns, start_ns + 1000, i + 1, 5, n);
		}
	maker_close(m, 1000 + launches * every_ns);
}

static bool is_expensive(const char *folder)
{
	struct analyzed a;
	bool expensive;

	analyze(&a, folder, EVERYTHING);
	expensive = graphs_nodes_are_expensive(a.report.graphs);
	analyzed_release(&a);
	return expensive;
}

/* Ten short kernels each 90 us, of which recording them takes 9.7. */
static void short_and_frequent(void **state)
{
	replay(*state, 100, 6000, 10, 90000);
	assert_true(is_expensive(*state));
}

static void short_and_rare(void **state)
{
	replay(*state, 100, 6000, 10, 2000000);
	assert_false(is_expensive(*state));
}

static void short_and_soon_over(void **state)
{
	replay(*state, 100, 5000, 10, 90000);
	assert_false(is_expensive(*state));
}

/* One process of several is enough, whichever is read first. */
static void of_the_process_that_has_most(void **state)
{
	replay(*state, 100, 2000, 1, 2000000);
	replay(*state, 101, 6000, 10, 90000);
	replay(*state, 102, 2000, 1, 2000000);
	assert_true(is_expensive(*state));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(replays_by_hand),
		folder_test(short_and_frequent),
		folder_test(short_and_rare),
		folder_test(short_and_soon_over),
		folder_test(of_the_process_that_has_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
