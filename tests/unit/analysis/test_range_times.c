#include "analysis/range_times.h"

#include <stdio.h>
#include <string.h>

#include "analysis/hotspots.h"
#include "report_fixture.h"

#define MAIN 10
#define OTHER 11
#define AUTOGRAD 12

static struct program begin_python(const char *folder, uint32_t pid)
{
	struct program p = begin_program(folder, pid);

	maker_thread(p.m, MAIN, "python", 0);
	maker_thread(p.m, AUTOGRAD, "pt_autograd_0", 0);
	return p;
}

static void push(struct program *p, uint32_t thread, const char *name, uint64_t at)
{
	maker_nvtx(p->m, nvtx_kind_push, thread, name, at);
}

static void pop(struct program *p, uint32_t thread, uint64_t at)
{
	maker_nvtx(p->m, nvtx_kind_pop, thread, NULL, at);
}

static const struct range_group *find(const struct analyzed *a, const char *name)
{
	const struct range_times *r = a->report.range_times;

	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(trace_string(a->trace, r->items[i].message), name))
			return &r->items[i];
	fail_msg("no range %s", name);
	return NULL;
}

static void expect(const struct analyzed *a, const char *name, uint64_t count, uint64_t wall_ns,
		   uint64_t work, uint64_t gpu_ns)
{
	const struct range_group *g = find(a, name);

	assert_int_equal(g->count, count);
	assert_int_equal(g->time.total_ns, wall_ns);
	assert_int_equal(g->work, work);
	assert_int_equal(g->gpu_ns, gpu_ns);
}

/* A step with its parts, three times; what is launched counts in each range around it. */
static void ranges_have_what_is_launched_inside(void **state)
{
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	for (uint64_t i = 0; i < 3; i++) {
		uint64_t at = 10000 * (i + 1);

		push(&p, MAIN, "step", at);
		launch(&p, MAIN, at + 10, 1000);
		push(&p, MAIN, "forward", at + 100);
		launch(&p, MAIN, at + 110, 200);
		launch(&p, MAIN, at + 120, 200);
		launch(&p, OTHER, at + 130, 50); /* works for nobody that is known */
		pop(&p, MAIN, at + 1000 + 100 * i);
		pop(&p, MAIN, at + 5000);
		launch(&p, MAIN, at + 6000, 7);
	}
	maker_close(p.m, 900000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.range_times->ranges, 6);
	expect(&a, "step", 3, 15000, 9, 4200);
	expect(&a, "forward", 3, 3000, 6, 1200);
	assert_int_equal(find(&a, "forward")->time.p99_ns, 1100);
	assert_int_equal(find(&a, "forward")->time.median_ns, 1000);
	assert_int_equal(a.report.range_times->outside_ns, 171);
	assert_int_equal(a.report.range_times->gpu_ns, 4371);
	analyzed_release(&a);
}

/*
 * The main thread calls backward() and waits; autograd's thread launches, with ranges of its own or
 * without.
 */
static void what_autograd_launches_is_in_the_range_that_waits_for_it(void **state)
{
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	launch(&p, AUTOGRAD, 500, 1); /* nobody has a range */
	push(&p, MAIN, "step", 1000);
	push(&p, MAIN, "backward", 2000);
	launch(&p, AUTOGRAD, 2100, 300);
	push(&p, AUTOGRAD, "MmBackward0", 2200);
	launch(&p, AUTOGRAD, 2300, 40);
	pop(&p, AUTOGRAD, 2400);
	pop(&p, MAIN, 3000);
	launch(&p, AUTOGRAD, 3100, 5);
	maker_scope(p.m, nvtx_kind_token, MAIN, NULL, 1, 3200);
	maker_scope(p.m, nvtx_kind_push, OTHER, NULL, 1, 3300); /* works for the same range */
	launch(&p, AUTOGRAD, 3400, 1000);
	maker_scope(p.m, nvtx_kind_pop, OTHER, NULL, 0, 3500);
	push(&p, OTHER, "loader", 4000);
	launch(&p, AUTOGRAD, 4100, 2); /* two threads have one: whose work it is nobody knows */
	pop(&p, OTHER, 4200);
	launch(&p, AUTOGRAD, 4300, 8);
	launch(&p, OTHER, 4400, 100); /* another thread is none of autograd's */
	pop(&p, MAIN, 5000);
	launch(&p, AUTOGRAD, 6000, 4);
	maker_close(p.m, 900000);
	analyze(&a, *state, EVERYTHING);
	expect(&a, "step", 1, 4000, 5, 1353);
	expect(&a, "backward", 1, 1000, 2, 340);
	expect(&a, "MmBackward0", 1, 200, 1, 40);
	expect(&a, "loader", 1, 200, 0, 0);
	assert_int_equal(a.report.range_times->outside_ns, 107);
	analyzed_release(&a);
}

