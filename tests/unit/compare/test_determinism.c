/* test_determinism.c: two runs of one program that differ in one thing */
#include <stdio.h>

#include "compare/determinism.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define US UINT64_C(1000)
#define ROUNDS 20u

/* What one run does otherwise, in its eleventh round. */
enum change {
	NOTHING,
	OTHER_IDS, /* of streams, threads, graphs; addresses and times */
	SHAPE,
	NAME_HASH, /* which does not count */
	THREAD_ORDER,
	STREAM_ORDER,
	COPY_BYTES,
	MEMSET_VALUE,
	NO_WAIT,
	WAIT_FOR_ANOTHER,
	ONE_MORE,
	GRAPH_EDGE,
	ALLOCATION,
	NO_ALLOCATIONS,
};

struct run {
	struct maker *m;
	enum change change;
	uint32_t streams[2], thread, kernel, other, wide;
	uint64_t ns, id;
};

static void launch(struct run *r, uint32_t kernel, unsigned stream)
{
	maker_call(r->m, MAKER_LAUNCH, r->thread, r->ns, r->ns + 2 * US, ++r->id);
	maker_kernel(r->m, kernel, r->streams[stream], r->ns + 5 * US, r->ns + 8 * US, r->id);
	r->ns += 10 * US;
}

static void stream_call(struct run *r, enum maker_function function, unsigned stream)
{
	maker_stream_call(r->m, function, r->thread, r->ns, r->ns + US, r->streams[stream], 0xe0);
	r->ns += 2 * US;
}

static void add_copies(struct run *r, bool now)
{
	struct row_memset set = { .bytes = 64,
				  .value = now && r->change == MEMSET_VALUE,
				  .context = 1,
				  .stream = r->streams[0] };

	maker_call(r->m, MAKER_MEMCPY, r->thread, r->ns, r->ns + US, ++r->id);
	maker_memcpy(r->m, copy_kind_HtoD, now && r->change == COPY_BYTES ? 128 : 64, r->streams[0],
		     r->ns + 2 * US, r->ns + 3 * US, r->id);
	r->ns += 4 * US;
	maker_call(r->m, MAKER_MEMSET, r->thread, r->ns, r->ns + US, ++r->id);
	set.start_ns = r->ns + 2 * US;
	set.end_ns = r->ns + 3 * US;
	set.correlation = r->id;
	writer_append(r->m->writer, TABLE_memset, &set);
	r->ns += 4 * US;
}

static void add_round(struct run *r, bool now)
{
	enum change change = now ? r->change : NOTHING;
	uint32_t first = change == STREAM_ORDER ? r->other : r->kernel,
		 second = change == STREAM_ORDER ? r->kernel : r->other;

	add_copies(r, now);
	launch(r, first, 0);
	launch(r, change == SHAPE ? r->wide : second, 0);
	if (change == WAIT_FOR_ANOTHER)
		launch(r, r->other, 1);
	stream_call(r, MAKER_EVENT_RECORD, 0);
	if (change != NO_WAIT)
		stream_call(r, MAKER_STREAM_WAIT, 1);
	if (change == THREAD_ORDER) {
		launch(r, r->other, 0);
		launch(r, r->kernel, 1);
	} else {
		launch(r, r->kernel, 1);
		launch(r, r->other, 0);
	}
	if (change == ONE_MORE)
		launch(r, r->kernel, 1);
}

/* Three nodes of which two run in either order. */
static void add_graph(struct run *r)
{
	uint32_t graph = r->change == OTHER_IDS ? 99 : 5;
	uint64_t node = r->change == OTHER_IDS ? 1000 : 1;
	bool swapped = r->change == OTHER_IDS;

	maker_graph_edge(r->m, node, node + 1, r->ns);
	maker_graph_edge(r->m, r->change == GRAPH_EDGE ? node + 1 : node, node + 2, r->ns);
	maker_call(r->m, MAKER_GRAPH_LAUNCH, r->thread, r->ns, r->ns + US, ++r->id);
	maker_graph_kernel(r->m, r->kernel, r->streams[0], r->ns + 2 * US, r->ns + 3 * US, r->id,
			   graph, node);
	maker_graph_kernel(r->m, r->kernel, r->streams[0], r->ns + (swapped ? 6 : 4) * US,
			   r->ns + (swapped ? 7 : 5) * US, r->id, graph, node + 1);
	maker_graph_kernel(r->m, r->other, r->streams[0], r->ns + (swapped ? 4 : 6) * US,
			   r->ns + (swapped ? 5 : 7) * US, r->id, graph, node + 2);
	r->ns += 10 * US;
}

static void add_allocations(struct run *r)
{
	struct row_allocation a = { .operation = memory_operation_allocation,
				    .kind = memory_kind_device,
				    .address = r->change == OTHER_IDS ? 0x2000 : 0x1000 };

	for (unsigned i = 0; i < 3 && r->change != NO_ALLOCATIONS; i++) {
		a.time_ns = r->ns + i * US;
		a.bytes = 100 + i + (i == 1 && r->change == ALLOCATION);
		writer_append(r->m->writer, TABLE_allocation, &a);
	}
}

