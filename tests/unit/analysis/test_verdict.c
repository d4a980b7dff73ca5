#include "analysis/verdict.h"

#include <sys/stat.h>

#include <string.h>

#include "base/clock.h"
#include "report_fixture.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* A thread and its GPUs: calls take time, and work starts when its stream and its call allow it. */
struct play {
	struct maker *m;
	uint32_t kernel, thread;
	uint64_t now, correlation;
	uint64_t free_ns[64]; /* by stream: the end of its last work */
	uint64_t step;
};

/* An H200 with blocking streams 7, the default one, and 8, and non-blocking ones 20 and 21. */
static void play_begin(struct play *p, const char *folder)
{
	struct row_stream apart = { .context = 1, .non_blocking = 1 };

	*p = (struct play){ .m = begin(folder, 100), .thread = 10, .now = 100 * US };
	maker_stream(p->m, 8, 0);
	for (apart.id = 20; apart.id < 22; apart.id++)
		writer_append(p->m->writer, TABLE_stream, &apart);
	p->kernel = maker_config(p->m, "k", 1, 32);
}

static uint64_t call_for(struct play *p, enum maker_function function, uint64_t ns)
{
	maker_call(p->m, function, p->thread, p->now, p->now + ns, ++p->correlation);
	p->now += ns;
	return p->now - ns;
}

static void about(struct play *p, enum maker_function function, uint32_t stream, uint64_t event)
{
	maker_stream_call(p->m, function, p->thread, p->now, p->now + US, stream, event);
	p->now += US;
}

/* Work on a stream, launched at `called` and not before `ready`. */
static void work_from(struct play *p, uint32_t stream, uint64_t called, uint64_t ready, uint64_t ns)
{
	uint64_t start = MAX(called + 4 * US, MAX(p->free_ns[stream] + US, ready));

	maker_kernel(p->m, p->kernel, stream, start, start + ns, p->correlation);
	p->free_ns[stream] = start + ns;
}

static void launch_on(struct play *p, uint32_t stream, uint64_t ready, uint64_t ns)
{
	work_from(p, stream, call_for(p, MAKER_LAUNCH, 2 * US), ready, ns);
}

static void run_kernel(struct play *p, uint64_t ns)
{
	launch_on(p, 7, 0, ns);
}

static void synchronize(struct play *p)
{
	call_for(p, MAKER_DEVICE_SYNCHRONIZE,
		 MAX(US, p->free_ns[7] + 5 * US - MIN(p->free_ns[7] + 4 * US, p->now)));
}

typedef void step_function(struct play *p);

static void launch_bound(struct play *p)
{
	run_kernel(p, 2 * US);
	p->now += 3 * US;
}

static void gpu_bound(struct play *p)
{
	run_kernel(p, 20 * US);
	p->now += 3 * US;
}

/* The call returns 3 us after its copy. */
static void copy_bound(struct play *p)
{
	uint64_t start = MAX(p->now, p->free_ns[7]) + 5 * US, called = p->now;

	call_for(p, MAKER_MEMCPY_BLOCKING, start + 203 * US - called);
	maker_memcpy(p->m, copy_kind_HtoD, 1 << 20, 7, start, start + 200 * US, p->correlation);
	p->free_ns[7] = start + 200 * US;
	run_kernel(p, 20 * US);
}

/* The host waits for each kernel, before it does the little that it has to do. */
static void sync_bound(struct play *p)
{
	run_kernel(p, 10 * US);
	synchronize(p);
	p->now += 3 * US;
}

/* The host waits for each kernel, too, but what it does then takes longer by far. */
static void host_bound_with_synchronization(struct play *p)
{
	run_kernel(p, 50 * US);
	synchronize(p);
	p->now += 200 * US;
}

/* Kernels on two streams wait for each other by events, and each takes 6 us to begin. */
static void event_wait(struct play *p)
{
	uint32_t stream = 20 + p->step % 2, other = 20 + !(p->step % 2);

	about(p, MAKER_STREAM_WAIT, stream, 0xe0 + other);
	launch_on(p, stream, p->free_ns[other] + 6 * US, 4 * US);
	about(p, MAKER_EVENT_RECORD, stream, 0xe0 + stream);
}

