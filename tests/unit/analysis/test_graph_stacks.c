#include "analysis/graph_stacks.h"

#include "report_fixture.h"

#define NO_NODE 0

/* original 0: it was not cloned; stack 0: there is none. */
static void node(struct maker *m, uint64_t time_ns, uint64_t id, uint64_t original, uint32_t stack)
{
	struct row_graph_node row = {
		.time_ns = time_ns, .node = id, .graph = 1, .original = original, .stack = stack
	};

	if (!original)
		ROW_MISSING(&row, graph_node, original);
	if (!stack)
		ROW_MISSING(&row, graph_node, stack);
	ROW_MISSING(&row, graph_node, correlation);
	writer_append(m->writer, TABLE_graph_node, &row);
}

static void clones_lead_to_their_originals(void **state)
{
	struct maker *m = begin(*state, 100), *other = begin(*state, 101);
	struct graph_stacks n;
	struct trace *t;

	node(m, 2000, 50, NO_NODE, 7);
	node(m, 2001, 51, NO_NODE, 8);
	node(m, 3000, 60, 50, 0);
	node(m, 3001, 61, 51, 0);
	node(m, 3500, 70, NO_NODE, 0); /* as it is instantiated … */
	node(m, 3501, 70, 60, 0); /* … a clone of a clone */
	node(m, 4000, 80, 999, 0); /* made before recording began */
	maker_close(m, 9000);
	node(other, 2000, 50, NO_NODE, 3);
	maker_close(other, 9000);
	assert_int_equal(trace_open(*state, NULL, &t, NULL), 0);
	assert_int_equal(graph_stacks_init(&n, t, NULL), 0);
	for (size_t p = 0; p < 2; p++) {
		bool first = trace_process(t, p)->pid == 100;

		assert_int_equal(graph_stacks_find(&n, p, 50), first ? 7 : 3);
		assert_int_equal(graph_stacks_find(&n, p, 60), first ? 7 : 0);
		assert_int_equal(graph_stacks_find(&n, p, 61), first ? 8 : 0);
		assert_int_equal(graph_stacks_find(&n, p, 70), first ? 7 : 0);
		assert_int_equal(graph_stacks_find(&n, p, 80), 0);
		assert_int_equal(graph_stacks_find(&n, p, 1), 0);
	}
	graph_stacks_release(&n);
	trace_free(t);
}

static void a_recording_without_nodes(void **state)
{
	struct maker *m = begin(*state, 100);
	struct graph_stacks n;
	struct trace *t;

	maker_close(m, 9000);
	assert_int_equal(trace_open(*state, NULL, &t, NULL), 0);
	assert_int_equal(graph_stacks_init(&n, t, NULL), 0);
	assert_int_equal(graph_stacks_find(&n, 0, 50), 0);
	graph_stacks_release(&n);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(clones_lead_to_their_originals),
		folder_test(a_recording_without_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
