/* test_replay_plan.c: the operations that are made of a recording, one line each */
#include <stdio.h>

#include "replay/replay_plan.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define US UINT64_C(1000)
#define ALL                                                                                        \
	{                                                                                          \
		.process = -1, .until_ns = UINT64_MAX                                              \
	}

static const char *const kind_names[] = {
#define KIND(name, text) #name,
	REPLAY_KINDS(KIND)
#undef KIND
};

struct made {
	struct maker *m;
	uint32_t kernel;
};

/* One context with default stream 7, a blocking stream 8, and non-blocking ones 20 and 21. */
static struct made make(void **state)
{
	struct made p = { .m = maker_begin(*state, 100, 0, "./app") };
	struct row_stream apart = { .context = 1, .non_blocking = 1, .priority = -2 };

	maker_device(p.m, 0, 0);
	maker_stream(p.m, 8, 0);
	for (apart.id = 20; apart.id <= 21; apart.id++)
		writer_append(p.m->writer, TABLE_stream, &apart);
	p.kernel = maker_config(p.m, "k", 6, 128);
	return p;
}

/* A call of 2 us, and its kernel. */
static void launch(struct made *p, uint32_t thread, uint32_t stream, uint64_t correlation,
		   uint64_t call_us, uint64_t from_us, uint64_t to_us)
{
	maker_call(p->m, MAKER_LAUNCH, thread, call_us * US, (call_us + 2) * US, correlation);
	maker_kernel(p->m, p->kernel, stream, from_us * US, to_us * US, correlation);
}

static void call(struct made *p, enum maker_function function, uint64_t call_us, uint64_t end_us,
		 uint32_t stream, uint64_t event)
{
	maker_stream_call(p->m, function, 1, call_us * US, end_us * US, stream, event);
}

struct planned {
	struct trace *trace;
	struct causes causes;
	struct replay_plan plan;
	struct strbuf ops;
};

static void add_line(struct planned *b, const struct replay_op *op)
{
	const struct replay_work *w = &op->work;

	strbuf_addf(&b->ops, "%s s%u", kind_names[w->kind], b->plan.streams.data[op->stream].id);
	if (w->kind == REPLAY_event_record || w->kind == REPLAY_event_wait ||
	    w->kind == REPLAY_event_synchronize || w->kind == REPLAY_graph)
		strbuf_addf(&b->ops, " #%u", w->item);
	if (w->bytes)
		strbuf_addf(&b->ops, " %u B", (unsigned)w->bytes);
	if (w->duration_ns)
		strbuf_addf(&b->ops, " %u us", (unsigned)(w->duration_ns / US));
	if (w->flags & OP_FIRST)
		strbuf_addf(&b->ops, ", gap %u own %u", (unsigned)(op->gap_ns / US),
			    (unsigned)(op->own_ns / US));
	if (w->flags & OP_WAITS)
		strbuf_adds(&b->ops, ", waits");
	if (op->thread)
		strbuf_addf(&b->ops, ", thread %u", op->thread);
	strbuf_addc(&b->ops, '\n');
}

static int plan_of(struct planned *b, const char *folder, const struct replay_options *o,
		   struct error *e)
{
	struct trace_options options = { .threads = 1 };
	int rc;

	*b = (struct planned){ 0 };
	if (trace_open(folder, &options, &b->trace, e) < 0 || replay_plan_load(b->trace, e) < 0 ||
	    causes_build(&b->causes, b->trace) < 0)
		fail_msg("%s", e->text);
	rc = replay_plan_make(&b->plan, &b->causes, o, e);
	for (size_t i = 0; i < b->plan.ops.count && rc == 0; i++)
		add_line(b, &b->plan.ops.data[i]);
	return rc;
}

static void planned_release(struct planned *b)
{
	replay_plan_release(&b->plan);
	causes_release(&b->causes);
	trace_free(b->trace);
	strbuf_release(&b->ops);
}

