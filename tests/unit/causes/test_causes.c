/* test_causes.c: each kind of edge, by a recording that has it and whose times show nothing else */
#include "unit/causes/causes_fixture.h"

#define US UINT64_C(1000)

struct made {
	struct maker *m;
	uint32_t kernel;
};

/* One context with default stream 7, blocking streams 8 and 9, and non-blocking ones 20 and 21. */
static struct made make(void **state)
{
	struct made p = { .m = maker_begin(*state, 100, 0, "./app") };
	struct row_stream apart = { .context = 1, .non_blocking = 1 };

	maker_device(p.m, 0, 0);
	maker_stream(p.m, 8, 0);
	maker_stream(p.m, 9, 0);
	for (apart.id = 20; apart.id <= 21; apart.id++)
		writer_append(p.m->writer, TABLE_stream, &apart);
	p.kernel = maker_config(p.m, "k", 1, 32);
	return p;
}

/* A call of 2 us, and its kernel. */
static void launch(struct made *p, uint32_t thread, uint32_t stream, uint64_t correlation,
		   uint64_t call_us, uint64_t from_us, uint64_t to_us)
{
	maker_call(p->m, MAKER_LAUNCH, thread, call_us * US, (call_us + 2) * US, correlation);
	maker_kernel(p->m, p->kernel, stream, from_us * US, to_us * US, correlation);
}

static void call(struct made *p, enum maker_function function, uint64_t call_us, uint32_t stream,
		 uint64_t event)
{
	maker_stream_call(p->m, function, 1, call_us * US, (call_us + 1) * US, stream, event);
}

static void build_made(struct made *p, struct built *b, void **state)
{
	maker_close(p->m, 10000 * US);
	build(b, *state);
	for (unsigned k = 0; k < EDGE_KINDS; k++)
		assert_int_equal(b->causes.contradictions[k], 0);
}

static void assert_follows(const struct built *b, uint64_t work, uint64_t cause,
			   enum edge_kind kind)
{
	struct arrival a = causes_start(&b->causes, work_of(b, work, 0));

	assert_int_equal(a.kind, kind);
	assert_int_equal(a.from, work_of(b, cause, 0));
}

static void assert_launched(const struct built *b, uint64_t work)
{
	struct arrival a = causes_start(&b->causes, work_of(b, work, 0));

	assert_int_equal(a.kind, EDGE_launch);
	assert_true(a.at_start);
}

static void launches_and_streams(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 100);
	launch(&p, 1, 20, 2, 20, 101, 110);
	launch(&p, 1, 21, 3, 30, 36, 40);
	build_made(&p, &b, state);
	assert_launched(&b, 1);
	assert_follows(&b, 2, 1, EDGE_stream);
	assert_launched(&b, 3);
	assert_int_equal(causes_start(&b.causes, call_at(&b, 20 * US)).from, call_at(&b, 10 * US));
	assert_int_equal(causes_start(&b.causes, call_at(&b, 10 * US)).from, TASK_NONE);
	built_release(&b);
}

/* What a launch of more than 20 us does comes first: its work begins near its end, or later. */
static void a_long_launch_hands_its_work_over_late(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 100);
	maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, 20 * US, 180 * US, 2);
	maker_graph_kernel(p.m, p.kernel, 20, 160 * US, 162 * US, 2, 1, 1);
	maker_graph_kernel(p.m, p.kernel, 20, 163 * US, 210 * US, 2, 1, 2);
	maker_call(p.m, MAKER_LAUNCH, 1, 190 * US, 220 * US, 3); /* 212.5 is three quarters */
	maker_kernel(p.m, p.kernel, 20, 211 * US, 400 * US, 3);
	maker_call(p.m, MAKER_MEMCPY_BLOCKING, 1, 300 * US, 550 * US, 4);
	maker_memcpy(p.m, copy_kind_DtoH, 64, 20, 403 * US, 549 * US, 4);
	build_made(&p, &b, state);
	assert_launched(&b, 2);
	assert_int_equal(causes_start(&b.causes, work_of(&b, 2, 0)).ns, 20 * US);
	assert_int_equal(causes_start(&b.causes, work_of(&b, 2, 1)).from, work_of(&b, 2, 0));
	assert_int_equal(causes_start(&b.causes, work_of(&b, 3, 0)).from, work_of(&b, 2, 1));
	assert_follows(&b, 4, 3, EDGE_stream); /* the call may copy in parts */
	built_release(&b);
}