static void default_stream(struct play *p)
{
	uint32_t stream = 7 + p->step % 2, other = 7 + !(p->step % 2);

	launch_on(p, stream, p->free_ns[other] + US, 50 * US);
}

/* The same on streams that have nothing to do with each other but their hardware queue. */
static void false_dependency(struct play *p)
{
	uint32_t stream = 20 + p->step % 2, other = 20 + !(p->step % 2);

	launch_on(p, stream, p->free_ns[other] + US, 50 * US);
}

static void allocation(struct play *p)
{
	call_for(p, MAKER_MALLOC, 300 * US);
	run_kernel(p, 20 * US);
	p->now += 100 * US;
	call_for(p, MAKER_FREE, 200 * US);
}

/* `ns` of Python at a line, by samples of a millisecond, or off the CPU. */
static void host_at(struct play *p, const char *function, uint64_t ns, bool off)
{
	uint32_t stack = maker_stack(p->m, maker_python(p->m, 0, function, "/x.py", 7), 1,
				     stack_end_complete);

	if (off) { /* two sessions saw it */
		maker_off_cpu(p->m, p->thread, p->now + 5 * US, p->now + ns / 2,
			      off_cpu_state_sleeping, stack);
		maker_off_cpu(p->m, p->thread, p->now + ns / 3, p->now + ns - 5 * US,
			      off_cpu_state_sleeping, stack);
	}
	for (uint64_t at = off ? US : MS / 2; at < ns; at += off ? ns : MS)
		maker_cpu_sample(p->m, p->thread, p->now + at, off ? US : MS, stack);
	p->now += ns;
}

static void data_loading(struct play *p)
{
	host_at(p, "DataLoader.__next__", 5 * MS, false);
	for (unsigned i = 0; i < 20; i++)
		run_kernel(p, 50 * US);
}

static void python_computing(struct play *p)
{
	host_at(p, "tokenize", 2 * MS, false);
	run_kernel(p, 50 * US);
}

static void off_cpu(struct play *p)
{
	host_at(p, "Lock.acquire", 2 * MS, true);
	run_kernel(p, 50 * US);
}

/* Thread 10 launches ten kernels, then thread 11, and so on. */
static void autograd(struct play *p)
{
	p->thread = 10 + p->step / 10 % 2;
	launch_bound(p);
	p->now += p->step % 10 == 9 ? 40 * US : 0;
}

/* A graph of twenty short nodes; its launches are far ahead. */
static void graph(struct play *p)
{
	uint64_t called = call_for(p, MAKER_GRAPH_LAUNCH, 10 * US),
		 at = MAX(called + 8 * US, p->free_ns[7] + 2 * US);

	for (uint64_t node = 1; node <= 20; node++, at += 5 * US)
		maker_graph_kernel(p->m, p->kernel, 7, at, at + 2 * US, p->correlation, 3, node);
	p->free_ns[7] = at - 3 * US;
}

/* Without recording its nodes, the launch takes 2 us. */
static void recorded_nodes(struct play *p)
{
	uint64_t called = call_for(p, MAKER_GRAPH_LAUNCH, 150 * US),
		 at = MAX(called + 130 * US, p->free_ns[7] + US);

	for (uint64_t node = 1; node <= 96; node++, at += US)
		maker_graph_kernel(p->m, p->kernel, 7, at, at + US / 2, p->correlation, 3, node);
	p->free_ns[7] = at;
	p->now += 3 * US;
}

/* The same for a graph of three nodes, for which recording is not the reason. */
static void slow_launches_of_graphs(struct play *p)
{
	uint64_t at = call_for(p, MAKER_GRAPH_LAUNCH, 300 * US) + 290 * US;

	for (uint64_t node = 1; node <= 3; node++, at += US)
		maker_graph_kernel(p->m, p->kernel, 7, at, at + US / 2, p->correlation, 3, node);
	p->now += 3 * US;
}