/* Ends the recording, and compares its operations with the lines. */
static void assert_planned(struct made *p, void **state, struct planned *b,
			   const struct replay_options *o, const char *lines)
{
	struct error e = { 0 };

	if (p->m)
		maker_close(p->m, 100000 * US);
	p->m = NULL;
	if (plan_of(b, *state, o, &e) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(strbuf_text(&b->ops), lines);
}

static const struct replay_options everything = ALL;

static void calls_keep_their_pace(void **state)
{
	struct made p = make(state);
	struct planned b;

	launch(&p, 1, 7, 1, 10, 15, 100);
	maker_call(p.m, MAKER_MEMCPY, 1, 20 * US, 24 * US, 2);
	maker_memcpy(p.m, copy_kind_HtoD, 4096, 20, 30 * US, 40 * US, 2);
	maker_call(p.m, MAKER_MEMSET, 1, 30 * US, 31 * US, 3);
	maker_memset(p.m, 100, 20, 41 * US, 42 * US, 3);
	call(&p, MAKER_STREAM_SYNCHRONIZE, 50, 104, 7, 0); /* waited until 100 */
	launch(&p, 1, 8, 4, 110, 115, 120);
	call(&p, MAKER_STREAM_SYNCHRONIZE, 130, 133, 20, 0); /* nothing to wait for */
	assert_planned(&p, state, &b, &everything,
		       "kernel s7 85 us, gap 0 own 2\n"
		       "memcpy s20 4096 B 10 us, gap 8 own 4\n"
		       "memset s20 100 B 1 us, gap 6 own 1\n"
		       "stream_synchronize s7, gap 19 own 4, waits\n"
		       "kernel s8 5 us, gap 6 own 2\n"
		       "stream_synchronize s20, gap 18 own 3, waits\n");
	assert_int_equal(b.plan.start_ns, 10 * US);
	assert_int_equal(b.plan.end_ns, 133 * US);
	assert_int_equal(b.plan.work, 4);
	assert_int_equal(b.plan.shapes.data[0].grid[0], 6);
	assert_int_equal(b.plan.shapes.data[0].block[0], 128);
	assert_int_equal(b.plan.threads, 1);
	planned_release(&b);
}

static void streams_are_as_recorded(void **state)
{
	struct made p = make(state);
	struct planned b;
	const struct replay_stream *s;

	launch(&p, 1, 7, 1, 10, 15, 100);
	launch(&p, 1, 8, 2, 20, 101, 110);
	launch(&p, 1, 21, 3, 30, 36, 40);
	launch(&p, 1, 99, 4, 40, 46, 50); /* of which nothing is known */
	assert_planned(&p, state, &b, &everything,
		       "kernel s7 85 us, gap 0 own 2\nkernel s8 9 us, gap 8 own 2\n"
		       "kernel s21 4 us, gap 8 own 2\nkernel s99 4 us, gap 8 own 2\n");
	s = b.plan.streams.data;
	assert_true(s[0].is_default);
	assert_true(!s[1].is_default && s[1].is_blocking);
	assert_true(!s[2].is_default && !s[2].is_blocking && s[2].priority == -2);
	assert_true(!s[3].is_default && !s[3].is_blocking);
	assert_int_equal(s[0].kernel_ns, 85 * US);
	assert_int_equal(s[0].kernels, 1);
	planned_release(&b);
}

/* The handle is reused; a wait before any record is none. Events are free after their last use. */
static void events_follow_the_latest_record(void **state)
{
	struct made p = make(state);
	struct planned b;

	call(&p, MAKER_STREAM_WAIT, 5, 6, 21, 0xe);
	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 14, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 15, 16, 21, 0xe);
	launch(&p, 1, 21, 2, 20, 501, 520);
	launch(&p, 1, 20, 3, 30, 502, 600);
	call(&p, MAKER_EVENT_RECORD, 33, 34, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 35, 36, 21, 0xe);
	launch(&p, 1, 21, 4, 40, 601, 610);
	call(&p, MAKER_EVENT_SYNCHRONIZE, 45, 604, 0, 0xe);
	assert_planned(&p, state, &b, &everything,
		       "kernel s20 485 us, gap 0 own 2\nevent_record s20 #0\n"
		       "event_wait s21 #0, gap 8 own 2\nkernel s21 19 us\n"
		       "kernel s20 98 us, gap 8 own 2\nevent_record s20 #0\n"
		       "event_wait s21 #0, gap 8 own 2\nkernel s21 9 us\n"
		       "event_synchronize s20 #0, gap 3 own 4, waits\n");
	assert_int_equal(b.plan.events, 1);
	planned_release(&b);
}