/* The handle is recorded three times: each wait is for the latest record before it. */
static void event_handles_are_reused(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 15, 21, 0xe);
	launch(&p, 1, 21, 2, 20, 501, 520);
	launch(&p, 1, 20, 3, 30, 502, 600);
	call(&p, MAKER_EVENT_RECORD, 33, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 35, 21, 0xe);
	call(&p, MAKER_EVENT_RECORD, 37, 9, 0xe); /* after the wait: does not concern it */
	launch(&p, 1, 21, 4, 40, 601, 610);
	launch(&p, 1, 21, 5, 50, 611, 620);
	build_made(&p, &b, state);
	assert_follows(&b, 2, 1, EDGE_event);
	assert_follows(&b, 4, 3, EDGE_event);
	assert_follows(&b, 5, 4, EDGE_stream);
	assert_int_equal(b.causes.unknown.events, 0);
	built_release(&b);
}

/* A stream that waits and then records passes on what it waits for, although it has no work. */
static void an_event_passes_through_an_idle_stream(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 15, 21, 0xe);
	call(&p, MAKER_EVENT_RECORD, 17, 21, 0xf);
	call(&p, MAKER_STREAM_WAIT, 19, 9, 0xf);
	launch(&p, 1, 9, 2, 21, 501, 520);
	build_made(&p, &b, state);
	a = causes_start(&b.causes, work_of(&b, 2, 0));
	assert_int_equal(a.kind, EDGE_event);
	assert_int_equal(b.causes.tasks.data[a.from].kind, TASK_JOIN);
	assert_int_equal(a.ns, 500 * US);
	assert_int_equal(causes_start(&b.causes, a.from).from, work_of(&b, 1, 0));
	built_release(&b);
}

static void a_wait_without_a_record_is_none(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 22);
	call(&p, MAKER_STREAM_WAIT, 15, 21, 0xe);
	launch(&p, 1, 21, 2, 20, 25, 30);
	call(&p, MAKER_EVENT_RECORD, 33, 0, 0xe); /* on a stream that is unknown */
	call(&p, MAKER_STREAM_WAIT, 35, 21, 0xe);
	launch(&p, 1, 21, 3, 40, 45, 50);
	build_made(&p, &b, state);
	assert_launched(&b, 2);
	assert_launched(&b, 3);
	assert_int_equal(b.causes.unknown.events, 2);
	assert_int_equal(b.causes.unknown.streams, 1);
	built_release(&b);
}

/* Captured calls make nodes, and what they say of events is no order of streams. */
static void captured_calls_are_left_out(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_BEGIN_CAPTURE, 13, 20, 0);
	call(&p, MAKER_EVENT_RECORD, 15, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 17, 21, 0xe); /* 21 joins the capture */
	call(&p, MAKER_EVENT_RECORD, 19, 21, 0xf);
	call(&p, MAKER_STREAM_WAIT, 21, 20, 0xf);
	call(&p, MAKER_END_CAPTURE, 23, 20, 0);
	call(&p, MAKER_STREAM_WAIT, 25, 8, 0xf); /* an error of the program: still no edge */
	call(&p, MAKER_END_CAPTURE, 27, 8, 0);
	call(&p, MAKER_EVENT_SYNCHRONIZE, 29, 0, 0xe); /* another one */
	launch(&p, 1, 21, 2, 31, 35, 40);
	build_made(&p, &b, state);
	assert_launched(&b, 2);
	assert_int_equal(b.causes.counts[EDGE_sync_event], 0);
	assert_true(b.causes.captured >= 3);
	built_release(&b);
}