/* A range is only ever inside of an earlier one, also where both begin at once. */
static void autograds_range_begins_with_another(void **state)
{
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	push(&p, MAIN, "step", 900);
	push(&p, AUTOGRAD, "MmBackward0", 1000);
	push(&p, MAIN, "backward", 1000);
	launch(&p, AUTOGRAD, 1100, 30);
	pop(&p, AUTOGRAD, 1200);
	pop(&p, MAIN, 1300);
	pop(&p, MAIN, 1400);
	maker_close(p.m, 900000);
	analyze(&a, *state, EVERYTHING);
	expect(&a, "MmBackward0", 1, 200, 1, 30);
	expect(&a, "backward", 1, 300, 0, 0);
	analyzed_release(&a);
}

/* Also where ranges are asked for by a filter or as groups of kernels. */
static void filters_and_groups_have_autograds_work(void **state)
{
	struct report_options options = EVERYTHING;
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	push(&p, MAIN, "backward", 2000);
	launch(&p, AUTOGRAD, 2100, 300);
	push(&p, AUTOGRAD, "MmBackward0", 2200);
	launch(&p, AUTOGRAD, 2300, 40);
	pop(&p, AUTOGRAD, 2400);
	pop(&p, MAIN, 3000);
	launch(&p, MAIN, 4000, 1);
	maker_close(p.m, 900000);
	options.by = HOTSPOT_SCOPE;
	options.filter.scope = "backward";
	analyze(&a, *state, options);
	assert_int_equal(a.report.hotspots->count, 2);
	assert_int_equal(a.report.hotspots->total_ns, 340);
	assert_int_equal(a.report.range_times->gpu_ns, 340);
	expect(&a, "backward", 1, 1000, 2, 340);
	analyzed_release(&a);
}

static void recursion_counts_once(void **state)
{
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	push(&p, MAIN, "f", 1000);
	push(&p, MAIN, "g", 1100);
	push(&p, MAIN, "f", 1200);
	launch(&p, MAIN, 1210, 300);
	pop(&p, MAIN, 1300);
	pop(&p, MAIN, 1400);
	launch(&p, MAIN, 1500, 20);
	pop(&p, MAIN, 2000);
	push(&p, MAIN, "f", 3000);
	launch(&p, MAIN, 3010, 1);
	pop(&p, MAIN, 3100);
	maker_close(p.m, 900000);
	analyze(&a, *state, EVERYTHING);
	expect(&a, "f", 3, 1200, 3, 321);
	expect(&a, "g", 1, 300, 1, 300);
	analyzed_release(&a);
}

/* Of a range that began before the window only the work counts; one that never ends has no time. */
static void windows_and_open_ranges(void **state)
{
	struct report_options options = EVERYTHING;
	struct program p = begin_python(*state, 100);
	struct analyzed a;

	push(&p, MAIN, "long", 1000);
	launch(&p, MAIN, 2000, 10);
	launch(&p, MAIN, 52000, 300);
	pop(&p, MAIN, 60000);
	push(&p, MAIN, "open", 61000);
	launch(&p, MAIN, 62000, 5);
	maker_close(p.m, 900000);
	options.filter.since_ns = 50000;
	options.filter.until_ns = 155000;
	analyze(&a, *state, options);
	expect(&a, "long", 0, 0, 2, 310);
	expect(&a, "open", 1, 0, 0, 0);
	assert_int_equal(find(&a, "open")->open, 1);
	assert_int_equal(find(&a, "open")->time.count, 0);
	analyzed_release(&a);
}