/* A stream that waits and records without work of its own passes on what it waits for. */
static void an_idle_stream_passes_an_event_on(void **state)
{
	struct made p = make(state);
	struct planned b;

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 14, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 15, 16, 21, 0xe);
	call(&p, MAKER_EVENT_RECORD, 17, 18, 21, 0xf);
	call(&p, MAKER_STREAM_WAIT, 19, 20, 8, 0xf);
	launch(&p, 1, 8, 2, 21, 501, 520);
	assert_planned(&p, state, &b, &everything,
		       "kernel s20 485 us, gap 0 own 2\nevent_record s20 #0\n"
		       "event_wait s21 #0, gap 3 own 1\nevent_record s21 #0\n"
		       "event_wait s8 #0, gap 5 own 2\nkernel s8 19 us\n");
	planned_release(&b);
}

/* What is captured is not launched; the graph is launched twice, once with a slower node. */
static void graphs_are_rebuilt(void **state)
{
	struct made p = make(state);
	struct planned b;

	call(&p, MAKER_BEGIN_CAPTURE, 1, 2, 20, 0);
	maker_call(p.m, MAKER_LAUNCH, 1, 3 * US, 4 * US, 77);
	call(&p, MAKER_END_CAPTURE, 5, 6, 20, 0);
	maker_graph_edge(p.m, 1, 2, 5 * US); /* 1 -> 2, 1 -> 3, 2 and 3 -> 4 */
	maker_graph_edge(p.m, 1, 3, 5 * US);
	maker_graph_edge(p.m, 2, 4, 5 * US);
	maker_graph_edge(p.m, 3, 4, 5 * US);
	for (unsigned k = 0; k < 2; k++) {
		uint64_t us = 100 + 100 * k;

		maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, us * US, (us + 5) * US, 10 + k);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 10) * US, (us + 20 + 10 * k) * US,
				   10 + k, 5, 1);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 31 + k) * US, (us + 40) * US, 10 + k, 5,
				   2);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 32 - k) * US, (us + 50) * US, 10 + k, 5,
				   3);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 51) * US, (us + 60) * US, 10 + k, 5, 4);
	}
	assert_planned(&p, state, &b, &everything,
		       "graph s20 #0, gap 0 own 5\ngraph s20 #0, gap 95 own 5\n");
	assert_int_equal(b.plan.graphs.count, 1);
	assert_int_equal(b.plan.graphs.data[0].node_count, 4);
	assert_int_equal(b.plan.graphs.data[0].launches, 2);
	assert_int_equal(b.plan.nodes.data[0].work.duration_ns, 15 * US);
	assert_int_equal(b.plan.nodes.data[1].first_edge, 0);
	assert_int_equal(b.plan.nodes.data[4].first_edge, 4);
	assert_int_equal(b.plan.edges.data[0], 0);
	assert_int_equal(b.plan.edges.data[1], 0);
	assert_int_equal(b.plan.edges.data[2] + b.plan.edges.data[3], 1 + 2);
	assert_int_equal(b.plan.streams.data[0].kernels, 8);
	assert_int_equal(b.plan.graph_latency_ns, b.causes.typical_ns[EDGE_graph]);
	assert_true(b.plan.graph_latency_ns > 0);
	assert_int_equal(b.plan.substituted[SUBSTITUTION_ordered_graphs], 0);
	planned_release(&b);
}