/* Not those that were created as non-blocking. */
static void the_default_stream_and_blocking_streams_wait_for_each_other(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 8, 1, 10, 15, 500);
	launch(&p, 1, 20, 2, 13, 18, 900);
	launch(&p, 1, 7, 3, 16, 501, 600);
	launch(&p, 1, 9, 4, 19, 601, 610);
	launch(&p, 1, 21, 5, 22, 27, 40);
	launch(&p, 1, 8, 6, 25, 602, 620);
	launch(&p, 1, 8, 7, 28, 621, 640);
	launch(&p, 1, 7, 8, 31, 641, 650);
	build_made(&p, &b, state);
	assert_follows(&b, 3, 1, EDGE_null_stream);
	assert_follows(&b, 4, 3, EDGE_null_stream);
	assert_launched(&b, 5);
	assert_follows(&b, 6, 3, EDGE_null_stream);
	assert_follows(&b, 8, 7, EDGE_null_stream);
	assert_int_equal(b.causes.counts[EDGE_null_stream], 3 + 2); /* each stream once */
	built_release(&b);
}

/* Events of a non-blocking stream, and of the default stream itself, do not wait for it. */
static void events_without_waits_are_no_tasks(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 7, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	call(&p, MAKER_EVENT_RECORD, 15, 7, 0xf);
	build_made(&p, &b, state);
	for (uint32_t i = 0; i < causes_task_count(&b.causes); i++)
		assert_int_not_equal(b.causes.tasks.data[i].kind, TASK_JOIN);
	built_release(&b);
}

static void synchronizations_return_after_what_they_waited_for(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	launch(&p, 1, 20, 2, 16, 501, 800);
	launch(&p, 2, 21, 3, 17, 22, 1000);
	maker_stream_call(p.m, MAKER_EVENT_SYNCHRONIZE, 1, 20 * US, 510 * US, 0, 0xe);
	maker_stream_call(p.m, MAKER_STREAM_SYNCHRONIZE, 1, 520 * US, 808 * US, 20, 0);
	maker_call(p.m, MAKER_DEVICE_SYNCHRONIZE, 1, 820 * US, 1006 * US, 9);
	maker_stream_call(p.m, MAKER_STREAM_SYNCHRONIZE, 1, 1020 * US, 1021 * US, 20, 0);
	build_made(&p, &b, state);
	a = causes_return(&b.causes, call_at(&b, 20 * US));
	assert_true(a.kind == EDGE_sync_event && a.from == work_of(&b, 1, 0));
	a = causes_return(&b.causes, call_at(&b, 520 * US));
	assert_true(a.kind == EDGE_sync_stream && a.from == work_of(&b, 2, 0));
	a = causes_return(&b.causes, call_at(&b, 820 * US));
	assert_true(a.kind == EDGE_sync_context && a.from == work_of(&b, 3, 0));
	assert_int_equal(causes_return(&b.causes, call_at(&b, 1020 * US)).from, TASK_NONE);
	assert_int_equal(b.causes.unknown.assumed, 0);
	built_release(&b);
}

/* Without the stream: what ended within 20 us before the return, else nothing. */
static void an_unknown_target_is_assumed_from_times(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	launch(&p, 1, 20, 1, 10, 15, 500);
	launch(&p, 1, 21, 2, 13, 18, 300);
	maker_stream_call(p.m, MAKER_STREAM_SYNCHRONIZE, 1, 20 * US, 508 * US, 0, 0);
	launch(&p, 1, 20, 3, 600, 605, 620);
	maker_stream_call(p.m, MAKER_STREAM_SYNCHRONIZE, 1, 610 * US, 700 * US, 0, 0);
	build_made(&p, &b, state);
	a = causes_return(&b.causes, call_at(&b, 20 * US));
	assert_true(a.kind == EDGE_wait && a.from == work_of(&b, 1, 0));
	assert_int_equal(causes_return(&b.causes, call_at(&b, 610 * US)).from, TASK_NONE);
	assert_true(b.causes.tasks.data[call_at(&b, 610 * US)].flags & TASK_UNKNOWN_WAIT);
	assert_int_equal(b.causes.unknown.assumed, 1);
	built_release(&b);
}