/*
 * Equal texts of several processes are one group; start/end ranges cross threads and have no work
 * that is known.
 */
static void groups_are_texts(void **state)
{
	struct program p = begin_python(*state, 100), q = begin_python(*state, 200);
	struct row_nvtx row = {
		.time_ns = 5000, .kind = nvtx_kind_start, .thread = MAIN, .range = 3
	};
	struct analyzed a;

	push(&p, MAIN, "step", 1000);
	launch(&p, MAIN, 1100, 10);
	pop(&p, MAIN, 2000);
	push(&q, MAIN, "step", 1000);
	launch(&q, MAIN, 1100, 10);
	pop(&q, MAIN, 4000);
	row.message = maker_string(p.m, "transfer");
	ROW_MISSING(&row, nvtx, level);
	writer_append(p.m->writer, TABLE_nvtx, &row);
	row.kind = nvtx_kind_end;
	row.time_ns = 6500;
	writer_append(p.m->writer, TABLE_nvtx, &row);
	maker_close(p.m, 900000);
	maker_close(q.m, 900000);
	analyze(&a, *state, EVERYTHING);
	expect(&a, "step", 2, 4000, 2, 20);
	expect(&a, "transfer", 1, 1500, 0, 0);
	assert_false(find(&a, "transfer")->launches);
	assert_true(find(&a, "step")->launches);
	analyzed_release(&a);
}

/*
 * Outermost ranges, which are called "top", and what is outside of them add up to all GPU time,
 * whatever nests how.
 */
static void gpu_time_is_conserved(void **state)
{
	struct program p[2] = { begin_program(*state, 100), begin_program(*state, 200) };
	unsigned depth[2][3] = { 0 };
	uint64_t seed = 1, busy = 0;
	struct analyzed a;

	for (uint64_t i = 1; i < 4000; i++) {
		unsigned process = random_u64(&seed) % 2, thread = random_u64(&seed) % 3;
		unsigned *d = &depth[process][thread];
		struct program *of = &p[process];
		uint64_t at = i * 50;
		char name[16];

		switch (random_u64(&seed) % 4) {
		case 0:
			/*
			 * autograd's outermost ranges may be inside of another thread's: once all
			 * the same
			 */
			snprintf(name, sizeof(name), *d ? "in %u" : "top", *d);
			push(of, MAIN + thread, name, at);
			++*d;
			break;
		case 1:
			if (*d) {
				pop(of, MAIN + thread, at);
				--*d;
			}
			break;
		default:
			launch(of, MAIN + thread, at, 1 + random_u64(&seed) % 1000);
		}
	}
	maker_close(p[0].m, 90000000);
	maker_close(p[1].m, 90000000);
	analyze(&a, *state, EVERYTHING);
	for (size_t i = 0; i < a.report.gpus.count; i++)
		busy += a.report.busy->gpus[i].work[GPU_WORK_kernel].sum_ns;
	assert_int_equal(a.report.range_times->gpu_ns, busy);
	assert_true(a.report.range_times->outside_ns > 0);
	assert_int_equal(find(&a, "top")->gpu_ns + a.report.range_times->outside_ns, busy);
	assert_true(find(&a, "in 3")->gpu_ns > 0);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(ranges_have_what_is_launched_inside),
		folder_test(what_autograd_launches_is_in_the_range_that_waits_for_it),
		folder_test(autograds_range_begins_with_another),
		folder_test(filters_and_groups_have_autograds_work),
		folder_test(recursion_counts_once),
		folder_test(windows_and_open_ranges),
		folder_test(groups_are_texts),
		folder_test(gpu_time_is_conserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