static void pause_of_a_second(struct play *p)
{
	launch_bound(p);
	p->now += p->step == 50 ? 1000 * MS : 0;
}

/* Two GPUs work in turns: none is busy for more than three quarters of the time. */
static void two_gpus(struct play *p)
{
	uint32_t other = p->step % 2;

	p->m->device = p->step % 2;
	p->m->context = 1 + p->m->device;
	about(p, MAKER_STREAM_WAIT, 20 + p->m->device, 0xe0 + !other);
	launch_on(p, 20 + p->m->device, p->free_ns[20 + !other] + 2 * US,
		  (p->m->device ? 60 : 20) * US);
	about(p, MAKER_EVENT_RECORD, 20 + p->m->device, 0xe0 + other);
}

/* So short that the next launch has always returned before the kernel ends. */
static void tiny_kernels(struct play *p)
{
	uint64_t called = call_for(p, MAKER_LAUNCH, 2400);

	maker_kernel(p->m, p->kernel, 7, called + 6 * US, called + 7 * US, p->correlation);
	p->now += 100;
}

static void host_function(struct play *p)
{
	run_kernel(p, 20 * US);
	about(p, MAKER_HOST_FUNCTION, 7, 0);
	p->free_ns[7] += 300 * US;
}

#define QUEUE 1024

/* Each launch returns when the kernel of 1,024 launches before has begun. */
static void full_queue(struct play *p)
{
	static uint64_t starts[QUEUE];
	uint64_t *slot = &starts[p->step % QUEUE], called, was_ns = p->step > QUEUE ? *slot : 0;

	called = call_for(p, MAKER_LAUNCH, was_ns > p->now + US ? was_ns + US - p->now : 2 * US);
	work_from(p, 7, called, 0, 10 * US);
	*slot = p->free_ns[7] - 10 * US;
}

/* Of the launches in the middle no calls were recorded. */
static void loss_in_the_middle(struct play *p)
{
	bool is_lost = p->step > 20 && p->step < 180;

	p->correlation += is_lost;
	if (!is_lost)
		launch_bound(p);
	else
		work_from(p, 7, p->now, 0, 2 * US);
	p->now += is_lost ? 500 * US : 0;
}

/* No calls were recorded at all, as in traces of some other tools. */
static void without_calls(struct play *p)
{
	p->correlation++;
	work_from(p, 7, p->now, 0, 50 * US);
	p->now += 5 * MS;
}

/* All was launched long before; the GPU takes 6 us between kernels of 4 us. */
static void far_ahead(struct play *p)
{
	launch_on(p, 7, p->free_ns[7] + 6 * US, 4 * US);
}

static void slow_launch_calls(struct play *p)
{
	uint64_t called = call_for(p, MAKER_LAUNCH, MS);

	maker_kernel(p->m, p->kernel, 7, called + MS, called + MS + 2 * US, p->correlation);
	p->now += 10 * US;
}

/* A launch every 55 us, and kernels of 50 us: neither would gain much without the other. */
static void balanced(struct play *p)
{
	run_kernel(p, 50 * US);
	p->now += 53 * US;
}

/* Two seconds of work, each 250 ms a gap of 150 ms: that is how it runs, and no pause. */
static void regular_gaps(struct play *p)
{
	run_kernel(p, 100 * MS);
	p->now += 248 * MS;
}

/* Queries every 20 us until the stream's work is over. With `recorded`, as Pitot records them. */
static void poll(struct play *p, bool recorded)
{
	uint64_t start = p->now;

	for (; p->now <= p->free_ns[7]; p->now += 20 * US) {
		p->m->result = 600;
		if (!recorded)
			maker_stream_call(p->m, MAKER_EVENT_QUERY, p->thread, p->now, p->now + US,
					  0, 0xe);
	}
	p->m->result = 0;
	maker_stream_call(p->m, MAKER_EVENT_QUERY, p->thread, recorded ? start : p->now,
			  p->now + US, 0, 0xe);
	p->now += US;
}

static void kernel_and_event(struct play *p, uint64_t ns)
{
	run_kernel(p, ns);
	about(p, MAKER_EVENT_RECORD, 7, 0xe);
}

