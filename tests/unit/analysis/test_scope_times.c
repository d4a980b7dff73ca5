#include "analysis/scope_times.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/range_times.h"
#include "analysis/nvtx_ranges.h"
#include "report_fixture.h"

#define MAIN 10
#define POOL 11

static void push(struct program *p, uint32_t thread, const char *name, uint64_t at)
{
	maker_scope(p->m, nvtx_kind_push, thread, name, 0, at);
}

static void pop(struct program *p, uint32_t thread, uint64_t at)
{
	maker_scope(p->m, nvtx_kind_pop, thread, NULL, 0, at);
}

static struct report_options tree_options(void)
{
	struct report_options options = EVERYTHING;

	options.scope_tree = true;
	return options;
}

static const struct scope_time *find(const struct analyzed *a, const char *path)
{
	const struct scope_times *s = a->report.scope_times;

	for (size_t i = 0; i < s->count; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		scope_path_text(&a->report.ranges, a->trace, s->items[i].path, &text);
		if (!strcmp(strbuf_text(&text), path))
			return &s->items[i];
	}
	fail_msg("no scope %s", path);
	return NULL;
}

static void expect(const struct analyzed *a, const char *path, uint64_t calls, uint64_t wall_ns,
		   uint64_t gpu_ns, uint64_t self_ns, uint64_t busy_ns)
{
	const struct scope_time *s = find(a, path);

	assert_int_equal(s->calls, calls);
	assert_int_equal(s->wall_ns, wall_ns);
	assert_int_equal(s->gpu_ns, gpu_ns);
	assert_int_equal(s->self_ns, self_ns);
	assert_int_equal(s->busy_ns, busy_ns);
}

/*
 * Two steps; the second has a part that a pool's thread works for, with kernels beside those of the
 * first thread.
 */
static void scopes_have_what_is_inside(void **state)
{
	struct program p = begin_program(*state, 100);
	const struct scope_time *s;
	struct analyzed a;

	p.m->runs = UINT64_C(2) << 32 | 10;
	push(&p, MAIN, "step", 1000);
	launch(&p, MAIN, 1100, 500);
	pop(&p, MAIN, 5000);
	push(&p, MAIN, "step", 11000);
	p.m->runs = 0;
	push(&p, MAIN, "part", 11100);
	maker_scope(p.m, nvtx_kind_token, MAIN, NULL, 1, 11110);
	launch(&p, MAIN, 11200, 1000);
	maker_scope(p.m, nvtx_kind_push, POOL, "carried", 1, 11500);
	launch(&p, POOL, 11600, 1000); /* 600 of them beside the first one's */
	launch(&p, POOL, 11700, 10); /* inside the others */
	maker_cpu_sample(p.m, POOL, 11800, 70, 0);
	maker_call(p.m, MAKER_DEVICE_SYNCHRONIZE, POOL, 11900, 11950, 90);
	pop(&p, POOL, 12000);
	maker_cpu_sample(p.m, POOL, 12100, 7, 0);
	maker_cpu_sample(p.m, MAIN, 12100, 30, 0);
	pop(&p, MAIN, 12500);
	maker_call(p.m, MAKER_STREAM_SYNCHRONIZE, MAIN, 12600, 12900, 91);
	maker_memset(p.m, 64, 7, 200000, 200100, 92);
	maker_call(p.m, MAKER_MEMSET, MAIN, 12950, 12960, 92);
	pop(&p, MAIN, 13000);
	launch(&p, MAIN, 20000, 40);
	push(&p, MAIN, "open", 21000);
	maker_close(p.m, 900000);
	analyze(&a, *state, tree_options());
	assert_int_equal(a.report.scope_times->count, 3);
	expect(&a, "step", 2, 6000, 2610, 600, 2000);
	expect(&a, "step/part", 1, 1400, 2010, 2010, 1400);
	expect(&a, "open", 1, 0, 0, 0, 0);
	assert_int_equal(find(&a, "open")->open, 1);
	assert_int_equal(find(&a, "open")->timed, 0);
	s = find(&a, "step");
	assert_int_equal(s->timed, 2);
	assert_int_equal(s->kernels, 4);
	assert_int_equal(s->launches, 4);
	assert_int_equal(s->wait_ns, 350);
	assert_int_equal(s->samples, 2);
	assert_int_equal(s->cpu_ns, 100);
	assert_int_equal(s->repeats, 20);
	assert_int_equal(s->warmups, 4);
	assert_true(a.report.scope_times->runs);
	s = find(&a, "step/part");
	assert_int_equal(s->kernels, 3);
	assert_int_equal(s->launches, 3);
	assert_int_equal(s->wait_ns, 50);
	assert_int_equal(s->samples, 2);
	assert_int_equal(s->cpu_ns, 100);
	assert_int_equal(s->repeats, 0);
	assert_int_equal(a.report.scope_times->outside_ns, 40);
	assert_int_equal(a.report.scope_times->gpu_ns, 2650);
	/* The list by text has a carried scope's work, and not as a range of its own. */
	assert_int_equal(a.report.range_times->count, 3);
	assert_int_equal(a.report.range_times->ranges, 4);
	for (size_t i = 0; i < 3; i++)
		if (!strcmp(trace_string(a.trace, a.report.range_times->items[i].message), "part"))
			assert_int_equal(a.report.range_times->items[i].gpu_ns, 2010);
	analyzed_release(&a);
}