/* Without dependencies: one after the other. Another set of nodes is another graph. */
static void graphs_without_edges_are_chains(void **state)
{
	struct made p = make(state);
	struct planned b;

	for (unsigned k = 0; k < 3; k++) {
		uint64_t us = 100 + 100 * k;

		maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, us * US, (us + 5) * US, 10 + k);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 10) * US, (us + 20) * US, 10 + k, 5, 1);
		maker_graph_kernel(p.m, p.kernel, 20, (us + 30) * US, (us + 40) * US, 10 + k, 5,
				   k == 1 ? 3 : 2);
	}
	assert_planned(&p, state, &b, &everything,
		       "graph s20 #0, gap 0 own 5\ngraph s20 #1, gap 95 own 5\n"
		       "graph s20 #0, gap 95 own 5\n");
	assert_int_equal(b.plan.substituted[SUBSTITUTION_ordered_graphs], 3);
	assert_int_equal(b.plan.nodes.data[1].first_edge, 0);
	assert_int_equal(b.plan.nodes.data[2].first_edge, 1);
	assert_int_equal(b.plan.edges.data[0], 0);
	planned_release(&b);
}

static void parts(void **state)
{
	struct made p = make(state);
	struct planned b;
	struct replay_options window = ALL, numbers = ALL, stream = ALL;
	struct error e = { 0 };

	launch(&p, 1, 20, 1, 10, 15, 500);
	call(&p, MAKER_EVENT_RECORD, 13, 14, 20, 0xe);
	call(&p, MAKER_STREAM_WAIT, 15, 16, 21, 0xe);
	launch(&p, 1, 21, 2, 20, 501, 520);
	launch(&p, 1, 20, 3, 30, 502, 600);
	launch(&p, 1, 8, 4, 40, 45, 50);
	window.since_ns = 25 * US;
	window.until_ns = 35 * US;
	assert_planned(&p, state, &b, &window,
		       "kernel s20 475 us\nkernel s21 19 us\nkernel s20 98 us, gap 5 own 2\n");
	assert_int_equal(b.plan.substituted[SUBSTITUTION_in_flight], 2);
	assert_int_equal(b.plan.skipped[SKIP_window], 1);
	assert_int_equal(b.plan.start_ns, 25 * US);
	assert_int_equal(b.plan.simulated_ns, 0);
	planned_release(&b);

	numbers.first_op = 2;
	numbers.last_op = 3;
	assert_planned(&p, state, &b, &numbers,
		       "kernel s21 19 us, gap 0 own 2\nkernel s20 98 us, gap 8 own 2\n");
	assert_int_equal(b.plan.skipped[SKIP_numbers], 2);
	assert_int_equal(b.plan.skipped[SKIP_waits], 1);
	planned_release(&b);

	stream.streams[stream.stream_count++] = 21;
	stream.streams[stream.stream_count++] = 8;
	assert_planned(&p, state, &b, &stream,
		       "kernel s21 19 us, gap 0 own 2\nkernel s8 5 us, gap 18 own 2\n");
	assert_int_equal(b.plan.skipped[SKIP_streams], 2);
	planned_release(&b);

	numbers.first_op = numbers.last_op = 9;
	assert_int_equal(plan_of(&b, *state, &numbers, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "select none of the 4 operations"));
	planned_release(&b);
	window.process = 4;
	assert_int_equal(plan_of(&b, *state, &window, &e), E_USAGE);
	planned_release(&b);
}