static void poller_of_long_kernels(struct play *p)
{
	kernel_and_event(p, MS);
	poll(p, p->step % 2);
	p->now += 3 * US;
}

static void poller_of_short_kernels(struct play *p)
{
	kernel_and_event(p, 8 * US);
	poll(p, p->step % 2);
	p->now += 3 * US;
}

/* What it does is to be done anyway: of 760 us the kernel takes 400 us. */
static void works_between_queries(struct play *p)
{
	kernel_and_event(p, 400 * US);
	for (unsigned i = 0; i < 3; i++) {
		p->now += 250 * US;
		p->m->result = p->now < p->free_ns[7] ? 600 : 0;
		maker_stream_call(p->m, MAKER_EVENT_QUERY, p->thread, p->now, p->now + US, 0, 0xe);
	}
	p->m->result = 0;
}

#define BOUND(kind) (VERDICT_BOUND + BOUND_##kind)

/* A program, and the one right answer. */
static const struct {
	step_function *step;
	unsigned steps, kind;
	const char *evidence; /* part of the sentence; NULL: any */
	const char *line; /* at which the host was for longest */
} programs[] = {
	{ launch_bound, 200, BOUND(LAUNCH), "(200 launches, 2.00 us of host time per call)", NULL },
	{ gpu_bound, 200, BOUND(GPU), "are kernels", NULL },
	{ copy_bound, 100, BOUND(COPY), "are copies", NULL },
	{ sync_bound, 100, BOUND(SYNC), "(100 synchronizing calls)", NULL },
	{ host_bound_with_synchronization, 100, BOUND(HOST), NULL, NULL },
	{ event_wait, 200, BOUND(LATENCY), "most of it: wait for an event", NULL },
	{ default_stream, 200, BOUND(DEFAULT_STREAM), NULL, NULL },
	{ false_dependency, 200, BOUND(FALSE_DEPENDENCY), NULL, NULL },
	{ allocation, 100, BOUND(MEMORY), NULL, NULL },
	{ data_loading, 30, BOUND(HOST), NULL, "DataLoader.__next__" },
	{ python_computing, 30, BOUND(HOST), NULL, "tokenize" },
	{ off_cpu, 30, BOUND(OFF_CPU), NULL, "Lock.acquire" },
	{ autograd, 200, BOUND(LAUNCH), NULL, NULL },
	{ graph, 50, BOUND(LATENCY), "most of it: graph node before (assumed)", NULL },
	{ recorded_nodes, 50, BOUND(NODES), "an estimate", NULL },
	{ slow_launches_of_graphs, 50, BOUND(CALL), NULL, NULL },
	{ pause_of_a_second, 200, BOUND(LAUNCH), "excluding one pause of 1.00 s", NULL },
	{ two_gpus, 200, BOUND(GPU), "GPU 1 utilization 71.", NULL },
	{ tiny_kernels, 200, BOUND(LAUNCH), NULL, NULL },
	{ host_function, 100, BOUND(HOST_FUNCTION), NULL, NULL },
	{ full_queue, 3000, BOUND(GPU), NULL, NULL },
	{ loss_in_the_middle, 200, BOUND(UNKNOWN), NULL, NULL },
	{ without_calls, 100, BOUND(UNKNOWN), NULL, NULL },
	{ far_ahead, 200, BOUND(LATENCY), "most of it: work before on the stream", NULL },
	{ slow_launch_calls, 100, BOUND(CALL), NULL, NULL },
	{ balanced, 200, VERDICT_UNDECIDED, "both limit the pace alike", NULL },
	{ regular_gaps, 20, BOUND(HOST), NULL, NULL },
	{ poller_of_long_kernels, 50, BOUND(GPU), "GPU 0 utilization 9", NULL },
	{ poller_of_short_kernels, 100, BOUND(SYNC), NULL, NULL },
	{ works_between_queries, 100, BOUND(HOST), NULL, NULL },
};