/* A call, and its copy from or to pinned memory on stream 20. */
static void copy(struct made *p, uint64_t n, enum copy_kind kind, bool async, uint64_t return_us,
		 uint64_t end_us)
{
	struct row_memcpy row = { .start_ns = (1000 * n + 5) * US,
				  .end_ns = (1000 * n + end_us) * US,
				  .kind = (uint8_t)kind,
				  .source_kind = memory_kind_pinned,
				  .destination_kind = memory_kind_pinned,
				  .async = async,
				  .correlation = n,
				  .context = 1,
				  .stream = 20,
				  .missing = schema_missing(TABLE_memcpy) &
					     ~(UINT64_C(1) << COLUMN_memcpy_start_ns |
					       UINT64_C(1) << COLUMN_memcpy_end_ns |
					       UINT64_C(1) << COLUMN_memcpy_async) };

	maker_call(p->m, MAKER_MEMCPY, 1, 1000 * n * US, (1000 * n + return_us) * US, n);
	writer_append(p->m->writer, TABLE_memcpy, &row);
}

/* By its times: not of copies that still run, or ended long before, or for which nobody waits. */
static void blocking_copies(void **state)
{
	static const struct {
		enum copy_kind kind;
		bool async;
		uint64_t return_us, end_us;
		bool blocks;
	} cases[] = {
		{ copy_kind_DtoH, false, 110, 100, true },
		{ copy_kind_HtoD, false, 110, 111, true },
		{ copy_kind_HtoD, false, 10, 300, false },
		{ copy_kind_HtoD, false, 100, 50, false },
		{ copy_kind_DtoD, false, 110, 100, false },
		{ copy_kind_DtoH, true, 110, 100, false },
	};
	struct made p = make(state);
	struct built b;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		copy(&p, i + 1, cases[i].kind, cases[i].async, cases[i].return_us, cases[i].end_us);
	build_made(&p, &b, state);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct arrival a = causes_return(&b.causes, call_at(&b, 1000 * (i + 1) * US));

		assert_int_equal(a.from, cases[i].blocks ? work_of(&b, i + 1, 0) : TASK_NONE);
		assert_int_equal(a.kind, cases[i].blocks ? EDGE_copy : EDGE_none);
	}
	built_release(&b);
}

static void work_after_what_a_stream_does_itself(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 100);
	call(&p, MAKER_HOST_FUNCTION, 13, 20, 0);
	launch(&p, 1, 20, 2, 16, 190, 200);
	launch(&p, 1, 20, 3, 19, 201, 210);
	call(&p, MAKER_STREAM_MEMORY, 23, 20, 0);
	launch(&p, 1, 20, 4, 26, 290, 300);
	build_made(&p, &b, state);
	assert_follows(&b, 2, 1, EDGE_host_function);
	assert_follows(&b, 3, 2, EDGE_stream);
	assert_follows(&b, 4, 3, EDGE_stream_memory);
	built_release(&b);
}