/* A blocking copy, one that is not, a host function, and kernels without calls or end. */
static void what_is_special(void **state)
{
	struct made p = make(state);
	struct planned b;

	maker_call(p.m, MAKER_MEMCPY_BLOCKING, 1, 10 * US, 52 * US, 1);
	writer_append(p.m->writer, TABLE_memcpy,
		      &(struct row_memcpy){ .start_ns = 20 * US,
					    .end_ns = 50 * US,
					    .bytes = 64,
					    .kind = copy_kind_DtoH,
					    .source_kind = memory_kind_device,
					    .destination_kind = memory_kind_pageable,
					    .correlation = 1,
					    .context = 1,
					    .stream = 20 });
	maker_call(p.m, MAKER_MEMCPY, 1, 60 * US, 62 * US, 2);
	maker_memcpy(p.m, copy_kind_AtoD, 64, 20, 70 * US, 80 * US, 2);
	call(&p, MAKER_HOST_FUNCTION, 64, 65, 20, 0);
	launch(&p, 1, 20, 3, 66, 181, 190);
	maker_kernel(p.m, p.kernel, 20, 200 * US, 210 * US, 99);
	maker_kernel(p.m, p.kernel, 20, 220 * US, 0, 98);
	launch(&p, 1, 20, 4, 230, 240, 20000240);
	assert_planned(&p, state, &b, &everything,
		       "memcpy s20 64 B 30 us, gap 0 own 2, waits\n"
		       "memcpy s20 64 B 10 us, gap 8 own 2\n"
		       "host_function s20 101 us, gap 4 own 2\nkernel s20 9 us\n"
		       "kernel s20 10 us, gap 132 own 0\n"
		       "kernel s20 10000000 us, gap 30 own 2\n");
	assert_int_equal(b.plan.substituted[SUBSTITUTION_copy_kinds], 1);
	assert_int_equal(b.plan.substituted[SUBSTITUTION_unlaunched], 1);
	assert_int_equal(b.plan.substituted[SUBSTITUTION_long_kernels], 1);
	assert_int_equal(b.plan.skipped[SKIP_untimed], 1);
	assert_true(b.plan.ops.data[0].work.flags & OP_PAGEABLE);
	assert_int_equal(b.plan.ops.data[1].work.copy_kind, copy_kind_DtoD);
	planned_release(&b);
}

/* A call that waited for a place in the launch queue waits there again, not for its stream. */
static void a_full_queue(void **state)
{
	struct made p = make(state);
	struct planned b;
	uint64_t now_us = 10, gpu_us = 15;

	for (uint64_t i = 0; i < 300; i++) {
		uint64_t return_us = MAX(now_us + 2, i > 70 ? 16 + 20 * (i - 70) : 0);

		maker_call(p.m, MAKER_LAUNCH, 1, now_us * US, return_us * US, i + 1);
		maker_kernel(p.m, p.kernel, 20, gpu_us * US, (gpu_us + 20) * US, i + 1);
		now_us = return_us;
		gpu_us += 20;
	}
	maker_close(p.m, 100000 * US);
	assert_int_equal(plan_of(&b, *state, &everything, NULL), 0);
	for (size_t i = 100; i < 300; i++) {
		assert_int_equal(b.plan.ops.data[i].work.flags, OP_FIRST | OP_QUEUED);
		assert_int_equal(b.plan.ops.data[i].own_ns, US);
	}
	planned_release(&b);
}

/* Threads whose calls overlap have a thread each; events in use by one are not used again. */
static void threads_side_by_side(void **state)
{
	struct made p = make(state);
	struct planned b;

	for (unsigned i = 0; i < 20; i++) {
		launch(&p, 1, 20, 100 + i, 10 + 10 * i, 14 + 10 * i, 15 + 10 * i);
		launch(&p, 2, 21, 200 + i, 11 + 10 * i, 16 + 10 * i, 17 + 10 * i);
	}
	maker_close(p.m, 100000 * US);
	assert_int_equal(plan_of(&b, *state, &everything, NULL), 0);
	assert_int_equal(b.plan.threads, 2);
	assert_int_equal(b.plan.ops.count, 40);
	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(b.plan.ops.data[i].thread, i % 2);
		assert_int_equal(b.plan.ops.data[i].gap_ns, i == 0 ? 0 : i == 1 ? US : 8 * US);
	}
	planned_release(&b);
}