/* A scope before those inside it, the longest first; what is around a scope has a lower rank. */
static void the_longest_come_first(void **state)
{
	static const char *const order[] = { "a", "loads", "loads", "short", "b", "b" };
	static const uint32_t depths[] = { 0, 1, 2, 1, 0, 1 };
	struct program p = begin_program(*state, 100);
	const struct scope_time *items;
	struct analyzed a;

	push(&p, MAIN, "b", 1000);
	push(&p, MAIN, "b", 1001);
	pop(&p, MAIN, 1900);
	pop(&p, MAIN, 2000);
	push(&p, MAIN, "a", 3000);
	push(&p, MAIN, "short", 3010);
	launch(&p, MAIN, 3011, 60);
	pop(&p, MAIN, 3020);
	push(&p, MAIN, "loads", 3030);
	push(&p, MAIN, "loads", 3040); /* a path of its own */
	pop(&p, MAIN, 4900);
	pop(&p, MAIN, 4910);
	pop(&p, MAIN, 5000);
	maker_close(p.m, 900000);
	analyze(&a, *state, tree_options());
	assert_int_equal(a.report.scope_times->count, 6);
	items = a.report.scope_times->items;
	for (size_t i = 0; i < 6; i++) {
		assert_string_equal(scope_path_name(&a.report.ranges, a.trace, items[i].path),
				    order[i]);
		assert_int_equal(items[i].depth, depths[i]);
	}
	assert_int_equal(items[0].rank, 0);
	assert_int_equal(items[1].rank, 1);
	assert_int_equal(items[2].rank, 2);
	assert_int_equal(items[4].rank, 3);
	assert_int_equal(items[5].rank, 4);
	assert_int_equal(items[3].rank, 5);
	analyzed_release(&a);
}

/*
 * Work that a thread goes on with after the scope that it is for; samples from outside; a scope
 * whose token is lost.
 */
static void scopes_may_last_longer_on_other_threads(void **state)
{
	struct program p = begin_program(*state, 100);
	struct maker *sampler;
	struct analyzed a;

	push(&p, MAIN, "sends", 1000);
	maker_scope(p.m, nvtx_kind_token, MAIN, NULL, 1, 1001);
	pop(&p, MAIN, 1010);
	push(&p, MAIN, "short", 1020);
	pop(&p, MAIN, 1100);
	maker_scope(p.m, nvtx_kind_push, POOL, NULL, 1, 2000);
	push(&p, POOL, "works", 2001);
	pop(&p, POOL, 9000);
	pop(&p, POOL, 9001);
	maker_scope(p.m, nvtx_kind_push, POOL, "lost", 2, 10000);
	launch(&p, POOL, 10001, 5);
	pop(&p, POOL, 10010);
	maker_close(p.m, 900000);
	sampler = maker_begin_sampler(*state, 100, 10, "./app");
	maker_cpu_sample(sampler, POOL, 3000, 11, 0);
	maker_close(sampler, 8000);
	analyze(&a, *state, tree_options());
	assert_int_equal(a.report.scope_times->count, 4);
	expect(&a, "sends", 1, 10, 0, 0, 0);
	expect(&a, "sends/works", 1, 6999, 0, 0, 0);
	expect(&a, "lost", 0, 0, 5, 5, 5);
	assert_int_equal(find(&a, "sends")->rank, 0);
	assert_int_equal(find(&a, "sends/works")->rank, 1);
	assert_int_equal(find(&a, "short")->rank, 2);
	assert_int_equal(find(&a, "sends/works")->cpu_ns, 11);
	assert_int_equal(a.report.range_times->ranges, 3);
	assert_int_equal(a.report.range_times->count, 4);
	analyzed_release(&a);
}