/* Node 1 forks into 2 and 3, which join in 4, by way of a node 5 that is no work. */
static void nodes_of_a_graph(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;
	static const uint16_t spans[][2] = {
		{ 101, 110 }, { 111, 150 }, { 112, 130 }, { 151, 160 }
	};

	for (uint64_t node = 1; node <= 5; node++) {
		maker_graph_node(p.m, node, 1, 0, 1, 0);
		maker_graph_node(p.m, 100 + node, 2, node, 1, 1);
	}
	maker_graph_edge(p.m, 1, 2, 0);
	maker_graph_edge(p.m, 1, 3, 0);
	maker_graph_edge(p.m, 2, 5, 0);
	maker_graph_edge(p.m, 3, 5, 0);
	maker_graph_edge(p.m, 5, 4, 0);
	launch(&p, 1, 20, 1, 10, 15, 100);
	maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, 20 * US, 25 * US, 2);
	for (unsigned i = 0; i < 4; i++)
		maker_graph_kernel(p.m, p.kernel, 20, spans[i][0] * US, spans[i][1] * US, 2, 2,
				   101 + i);
	launch(&p, 1, 20, 3, 30, 161, 170);
	build_made(&p, &b, state);
	a = causes_start(&b.causes, work_of(&b, 2, 0));
	assert_true(a.kind == EDGE_stream && a.from == work_of(&b, 1, 0));
	for (unsigned i = 1; i < 3; i++) {
		a = causes_start(&b.causes, work_of(&b, 2, i));
		assert_true(a.kind == EDGE_graph && a.from == work_of(&b, 2, 0));
	}
	a = causes_start(&b.causes, work_of(&b, 2, 3));
	assert_true(a.kind == EDGE_graph && a.from == work_of(&b, 2, 1));
	a = causes_start(&b.causes, work_of(&b, 3, 0));
	assert_true(a.kind == EDGE_stream && b.causes.tasks.data[a.from].kind == TASK_JOIN);
	assert_int_equal(causes_start(&b.causes, a.from).from, work_of(&b, 2, 3));
	assert_int_equal(b.causes.unknown.unordered_graphs, 0);
	built_release(&b);
}

/* Of one node, behind an empty one; the next launch is on another stream. */
static void a_graph_is_on_the_stream_of_its_launch(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	maker_graph_node(p.m, 1, 1, 0, 1, 0);
	maker_graph_node(p.m, 2, 1, 0, 1, 0);
	maker_graph_edge(p.m, 1, 2, 0);
	launch(&p, 1, 20, 1, 10, 15, 100);
	maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, 20 * US, 25 * US, 2);
	maker_graph_kernel(p.m, p.kernel, 20, 101 * US, 110 * US, 2, 1, 2);
	launch(&p, 1, 21, 3, 30, 36, 40);
	launch(&p, 1, 20, 4, 50, 111, 120);
	build_made(&p, &b, state);
	assert_follows(&b, 2, 1, EDGE_stream);
	assert_launched(&b, 3);
	a = causes_start(&b.causes, work_of(&b, 4, 0));
	assert_true(a.kind == EDGE_stream && b.causes.tasks.data[a.from].kind == TASK_JOIN);
	assert_int_equal(causes_start(&b.causes, a.from).from, work_of(&b, 2, 0));
	built_release(&b);
}

/* In the order of starts, of whatever kind the nodes are. */
static void a_graph_without_dependencies_is_in_order(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, 20 * US, 25 * US, 2);
	maker_graph_kernel(p.m, p.kernel, 20, 30 * US, 40 * US, 2, 2, 101);
	maker_graph_kernel(p.m, p.kernel, 20, 41 * US, 50 * US, 2, 2, 102);
	maker_memcpy(p.m, copy_kind_DtoD, 64, 20, 27 * US, 29 * US, 2);
	build_made(&p, &b, state);
	assert_int_equal(b.causes.tasks.data[work_of(&b, 2, 0)].kind, GPU_WORK_memcpy);
	for (unsigned n = 1; n < 3; n++) {
		a = causes_start(&b.causes, work_of(&b, 2, n));
		assert_true(a.kind == EDGE_graph_order && a.from == work_of(&b, 2, n - 1));
	}
	assert_int_equal(b.causes.unknown.unordered_graphs, 1);
	built_release(&b);
}

/* Both streams have channel 8, and the second's work begins when the first's ends. */
static void streams_that_share_a_channel(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 500);
	launch(&p, 1, 21, 2, 13, 501, 600);
	launch(&p, 1, 20, 3, 601, 606, 700);
	build_made(&p, &b, state);
	assert_follows(&b, 2, 1, EDGE_false_dependency);
	assert_launched(&b, 3);
	built_release(&b);
}