static void make(const char *folder, enum change change)
{
	bool others = change == OTHER_IDS;
	struct run r = { .m = maker_begin(folder, others ? 300 : 100, 0, "./app"),
			 .change = change,
			 .streams = { others ? 45 : 20, others ? 44 : 21 },
			 .thread = others ? 7 : 1,
			 .ns = others ? 777 * US : 10 * US };
	struct row_stream apart = { .context = 1, .non_blocking = 1 };

	maker_device(r.m, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		apart.id = r.streams[i];
		writer_append(r.m->writer, TABLE_stream, &apart);
	}
	r.other = maker_config(r.m, "other_kernel_0", 4, 64);
	r.kernel = maker_config(r.m,
				change == NAME_HASH ? "gemm_cuda_17_a1b2c3d4e5f60718_x"
						    : "gemm_cuda_4_00ffee1122334455_x",
				2, 128);
	r.wide = maker_config(r.m, "other_kernel_0", 5, 64);
	add_allocations(&r);
	for (unsigned i = 0; i < ROUNDS; i++)
		add_round(&r, i == 10);
	add_graph(&r);
	maker_close(r.m, r.ns + US);
}

static void open_order(const char *folder, struct trace **trace, struct launch_order *o)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };

	if (trace_open(folder, &options, trace, &e) < 0 || launch_order_init(o, *trace, &e) < 0)
		fail_msg("%s", e.text);
}

static void levels(void **state)
{
	static const struct {
		enum change change;
		int reached;
		const char *states; /* s, d or u of each level */
		unsigned at; /* of the first difference, from 0 */
		unsigned inserted, deleted;
	} cases[] = {
		{ NOTHING, 4, "sssss", 0, 0, 0 },       { OTHER_IDS, 4, "sssss", 0, 0, 0 },
		{ NAME_HASH, 4, "sssss", 0, 0, 0 },     { SHAPE, -1, "dddds", 41, 1, 1 },
		{ THREAD_ORDER, 0, "sdsss", 42, 1, 1 }, { STREAM_ORDER, 0, "sddds", 40, 1, 1 },
		{ COPY_BYTES, 1, "ssdds", 50, 1, 1 },   { MEMSET_VALUE, 1, "ssdds", 51, 1, 1 },
		{ NO_WAIT, 2, "sssds", 10, 1, 1 },      { WAIT_FOR_ANOTHER, -1, "dddds", 42, 1, 0 },
		{ ONE_MORE, -1, "dddds", 45, 1, 0 },    { GRAPH_EDGE, 2, "sssds", 102, 1, 1 },
		{ ALLOCATION, 3, "ssssd", 1, 1, 1 },    { NO_ALLOCATIONS, 3, "ssssd", 0, 0, 3 },
	};
	char a[4096], b[4096];

	snprintf(a, sizeof(a), "%s/a", (const char *)*state);
	make(a, NOTHING);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct launch_order left, right;
		struct trace *of_a, *of_b;
		struct determinism d;

		snprintf(b, sizeof(b), "%s/%zu", (const char *)*state, i);
		make(b, cases[i].change);
		open_order(a, &of_a, &left);
		open_order(b, &of_b, &right);
		assert_int_equal(determinism_init(&d, &left, &right), 0);
		for (unsigned k = 0; k < LEVEL_COUNT; k++)
			if ("sdu"[d.levels[k]] != cases[i].states[k])
				fail_msg("case %zu, level %u: %c", i, k, "sdu"[d.levels[k]]);
		assert_int_equal(d.reached, cases[i].reached);
		if (d.differences.count) {
			assert_int_equal(d.differences.data[0].at, cases[i].at);
			assert_int_equal(d.differences.data[0].inserted, cases[i].inserted);
			assert_int_equal(d.differences.data[0].deleted, cases[i].deleted);
		}
		assert_int_equal(d.only_a, cases[i].change == SHAPE);
		assert_int_equal(d.only_b, cases[i].reached == -1);
		assert_int_equal(left.masked, 1);
		determinism_release(&d);
		launch_order_release(&left);
		launch_order_release(&right);
		trace_free(of_a);
		trace_free(of_b);
	}
}

/* More edits than are counted. */
static void many_edits(void **state)
{
	struct launch_order a = { 0 }, b = { 0 };
	struct launch_sequence left = { 0 }, right = { 0 };
	struct determinism d;

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		assert_int_equal(vec_push(&left.steps, ((struct launch_step){ .what = i })), 0);
		assert_int_equal(
			vec_push(&right.steps, ((struct launch_step){ .what = ~0ull - i })), 0);
	}
	a.allocations = left;
	b.allocations = right;
	a.has_allocations = true;
	assert_int_equal(determinism_init(&d, &a, &b), 0);
	assert_int_equal(d.differences.count, 1);
	assert_true(d.differences.data[0].is_limited);
	assert_int_equal(d.reached, LEVEL_dependencies);
	determinism_release(&d);
	vec_release(&left.steps);
	vec_release(&right.steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(levels),
		cmocka_unit_test(many_edits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