static void check_line(const struct report *r, const char *line)
{
	struct strbuf text = STRBUF_INIT;

	if (line) {
		caller_text(&r->callers, r->idle_lines->items[0].caller, CALLER_NONE, &text);
		if (!strstr(strbuf_text(&text), line))
			fail_msg("%s instead of %s", strbuf_text(&text), line);
	}
	strbuf_release(&text);
}

/* From the first to the last work on any GPU. */
static uint64_t work_span(const struct report *r)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	for (size_t i = 0; i < r->busy->count; i++) {
		first_ns = MIN(first_ns, r->busy->gpus[i].first_ns);
		last_ns = MAX(last_ns, r->busy->gpus[i].last_ns);
	}
	return last_ns - first_ns;
}

static void one_right_answer_each(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		struct strbuf folder = STRBUF_INIT, text = STRBUF_INIT;
		const struct verdict *v;
		uint64_t sum = 0;
		struct analyzed a;
		struct play p;

		strbuf_addf(&folder, "%s/%zu", (const char *)*state, i);
		assert_int_equal(mkdir(strbuf_text(&folder), 0700), 0);
		play_begin(&p, strbuf_text(&folder));
		if (programs[i].step == two_gpus) {
			maker_device(p.m, 1, 0);
			maker_context(p.m, 2, 1, 0);
		}
		for (p.step = 1; p.step <= programs[i].steps; p.step++)
			programs[i].step(&p);
		maker_close(p.m, MAX(p.now, p.free_ns[7]) + 10 * MS);
		analyze(&a, strbuf_text(&folder), EVERYTHING);
		v = &a.report.verdicts->whole;
		verdict_sentence(v, &text);
		for (unsigned k = 0; k < BOUNDS; k++)
			sum += v->bounds.sums[k].ns;
		assert_int_equal(sum + v->pause_ns, work_span(&a.report));
		if (v->kind != programs[i].kind ||
		    (programs[i].evidence && !strstr(strbuf_text(&text), programs[i].evidence)))
			fail_msg("program %zu: %s, %s", i, verdict_name(v->kind),
				 strbuf_text(&text));
		check_line(&a.report, programs[i].line);
		if (programs[i].step == two_gpus)
			assert_int_equal(v->work, programs[i].steps);
		strbuf_release(&text);
		strbuf_release(&folder);
		analyzed_release(&a);
	}
}

static void check(const char *folder, step_function *step, unsigned steps, unsigned expected,
		  const char *evidence, struct analyzed *a)
{
	struct strbuf text = STRBUF_INIT;
	struct play p;

	play_begin(&p, folder);
	for (p.step = 1; p.step <= steps; p.step++)
		step(&p);
	maker_close(p.m, p.now);
	analyze(a, folder, EVERYTHING);
	assert_string_equal(verdict_name(a->report.verdicts->whole.kind), verdict_name(expected));
	verdict_sentence(&a->report.verdicts->whole, &text);
	assert_non_null(strstr(strbuf_text(&text), evidence));
	strbuf_release(&text);
}

/* Launches every 6 us, kernels of 2 us, 4 us after the call began. */
static uint64_t one_by_one(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 6000, n);
	return now + 6000;
}

/* 5 ms of other things between launches that nobody waits for. */
static uint64_t slow_host(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 50000, n);
	return now + 5000000;
}

/* Ten steps as slow_host, then one_by_one. */
static uint64_t slow_start(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	return n <= 10 ? slow_host(m, kernel, now, n) : one_by_one(m, kernel, now, n);
}

static void a_slow_start_is_told_apart(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct analyzed a;
	uint64_t now = 1000, later = 0;

	for (uint64_t n = 1; n <= 100; n++) {
		if (n == 11)
			later = now + 4000;
		now = slow_start(m, kernel, now, n);
	}
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.verdicts->whole.kind, BOUND(HOST));
	assert_int_equal(a.report.verdicts->whole.start_up.pieces, 10);
	assert_int_equal(a.report.verdicts->whole.start_up.end_ns, later);
	assert_int_equal(a.report.verdicts->whole.pieces, 100);
	assert_int_equal(a.report.verdicts->later.kind, BOUND(LAUNCH));
	assert_int_equal(a.report.verdicts->later.bounds.span_ns, 89 * 6000 + 2000);
	analyzed_release(&a);
}