/* Channels are those of a process. */
static void processes_share_no_channel(void **state)
{
	struct built b;

	for (uint32_t pid = 100; pid <= 101; pid++) {
		struct maker *m = maker_begin(*state, pid, 0, "./app");

		maker_device(m, 0, 0);
		maker_call(m, MAKER_LAUNCH, 1, 10 * US, 12 * US, 1);
		maker_kernel(m, maker_config(m, "k", 1, 32), pid, (pid == 100 ? 15 : 501) * US,
			     (pid == 100 ? 500 : 600) * US, 1);
		maker_close(m, 10000 * US);
	}
	build(&b, *state);
	assert_int_equal(causes_task_count(&b.causes), 4);
	assert_int_equal(b.causes.counts[EDGE_false_dependency], 0);
	built_release(&b);
}

/* Thread 2's launch began later, and its work ran first. */
static void two_threads_launch_into_one_stream(void **state)
{
	struct made p = make(state);
	struct built b;

	maker_call(p.m, MAKER_LAUNCH, 1, 10 * US, 30 * US, 1);
	maker_call(p.m, MAKER_LAUNCH, 2, 11 * US, 13 * US, 2);
	maker_kernel(p.m, p.kernel, 20, 15 * US, 25 * US, 2);
	maker_kernel(p.m, p.kernel, 20, 35 * US, 45 * US, 1);
	build_made(&p, &b, state);
	assert_launched(&b, 1);
	assert_launched(&b, 2);
	assert_int_equal(b.causes.reordered, 1);
	built_release(&b);
}

/*
 * Kernels of 20 us, launched each 2 us: from the 71st on each launch returns when a kernel begins,
 * so that 70 are in the queue.
 */
static void a_full_queue_is_learnt(void **state)
{
	struct made p = make(state);
	struct built b;
	uint64_t now_us = 10, gpu_us = 15;

	for (uint64_t i = 0; i < 300; i++) {
		uint64_t begun_us = 15 + 20 * (i > 70 ? i - 70 : 0), return_us = now_us + 2;

		if (i > 70)
			return_us = MAX(return_us, begun_us + 1);
		maker_call(p.m, MAKER_LAUNCH, 1, now_us * US, return_us * US, i + 1);
		maker_kernel(p.m, p.kernel, 20, gpu_us * US, (gpu_us + 20) * US, i + 1);
		now_us = return_us;
		gpu_us += 20;
	}
	build_made(&p, &b, state);
	assert_true(b.causes.counts[EDGE_queue_full] > 200);
	for (uint64_t i = 100; i < 300; i++) {
		uint32_t call = b.causes.tasks.data[work_of(&b, i + 1, 0)].launch;
		struct arrival a = causes_return(&b.causes, call);

		assert_true(a.kind == EDGE_queue_full && a.at_start);
		assert_int_equal(a.from, work_of(&b, i + 1 - 70, 0));
	}
	built_release(&b);
}

static void contradictions_are_counted_and_explain_nothing(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 500);
	launch(&p, 1, 20, 2, 20, 400, 600);
	maker_close(p.m, 10000 * US);
	build(&b, *state);
	assert_launched(&b, 2);
	assert_int_equal(b.causes.contradictions[EDGE_stream], 1);
	assert_int_equal(b.causes.contradiction_ns, 100 * US);
	built_release(&b);
}

/* Work without a call follows its stream; work without times is no task. */
static void half_a_recording(void **state)
{
	struct made p = make(state);
	struct built b;

	maker_kernel(p.m, p.kernel, 20, 5 * US, 9 * US, 77);
	launch(&p, 1, 20, 1, 10, 15, 20);
	maker_kernel(p.m, p.kernel, 20, 21 * US, 30 * US, 78);
	maker_kernel(p.m, p.kernel, 20, 0, 0, 79);
	launch(&p, 1, 20, 2, 40, 45, 50);
	launch(&p, 1, 20, 3, 50, 55, 60);
	build_made(&p, &b, state);
	for (uint64_t us = 10; us <= 50;
	     us += us == 10 ? 30 : 10) /* 78's call was before the second */
		assert_int_equal(b.causes.tasks.data[call_at(&b, us * US)].flags &
					 TASK_UNKNOWN_HOST,
				 us == 40 ? TASK_UNKNOWN_HOST : 0);
	assert_int_equal(causes_start(&b.causes, work_of(&b, 77, 0)).from, TASK_NONE);
	assert_follows(&b, 78, 1, EDGE_stream);
	assert_int_equal(b.causes.unknown.unlaunched, 2);
	assert_int_equal(b.causes.unknown.untimed, 1);
	assert_int_equal(causes_task_count(&b.causes), 8);
	built_release(&b);
}