/* A second process with less work is counted, and can be asked for. */
static void processes(void **state)
{
	struct made p = make(state);
	struct replay_options second = ALL;
	struct planned b;
	struct maker *other;

	launch(&p, 1, 7, 1, 10, 15, 100);
	other = maker_begin(*state, 200, 0, "./other");
	maker_device(other, 0, 0);
	maker_call(other, MAKER_LAUNCH, 1, 20 * US, 22 * US, 1);
	maker_kernel(other, maker_config(other, "k", 1, 1), 7, 25 * US, 30 * US, 1);
	maker_close(other, 100000 * US);
	maker_call(p.m, MAKER_DEVICE_SYNCHRONIZE, 1, 150 * US, 151 * US, 9);
	assert_planned(
		&p, state, &b, &everything,
		"kernel s7 85 us, gap 0 own 2\ndevice_synchronize s7, gap 138 own 1, waits\n");
	assert_int_equal(b.plan.skipped[SKIP_processes], 1);
	assert_int_equal(b.plan.end_ns - b.plan.start_ns, 141 * US);
	assert_int_equal(b.plan.simulated_ns, 141 * US); /* also what follows the last work */
	planned_release(&b);
	second.process = 200;
	assert_planned(&p, state, &b, &second, "kernel s7 5 us, gap 0 own 2\n");
	planned_release(&b);
}

/* --- any recording --- */

#define RANDOM_RECORDINGS 150u

static uint64_t seed;

static uint64_t any(uint64_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % below;
}

/* Times in any order, ids that return, graphs with circles, calls without work and work without. */
static void add_anything(struct made *p, uint64_t i)
{
	static const enum maker_function functions[] = {
		MAKER_STREAM_SYNCHRONIZE, MAKER_EVENT_RECORD,      MAKER_DEVICE_SYNCHRONIZE,
		MAKER_STREAM_WAIT,        MAKER_EVENT_SYNCHRONIZE, MAKER_HOST_FUNCTION,
		MAKER_BEGIN_CAPTURE,      MAKER_END_CAPTURE,
	};
	static const uint32_t streams[] = { 7, 8, 20, 21, 99 };
	uint32_t stream = streams[any(5)], thread = 1 + (uint32_t)any(2);
	uint64_t now = (20 * i + any(30)) * US, begin = now + any(300) * US,
		 end = begin + any(200) * US, id = 1 + any(60);

	switch (any(8)) {
	case 0:
		maker_graph_edge(p->m, 1 + any(6), 1 + any(6), now);
		return;
	case 1:
		maker_call(p->m, MAKER_GRAPH_LAUNCH, thread, now, now + any(9) * US, id);
		for (uint64_t n = any(6); n > 0; n--)
			maker_graph_kernel(p->m, p->kernel, stream, begin + any(90) * US,
					   end + 90 * US, id, 5, any(7));
		return;
	case 2:
		maker_call(p->m, MAKER_MEMCPY, thread, now, now + any(400) * US, id);
		maker_memcpy(p->m, (enum copy_kind)any(11), any(5000), stream, begin, end, id);
		return;
	case 3:
	case 4:
	case 5:
		maker_stream_call(p->m, functions[any(8)], thread, now, now + any(400) * US,
				  any(9) ? stream : 0, any(9) ? 0xe0 + any(3) : 0);
		return;
	default:
		if (any(9))
			maker_call(p->m, any(9) ? MAKER_LAUNCH : MAKER_GRAPH_LAUNCH, thread, now,
				   now + any(9) * US, id);
		maker_kernel(p->m, p->kernel, stream, any(20) ? begin : 0, end, id);
	}
}