/* The program waits for each graph. What recording the next one takes is no synchronization's. */
static void recorded_nodes_are_pitots(void **state)
{
	const struct bound_sum *sums;
	struct analyzed a;
	struct play p;

	play_begin(&p, *state);
	for (p.step = 1; p.step <= 50; p.step++) {
		uint64_t at = call_for(&p, MAKER_GRAPH_LAUNCH, 100 * US) + 90 * US;

		for (uint64_t node = 1; node <= 60; node++, at += 10 * US)
			maker_graph_kernel(p.m, p.kernel, 7, at, at + 9 * US, p.correlation, 3,
					   node);
		p.free_ns[7] = at;
		synchronize(&p);
	}
	maker_close(p.m, p.now);
	analyze(&a, *state, EVERYTHING);
	sums = a.report.verdicts->whole.bounds.sums;
	assert_int_equal(a.report.verdicts->whole.kind, BOUND(GPU));
	/* Of the calls but for the first one, until the first node: 4.6 us and 1.48 us a node. */
	assert_in_range(sums[BOUND_NODES].ns, 49 * 83 * US, 49 * 86 * US);
	assert_in_range(sums[BOUND_SYNC].ns, 0, 49 * 12 * US);
	analyzed_release(&a);
}

/*
 * One after the other, with two pauses and eleven shorter gaps: the second pause is a fifth only of
 * what the first one leaves. Both are left out of all figures.
 */
static void two_pauses_are_left_out(void **state)
{
	const uint64_t first = 2000000000, second = 700000000, gap = 100000000;
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	uint64_t now = 1000, span = 100 * 6000 - 4000 + first + second + 11 * gap, parts;
	const struct verdict *v;
	struct analyzed a;

	m->stack = maker_stack(m, maker_python(m, 0, "step", "/x.py", 7), 1, stack_end_complete);
	for (uint64_t n = 1; n <= 100; n++) {
		now = one_by_one(m, kernel, now, n);
		now += n == 30 ? first : n == 50 ? second : n >= 60 && n < 71 ? gap : 0;
	}
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	assert_int_equal(v->pauses, 2);
	assert_int_equal(v->pause_ns, first + second + 2 * 4000);
	assert_int_equal(v->bounds.span_ns, span - v->pause_ns);
	assert_int_equal(v->busy_ns, 100 * 2000);
	parts = v->bounds.span_ns - v->busy_ns;
	assert_int_equal(v->kind, BOUND(HOST));
	assert_int_equal(a.report.idle_lines->gaps, 97);
	assert_int_equal(a.report.idle_lines->gaps_ns, parts);
	analyzed_release(&a);
}

static void nothing(struct play *p)
{
	call_for(p, MAKER_MALLOC, 10);
}

/* As the GPU would be idle, were the untimed ones not there. */
static void nine_of_ten(struct play *p)
{
	uint64_t called = call_for(p, MAKER_LAUNCH, 2 * US);

	maker_kernel(p->m, p->kernel, 7, p->step % 10 ? 0 : called + 4 * US,
		     p->step % 10 ? 0 : called + 6 * US, p->correlation);
	p->now += 4 * US;
}

static void one_more(struct play *p)
{
	p->step += p->step == 50;
	nine_of_ten(p);
	p->step -= p->step == 51 && p->correlation == 50;
}

/* Kernels of 0 ns, as in traces whose clock is coarse. */
static void without_length(struct play *p)
{
	launch_on(p, 7, 0, 0);
}

static void without_a_verdict(void **state)
{
	struct analyzed a;

	check(*state, nothing, 100, VERDICT_NO_WORK, "no GPU work", &a);
	analyzed_release(&a);
}

static void mostly_untimed(void **state)
{
	struct analyzed a;

	check(*state, one_more, 100, VERDICT_UNTIMED, "91 of 100 GPU operations have no", &a);
	analyzed_release(&a);
}