/* A query that begins at call_us, takes 1 us, and finds its work unfinished or done. */
static void query(struct made *p, uint32_t thread, uint64_t call_us, uint64_t event, bool done)
{
	p->m->result = done ? 0 : 600; /* CUDA_ERROR_NOT_READY */
	maker_stream_call(p->m, event ? MAKER_EVENT_QUERY : MAKER_STREAM_QUERY, thread,
			  call_us * US, (call_us + 1) * US, event ? 0 : 20, event);
	p->m->result = 0;
}

/* Beside another thread, which polls all the time and never finds anything done. */
static void queries_in_a_row_wait_for_their_work(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	for (uint64_t us = 20; us < 500; us += 60)
		query(&p, 1, us, 0xe, false);
	query(&p, 1, 503, 0xe, true);
	for (uint64_t us = 22; us < 500; us += 70)
		query(&p, 2, us, 0xf, false);
	launch(&p, 1, 20, 2, 510, 515, 700);
	query(&p, 1, 520, 0, false);
	query(&p, 1, 620, 0, false); /* as late as it may be */
	query(&p, 1, 705, 0, true);
	build_made(&p, &b, state);
	assert_int_equal(causes_task_count(&b.causes), 2 + 2 + 1 + 2 + 1);
	a = causes_return(&b.causes, call_at(&b, 20 * US));
	assert_true(a.kind == EDGE_query && a.from == work_of(&b, 1, 0) && a.ns == 500 * US);
	assert_int_equal(b.causes.tasks.data[call_at(&b, 20 * US)].end_ns, 504 * US);
	a = causes_return(&b.causes, call_at(&b, 520 * US));
	assert_true(a.kind == EDGE_query && a.from == work_of(&b, 2, 0));
	assert_int_equal(b.causes.tasks.data[call_at(&b, 520 * US)].end_ns, 706 * US);
	a = causes_return(&b.causes, call_at(&b, 22 * US));
	assert_int_equal(a.from, TASK_NONE);
	assert_int_equal(b.causes.counts[EDGE_query], 2);
	built_release(&b);
}

/* More than 100 us passed, it made another call, or it had found its work done. */
static void a_thread_that_works_between_queries_does_not_wait(void **state)
{
	struct made p = make(state);
	struct built b;

	launch(&p, 1, 20, 1, 10, 15, 200);
	call(&p, MAKER_EVENT_RECORD, 13, 20, 0xe);
	query(&p, 1, 20, 0xe, false);
	query(&p, 1, 121, 0xe, false);
	query(&p, 1, 222, 0xe, true); /* 100 us after 122 */
	query(&p, 1, 224, 0xe, true);
	launch(&p, 1, 20, 2, 230, 235, 300);
	query(&p, 1, 240, 0, false);
	launch(&p, 1, 20, 3, 250, 301, 310);
	query(&p, 1, 330, 0, true);
	query(&p, 1, 400, 0xe, false); /* 68 us after a query of something done */
	query(&p, 1, 502, 0xe, true); /* 101 us after 401 */
	build_made(&p, &b, state);
	assert_int_equal(call_at(&b, 20 * US), 3);
	assert_int_equal(b.causes.tasks.data[3].end_ns, 223 * US);
	assert_true(causes_return(&b.causes, 3).from == work_of(&b, 1, 0));
	for (uint64_t us = 224; us <= 502; us += us == 224   ? 16
						 : us == 240 ? 90
						 : us == 330 ? 70
							     : 102) {
		uint32_t at = call_at(&b, us * US);

		assert_int_equal(causes_return(&b.causes, at).from, TASK_NONE);
		assert_int_equal(b.causes.tasks.data[at].end_ns, (us + 1) * US);
	}
	built_release(&b);
}