static void assert_graphs(const struct replay_plan *p)
{
	for (size_t g = 0; g < p->graphs.count; g++) {
		const struct replay_node *nodes = p->nodes.data + p->graphs.data[g].first_node;

		assert_true(p->graphs.data[g].stream < p->streams.count);
		assert_true(p->graphs.data[g].launches > 0);
		for (uint32_t n = 0; n < p->graphs.data[g].node_count; n++) {
			assert_true(nodes[n].first_edge <= nodes[n + 1].first_edge);
			for (uint32_t e = nodes[n].first_edge; e < nodes[n + 1].first_edge; e++)
				assert_true(p->edges.data[e] < n);
		}
	}
}

/* Whoever waits for an event does so after it was recorded; each number means something. */
static void assert_sound(const struct planned *b)
{
	const struct replay_plan *p = &b->plan;
	uint64_t work = 0, tasks = 0, counts[REPLAY_KIND_COUNT] = { 0 };
	uint8_t recorded[4096] = { 0 };

	for (size_t i = 0; i < p->ops.count; i++) {
		const struct replay_op *op = &p->ops.data[i];

		counts[op->work.kind]++;
		assert_true(op->stream < p->streams.count && op->thread < p->threads);
		assert_true(op->gap_ns + op->own_ns <= 100000 * US);
		if (op->work.kind == REPLAY_event_record)
			recorded[op->work.item] = 1;
		if (op->work.kind == REPLAY_event_wait || op->work.kind == REPLAY_event_synchronize)
			assert_true(op->work.item < p->events && recorded[op->work.item]);
		if (op->work.kind == REPLAY_graph)
			assert_true(op->work.item < p->graphs.count);
		if (op->work.kind == REPLAY_kernel)
			assert_true(op->work.item < p->shapes.count);
	}
	assert_memory_equal(counts, p->counts, sizeof(counts));
	for (size_t i = 0; i < p->streams.count; i++)
		work += p->streams.data[i].operations;
	for (size_t i = 0; i < causes_task_count(&b->causes); i++)
		tasks += task_is_work(&b->causes.tasks.data[i]);
	assert_int_equal(work + p->skipped[SKIP_window] + p->skipped[SKIP_numbers] +
				 p->skipped[SKIP_streams],
			 tasks);
	assert_true(p->end_ns >= p->start_ns);
	assert_graphs(p);
}

static void any_recording(void **state)
{
	for (uint64_t number = 0; number < RANDOM_RECORDINGS; number++) {
		struct replay_options o = ALL;
		struct error e = { 0 };
		char folder[4096];
		void *path = folder;
		struct planned b;
		struct made p;
		int rc;

		seed = number;
		snprintf(folder, sizeof(folder), "%s/%u", (const char *)*state, (unsigned)number);
		p = make(&path);
		for (uint64_t i = 0; i < 20 + number; i++)
			add_anything(&p, i);
		maker_close(p.m, 100000 * US);
		if (number % 3 == 1)
			o.since_ns = any(2000) * US;
		if (number % 5 == 1)
			o.until_ns = o.since_ns + (1 + any(2000)) * US;
		if (number % 7 == 1)
			o.last_op = (o.first_op = 1 + any(9)) + any(30);
		if (number % 4 == 1)
			o.streams[o.stream_count++] = 20;
		rc = plan_of(&b, folder, &o, &e);
		if (rc == 0)
			assert_sound(&b);
		else
			assert_int_equal(rc, E_UNSUPPORTED);
		planned_release(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(calls_keep_their_pace),
		folder_test(streams_are_as_recorded),
		folder_test(events_follow_the_latest_record),
		folder_test(an_idle_stream_passes_an_event_on),
		folder_test(graphs_are_rebuilt),
		folder_test(graphs_without_edges_are_chains),
		folder_test(parts),
		folder_test(what_is_special),
		folder_test(a_full_queue),
		folder_test(threads_side_by_side),
		folder_test(processes),
		folder_test(any_recording),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