static void many_untimed(void **state)
{
	struct analyzed a;

	check(*state, nine_of_ten, 100, BOUND(LAUNCH), "GPU 0 utilization", &a);
	analyzed_release(&a);
}

static void all_work_lasts_0_ns(void **state)
{
	struct analyzed a;

	check(*state, without_length, 100, VERDICT_INSTANT, "100 GPU operations of 0 ns", &a);
	analyzed_release(&a);
}

#define MEASURED_NS 20000

/* As one_by_one, but Pitot measures every tenth launch, whose call lasts accordingly. */
static uint64_t some_measured(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	if (n % 10 != 5)
		return one_by_one(m, kernel, now, n);
	maker_cost(m, cost_kind_replay, now - 100, now + MEASURED_NS, 1, MEASURED_NS + 100);
	maker_call(m, MAKER_LAUNCH, 10, now, now + MEASURED_NS, n);
	maker_kernel(m, kernel, 7, 0, 0, n);
	return now + MEASURED_NS;
}

static void check_parts(const struct verdict *v, uint64_t whole_ns)
{
	assert_int_equal(v->bounds.span_ns + v->pause_ns + v->bounds.measuring_ns, whole_ns);
}

static void measuring_is_excluded(void **state)
{
	const uint64_t whole_ns = 90 * 6000 + 10 * MEASURED_NS - 4000;
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct strbuf text = STRBUF_INIT;
	const struct verdict *v;
	struct analyzed a;
	uint64_t now = 1000;

	for (uint64_t n = 1; n <= 100; n++)
		now = some_measured(m, kernel, now, n);
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	check_parts(v, whole_ns);
	assert_int_equal(v->kind, BOUND(LAUNCH));
	assert_int_equal(v->bounds.measuring_ns, 10 * (MEASURED_NS + 100));
	assert_int_equal(v->measured, 10);
	assert_int_equal(v->launches, 90);
	assert_int_equal(v->launch_mean_ns, 2000);
	assert_int_equal(a.report.launches->measured_calls.count, 10);
	assert_int_equal(a.report.launches->kernel_calls.max_ns, 2000);
	verdict_sentence(v, &text);
	assert_non_null(strstr(strbuf_text(&text), "excluding 201 us of Pitot's measuring"));
	strbuf_release(&text);
	analyzed_release(&a);
}

/* A recording whose cost rows are sums: the kernels without times say which calls it was. */
static uint64_t replayed(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	if (n == 1)
		maker_cost(m, cost_kind_replay, 0, NS_PER_S, 20, NS_PER_MS);
	if (n % 5 != 2)
		return one_by_one(m, kernel, now, n);
	maker_call(m, MAKER_LAUNCH, 10, now, now + NS_PER_MS, n);
	maker_kernel(m, kernel, 7, 0, 0, n);
	return now + NS_PER_MS;
}

static void no_verdict_when_pitot_measured_most_of_the_time(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct strbuf text = STRBUF_INIT;
	const struct verdict *v;
	struct analyzed a;
	uint64_t now = 1000;

	for (uint64_t n = 1; n <= 100; n++)
		now = replayed(m, kernel, now, n);
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	check_parts(v, 80 * 6000 + 20 * NS_PER_MS - 4000);
	assert_int_equal(v->kind, VERDICT_MEASURED);
	assert_int_equal(v->start_up.pieces, 0);
	verdict_sentence(v, &text);
	assert_string_equal(strbuf_text(&text),
			    "20 measurements by Pitot kept the GPU idle for 20.0 ms of the 20.5 ms "
			    "from the first to the last GPU work; the other 476 us are too little "
			    "for a verdict");
	strbuf_release(&text);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(one_right_answer_each),
		folder_test(two_pauses_are_left_out),
		folder_test(a_slow_start_is_told_apart),
		folder_test(recorded_nodes_are_pitots),
		folder_test(without_a_verdict),
		folder_test(mostly_untimed),
		folder_test(many_untimed),
		folder_test(all_work_lasts_0_ns),
		folder_test(measuring_is_excluded),
		folder_test(no_verdict_when_pitot_measured_most_of_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