/* As some tools write them: then a run is over when there is another call. */
static void queries_without_results_and_handles(void **state)
{
	struct made p = make(state);
	struct built b;
	struct arrival a;

	launch(&p, 1, 20, 1, 10, 15, 200);
	for (uint64_t us = 20; us < 210; us += 5)
		maker_call(p.m, MAKER_EVENT_QUERY, 1, us * US, (us + 1) * US, 0);
	launch(&p, 1, 20, 2, 230, 235, 300);
	maker_call(p.m, MAKER_EVENT_QUERY, 1, 240 * US, 241 * US, 0);
	build_made(&p, &b, state);
	assert_int_equal(causes_task_count(&b.causes), 6);
	a = causes_return(&b.causes, call_at(&b, 20 * US));
	assert_true(a.kind == EDGE_wait && a.from == work_of(&b, 1, 0));
	assert_int_equal(causes_return(&b.causes, call_at(&b, 240 * US)).from, TASK_NONE);
	assert_false(b.causes.tasks.data[call_at(&b, 240 * US)].flags & TASK_UNKNOWN_WAIT);
	built_release(&b);
}

/* --api all records the driver's call inside of the runtime's. */
static void nested_calls_are_one_task(void **state)
{
	struct made p = make(state);
	struct built b;

	maker_call(p.m, MAKER_RUNTIME_LAUNCH, 1, 10 * US, 20 * US, 1);
	maker_call(p.m, MAKER_LAUNCH, 1, 12 * US, 18 * US, 1);
	maker_kernel(p.m, p.kernel, 20, 25 * US, 30 * US, 1);
	for (uint64_t us = 20; us < 35; us += 7) {
		p.m->result = us < 30 ? 600 : 0;
		maker_stream_call(p.m, MAKER_STREAM_QUERY, 1, us * US, (us + 3) * US, 20, 0);
		maker_stream_call(p.m, MAKER_STREAM_QUERY, 1, (us + 1) * US, (us + 2) * US, 20, 0);
	}
	p.m->result = 0;
	build_made(&p, &b, state);
	assert_int_equal(causes_task_count(&b.causes), 3);
	assert_int_equal(b.causes.tasks.data[2].end_ns, 37 * US);
	assert_int_equal(causes_return(&b.causes, 2).kind, EDGE_query);
	assert_int_equal(causes_start(&b.causes, work_of(&b, 1, 0)).from, call_at(&b, 10 * US));
	built_release(&b);
}

static void nothing(void **state)
{
	struct made p = make(state);
	struct built b;

	build_made(&p, &b, state);
	assert_int_equal(causes_task_count(&b.causes), 0);
	built_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(launches_and_streams),
		folder_test(a_long_launch_hands_its_work_over_late),
		folder_test(event_handles_are_reused),
		folder_test(an_event_passes_through_an_idle_stream),
		folder_test(a_wait_without_a_record_is_none),
		folder_test(captured_calls_are_left_out),
		folder_test(the_default_stream_and_blocking_streams_wait_for_each_other),
		folder_test(events_without_waits_are_no_tasks),
		folder_test(synchronizations_return_after_what_they_waited_for),
		folder_test(an_unknown_target_is_assumed_from_times),
		folder_test(blocking_copies),
		folder_test(work_after_what_a_stream_does_itself),
		folder_test(nodes_of_a_graph),
		folder_test(a_graph_is_on_the_stream_of_its_launch),
		folder_test(a_graph_without_dependencies_is_in_order),
		folder_test(streams_that_share_a_channel),
		folder_test(processes_share_no_channel),
		folder_test(two_threads_launch_into_one_stream),
		folder_test(a_full_queue_is_learnt),
		folder_test(contradictions_are_counted_and_explain_nothing),
		folder_test(half_a_recording),
		folder_test(queries_in_a_row_wait_for_their_work),
		folder_test(a_thread_that_works_between_queries_does_not_wait),
		folder_test(queries_without_results_and_handles),
		folder_test(nested_calls_are_one_task),
		folder_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