/* With a filter or a window only what they choose is counted, in the scopes around it too. */
static void filters_and_windows(void **state)
{
	struct report_options options = tree_options();
	struct program p = begin_program(*state, 100), q = begin_program(*state, 200);
	struct analyzed a;

	push(&p, MAIN, "step", 1000);
	push(&p, MAIN, "part", 1100);
	launch(&p, MAIN, 1200, 100);
	maker_cpu_sample(p.m, MAIN, 1250, 1, 0);
	pop(&p, MAIN, 1300);
	push(&p, MAIN, "other", 1400);
	launch(&p, MAIN, 1500, 1000);
	maker_cpu_sample(p.m, MAIN, 1550, 10, 0);
	maker_call(p.m, MAKER_STREAM_SYNCHRONIZE, MAIN, 1560, 1570, 9);
	pop(&p, MAIN, 1600);
	pop(&p, MAIN, 2000);
	push(&q, MAIN, "step", 1000);
	launch(&q, MAIN, 1100, 7);
	pop(&q, MAIN, 1500);
	maker_close(p.m, 900000);
	maker_close(q.m, 900000);
	options.filter.scope = "step/part";
	analyze(&a, *state, options);
	assert_int_equal(a.report.scope_times->count, 2);
	expect(&a, "step", 0, 0, 100, 0, 100);
	expect(&a, "step/part", 1, 200, 100, 100, 100);
	assert_int_equal(find(&a, "step")->cpu_ns, 1);
	assert_int_equal(find(&a, "step")->wait_ns, 0);
	assert_int_equal(find(&a, "step")->launches, 1);
	assert_int_equal(a.report.scope_times->gpu_ns, 100);
	analyzed_release(&a);
	options.filter.scope = NULL;
	options.filter.pid = 200;
	analyze(&a, *state, options);
	assert_int_equal(a.report.scope_times->count, 1);
	expect(&a, "step", 1, 500, 7, 7, 7);
	analyzed_release(&a);
	options.filter.pid = -1; /* equal paths of both processes are one */
	options.scopes = SCOPES_PITOT;
	analyze(&a, *state, options);
	expect(&a, "step", 2, 1500, 1107, 7, 1107);
	analyzed_release(&a);
	options.filter.since_ns = 1350;
	options.filter.until_ns = 1555;
	analyze(&a, *state, options);
	assert_int_equal(a.report.scope_times->count, 2);
	expect(&a, "step", 0, 0, 0, 0, 0);
	expect(&a, "step/other", 1, 200, 0, 0, 0);
	assert_int_equal(find(&a, "step")->cpu_ns, 10);
	analyzed_release(&a);
	options.scopes = SCOPES_NVTX;
	analyze(&a, *state, options);
	assert_int_equal(a.report.scope_times->count, 0);
	analyzed_release(&a);
	options.scope_tree = false;
	analyze(&a, *state, options);
	assert_int_equal(a.report.scope_times->count, 0);
	assert_int_equal(a.report.scope_times->gpu_ns, 0);
	analyzed_release(&a);
}

static int by_start(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return x[0] < y[0] ? -1 : x[0] > y[0];
}

/*
 * Whatever nests and is carried how: selves and the outside sum to all, busy times are unions,
 * counted here by hand.
 */
static void times_are_conserved(void **state)
{
	enum { THREADS = 4, EVENTS = 3000 };
	static uint64_t spans[EVENTS][2]; /* of kernels in "s", at any depth */
	struct program p = begin_program(*state, 100);
	unsigned depth[THREADS] = { 0 }, kernels = 0, inside[THREADS] = { 0 };
	uint64_t seed = 5, sum = 0, self = 0, covered = 0, busy = 0;
	struct analyzed a;

	for (uint64_t i = 1; i < EVENTS; i++) {
		unsigned t = random_u64(&seed) % THREADS;
		uint64_t at = i * 50, ns = 1 + random_u64(&seed) % 400;
		bool outermost = !depth[t], carries = random_u64(&seed) % 4 == 0;

		switch (random_u64(&seed) % 5) {
		case 0:
			if (depth[t] == 3)
				break;
			/*
			 * carried or not, an outermost range is "s": what the token names is inside
			 * of it
			 */
			carries &= outermost && depth[0];
			if (carries)
				maker_scope(p.m, nvtx_kind_token, MAIN, NULL, i, at - 1);
			maker_scope(p.m, nvtx_kind_push, MAIN + t, outermost ? "s" : "in",
				    carries ? i : 0, at);
			depth[t]++;
			break;
		case 1:
			if (!depth[t])
				break;
			pop(&p, MAIN + t, at);
			depth[t]--;
			break;
		default:
			launch(&p, MAIN + t, at, ns);
			sum += ns;
			if (!depth[t])
				break;
			spans[kernels][0] = at + 100000;
			spans[kernels++][1] = at + 100000 + ns;
			inside[t]++;
		}
	}
	maker_close(p.m, 90000000);
	analyze(&a, *state, tree_options());
	for (size_t i = 0; i < a.report.scope_times->count; i++)
		self += a.report.scope_times->items[i].self_ns;
	assert_int_equal(a.report.scope_times->gpu_ns, sum);
	assert_int_equal(self + a.report.scope_times->outside_ns, sum);
	assert_int_equal(find(&a, "s")->gpu_ns, sum - a.report.scope_times->outside_ns);
	assert_int_equal(find(&a, "s")->kernels, kernels);
	assert_true(inside[0] && inside[1] && inside[2] && inside[3]);
	qsort(spans, kernels, sizeof(spans[0]), by_start);
	for (unsigned i = 0; i < kernels; i++) {
		busy += spans[i][1] - MIN(spans[i][1], MAX(covered, spans[i][0]));
		covered = MAX(covered, spans[i][1]);
	}
	assert_int_equal(find(&a, "s")->busy_ns, busy);
	assert_true(busy < find(&a, "s")->gpu_ns);
	for (size_t i = 0; i < a.report.scope_times->count; i++)
		assert_true(a.report.scope_times->items[i].busy_ns <=
			    a.report.scope_times->items[i].gpu_ns);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(scopes_have_what_is_inside),
		folder_test(the_longest_come_first),
		folder_test(scopes_may_last_longer_on_other_threads),
		folder_test(filters_and_windows),
		folder_test(times_are_conserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
