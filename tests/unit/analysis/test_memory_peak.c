/* test_memory_peak.c: owners of memory at its peak, pools, leaks, and calls within steps. */
#include "analysis/memory/memory_peak.h"

#include <math.h>

#include "analysis/memory/memory_steps.h"
#include "analysis/steps.h"
#include "system/metrics.h"
#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define KIB UINT64_C(1024)

struct events {
	struct maker *m;
	uint64_t correlation;
	uint8_t kind;
	uint32_t thread; /* 0: the first */
};

static struct events begin_events(const char *folder)
{
	return (struct events){ .m = begin(folder, 100), .kind = memory_kind_device };
}

#define PRESENT(row, table, column, condition)                                                     \
	((row)->missing &= ~((uint64_t)(condition) << COLUMN_##table##_##column))

/* A call of 5 us with its record. bytes of a release 0: unknown. */
static void event(struct events *e, enum memory_operation operation, uint64_t at, uint64_t address,
		  uint64_t bytes)
{
	struct row_allocation row = { .missing = schema_missing(TABLE_allocation),
				      .time_ns = at,
				      .operation = (uint8_t)operation,
				      .kind = e->kind,
				      .address = address,
				      .bytes = bytes,
				      .correlation = ++e->correlation };
	bool allocates = operation == memory_operation_allocation;

	PRESENT(&row, allocation, time_ns, at != 0);
	PRESENT(&row, allocation, bytes, 1);
	PRESENT(&row, allocation, async, 1);
	if (at)
		maker_call(e->m, allocates ? MAKER_MALLOC : MAKER_FREE, MAX(e->thread, 1), at,
			   at + 5 * US, e->correlation);
	writer_append(e->m->writer, TABLE_allocation, &row);
}

static void allocate(struct events *e, uint64_t at, uint64_t address, uint64_t bytes)
{
	event(e, memory_operation_allocation, at, address, bytes);
}

static void release(struct events *e, uint64_t at, uint64_t address)
{
	event(e, memory_operation_release, at, address, 0);
}

static uint32_t line_stack(struct maker *m, uint32_t line)
{
	return maker_stack(m, maker_python(m, 0, "step", "train.py", line), 1, stack_end_complete);
}

static struct analyzed with_memory(struct events *e, const char *folder, uint64_t end_ns)
{
	struct report_options options = { .filter = FILTER_ALL, .memory = true };
	struct analyzed a;

	maker_close(e->m, end_ns);
	analyze(&a, folder, options);
	return a;
}

static const struct memory_part *part_of(const struct memory_parts *parts, size_t i)
{
	assert_true(i < parts->count);
	return &parts->items[i];
}

static void expect_part(const struct memory_parts *parts, size_t i, uint32_t key, uint64_t bytes,
			uint64_t count)
{
	const struct memory_part *p = part_of(parts, i);

	if (p->key != key || p->bytes != bytes || p->count != count)
		fail_msg("part %zu: key %u, %llu B in %llu blocks", i, p->key,
			 (unsigned long long)p->bytes, (unsigned long long)p->count);
}

/* --- the peak --- */

static void expect_sums(const struct report *r)
{
	for (size_t g = 0; g < r->memory_use->count; g++)
		for (unsigned by = 0; by < MEMORY_BYS; by++) {
			const struct memory_parts *parts = &r->memory_peak->peak[by];
			uint64_t sum = 0;

			for (size_t i = 0; i < parts->count; i++)
				if (parts->items[i].group == g)
					sum += parts->items[i].bytes;
			assert_int_equal(sum, r->memory_use->items[g].peak_bytes);
		}
}

/* Random events, with the peak of a plain sum over addresses. */
static void parts_add_up(void **state)
{
	enum { ADDRESSES = 12 };
	struct events e = begin_events(*state);
	uint64_t seed = 7, live[ADDRESSES] = { 0 }, sum = 0, peak = 0, peak_ns = 0;
	struct analyzed a;

	for (uint64_t at = 1 * US; at < 800 * US; at += US) {
		uint64_t address = random_u64(&seed) % ADDRESSES;
		uint64_t bytes = random_u64(&seed) % 5000;

		e.m->stack = 0;
		if (random_u64(&seed) % 3 && !live[address]) {
			if (random_u64(&seed) % 2)
				e.m->stack = line_stack(e.m, (uint32_t)(1 + address % 4));
			allocate(&e, at, address, bytes);
			live[address] = bytes;
			sum += bytes;
		} else if (live[address]) {
			release(&e, at, address);
			sum -= live[address];
			live[address] = 0;
		}
		if (sum > peak) {
			peak = sum;
			peak_ns = at;
		}
	}
	a = with_memory(&e, *state, MS);
	assert_int_equal(a.report.memory_use->count, 1);
	assert_int_equal(a.report.memory_use->items[0].peak_bytes, peak);
	assert_int_equal(a.report.memory_use->items[0].peak_ns, peak_ns);
	assert_int_equal(a.report.memory_use->items[0].live_bytes, sum);
	expect_sums(&a.report);
	analyzed_release(&a);
}

static void owners(void **state)
{
	struct events e = begin_events(*state);
	const struct memory_peak *p;
	struct analyzed a;

	e.m->stack = line_stack(e.m, 10);
	allocate(&e, 1 * MS, 0x1000, 100 * KIB);
	maker_scope(e.m, nvtx_kind_push, 1, "forward", 0, 2 * MS);
	e.m->stack = line_stack(e.m, 20);
	allocate(&e, 3 * MS, 0x2000, 300 * KIB);
	allocate(&e, 4 * MS, 0x3000, 300 * KIB);
	maker_scope(e.m, nvtx_kind_pop, 1, NULL, 0, 5 * MS);
	release(&e, 6 * MS, 0x2000);
	event(&e, memory_operation_release, 7 * MS, 0x9000, 50 * KIB); /* older */
	a = with_memory(&e, *state, 9 * MS);
	p = a.report.memory_peak;
	assert_int_equal(a.report.memory_use->items[0].peak_bytes, 750 * KIB);
	assert_int_equal(a.report.memory_use->items[0].base_bytes, 50 * KIB);
	assert_int_equal(a.report.memory_use->items[0].peak_ns, 4 * MS);
	assert_int_equal(p->peak[MEMORY_BY_LINE].count, 3);
	assert_int_equal(part_of(&p->peak[MEMORY_BY_LINE], 0)->bytes, 600 * KIB);
	assert_int_equal(caller_at(&a.report.callers, p->peak[MEMORY_BY_LINE].items[0].key)->line,
			 20);
	expect_part(&p->peak[MEMORY_BY_LINE], 2, MEMORY_BEFORE, 50 * KIB, 1);
	expect_part(&p->peak[MEMORY_BY_SCOPE], 0, 0, 600 * KIB, 2);
	expect_part(&p->peak[MEMORY_BY_SCOPE], 1, MEMORY_NONE, 100 * KIB, 1);
	expect_part(&p->peak[MEMORY_BY_STEP], 0, MEMORY_NONE, 700 * KIB, 3);
	expect_part(&p->peak[MEMORY_BY_SIZE], 0, 18, 600 * KIB, 2);
	expect_part(&p->peak[MEMORY_BY_SIZE], 1, 16, 100 * KIB, 1);
	expect_part(&p->peak[MEMORY_BY_SIZE], 2, 15, 50 * KIB, 1);
	assert_int_equal(p->live.count, 2);
	assert_int_equal(part_of(&p->live, 0)->bytes, 300 * KIB);
	analyzed_release(&a);
}

/*
 * What the sampler has seen of an allocator belongs to the scopes of the process itself, by thread
 * and time, and to its steps.
 */
static void owners_of_what_is_seen_from_outside(void **state)
{
	static const struct {
		uint64_t at_ns, bytes;
		uint32_t thread;
	} allocations[] = {
		{ 1 * MS, 100, 1 }, /* before the scope */
		{ 3 * MS, 200, 1 }, { 3 * MS, 400, 2 }, /* on another thread */
		{ 4 * MS, 800, 1 }, { 5 * MS + 1, 1600, 1 }, /* behind it */
	};
	struct events e = begin_events(*state);
	struct analyzed a;

	maker_scope(e.m, nvtx_kind_push, 1, "forward", 0, 2 * MS);
	maker_scope(e.m, nvtx_kind_pop, 1, NULL, 0, 5 * MS);
	maker_close(e.m, 9 * MS);
	e.m = maker_begin_sampler(*state, 100, 10, "./app");
	e.kind = memory_kind_allocator_request;
	for (unsigned i = 0; i < ARRAY_SIZE(allocations); i++) {
		e.thread = allocations[i].thread;
		allocate(&e, allocations[i].at_ns, 0x1000 * (i + 1), allocations[i].bytes);
	}
	a = with_memory(&e, *state, 9 * MS);
	assert_int_equal(a.report.memory_use->count, 1);
	assert_int_equal(a.report.memory_peak->peak[MEMORY_BY_SCOPE].count, 2);
	expect_part(&a.report.memory_peak->peak[MEMORY_BY_SCOPE], 0, MEMORY_NONE, 2100, 3);
	expect_part(&a.report.memory_peak->peak[MEMORY_BY_SCOPE], 1, 0, 1000, 2);
	expect_sums(&a.report);
	analyzed_release(&a);
}

/* Blocks of a snapshot without times are the base, as is all that is there from the start on. */
static void base_alone(void **state)
{
	struct events e = begin_events(*state);
	struct analyzed a;

	event(&e, memory_operation_allocation, 0, 0x1000, 700);
	allocate(&e, 2 * MS, 0x2000, 0);
	release(&e, 3 * MS, 0x1000);
	allocate(&e, 4 * MS, 0x3000, 600);
	a = with_memory(&e, *state, 9 * MS);
	assert_int_equal(a.report.memory_use->items[0].peak_bytes, 700);
	assert_int_equal(a.report.memory_use->items[0].peak_row, TRACE_NO_ROW);
	assert_int_equal(a.report.memory_use->items[0].peak_ns, 2 * MS);
	assert_int_equal(a.report.memory_use->items[0].live_bytes, 600);
	expect_part(&a.report.memory_peak->peak[MEMORY_BY_LINE], 0, MEMORY_BEFORE, 700, 1);
	assert_int_equal(a.report.memory_peak->peak[MEMORY_BY_LINE].count, 1);
	expect_sums(&a.report);
	analyzed_release(&a);
}

/* An allocator's block, its segment and the driver's memory share an address. */
static void layers(void **state)
{
	static const uint8_t kinds[] = { memory_kind_device, memory_kind_allocator_segment,
					 memory_kind_allocator_block,
					 memory_kind_allocator_request };
	struct events e = begin_events(*state);
	const struct memory_pool *pool;
	struct analyzed a;

	for (unsigned i = 0; i < 4; i++) {
		e.kind = kinds[i];
		allocate(&e, (1 + i) * MS, 0x1000, 2000 / (1 + i));
	}
	release(&e, 4 * MS + 500 * US, 0x1000);
	e.kind = memory_kind_allocator_block;
	allocate(&e, 5 * MS, 0x1200, 500);
	release(&e, 6 * MS, 0x1000);
	e.kind = memory_kind_allocator_segment;
	release(&e, 7 * MS, 0x1000);
	e.kind = memory_kind_allocator_block;
	allocate(&e, 8 * MS, 0x1400, 800); /* when the segment is gone */
	a = with_memory(&e, *state, 9 * MS);
	assert_int_equal(a.report.memory_use->count, 4);
	assert_int_equal(a.report.memory_use->items[3].peak_bytes, 500);
	assert_int_equal(a.report.memory_use->items[3].live_bytes, 0);
	assert_int_equal(a.report.memory_use->items[0].live_bytes, 2000);
	assert_int_equal(a.report.memory_use->items[1].peak_bytes, 1300);
	assert_int_equal(a.report.memory_use->items[2].peak_bytes, 1000);
	assert_int_equal(a.report.memory_use->items[2].live_bytes, 0);
	assert_int_equal(a.report.memory_peak->pool_count, 1);
	pool = &a.report.memory_peak->pools[0];
	assert_int_equal(pool->size_bytes, 1000);
	assert_int_equal(pool->used_bytes, 1166);
	assert_int_equal(pool->peak_used_bytes, 1300);
	expect_sums(&a.report);
	analyzed_release(&a);
}

/* Blocks that are there from the start on are in use in the segments that come later. */
static void pool_whose_use_is_older(const char *folder, bool others)
{
	struct events e = begin_events(folder);
	const struct memory_peak *p;
	struct analyzed a;

	e.kind = memory_kind_allocator_block;
	event(&e, memory_operation_allocation, 0, 0x1000, 700);
	if (others) { /* which are gone before */
		allocate(&e, 1 * MS, 0x1400, 300);
		release(&e, 1 * MS + 500 * US, 0x1400);
	}
	e.kind = memory_kind_allocator_segment;
	allocate(&e, 2 * MS, 0x1000, 2000);
	a = with_memory(&e, folder, 9 * MS);
	p = a.report.memory_peak;
	assert_int_equal(p->pool_count, 1);
	assert_int_equal(p->pools[0].size_bytes, 2000);
	assert_int_equal(p->pools[0].used_bytes, 700);
	assert_int_equal(p->pools[0].peak_used_bytes, others ? 1000 : 700);
	analyzed_release(&a);
}

static void a_pool_whose_use_is_older(void **state)
{
	pool_whose_use_is_older(*state, false);
}

static void a_pool_with_blocks_before_it(void **state)
{
	pool_whose_use_is_older(*state, true);
}

static void curve(void **state)
{
	struct events e = begin_events(*state);
	const struct memory_curve *c;
	struct analyzed a;

	allocate(&e, 1 * MS, 0x1000, 100);
	for (uint64_t i = 0; i < 2000; i++) { /* all in one interval */
		allocate(&e, 100 * MS + 10 * i, 0x2000, 1000);
		release(&e, 100 * MS + 10 * i + 5, 0x2000);
	}
	allocate(&e, 900 * MS, 0x3000, 50);
	a = with_memory(&e, *state, 1000 * MS);
	c = &a.report.memory_peak->curves[0];
	assert_int_equal(c->count, 4);
	assert_int_equal(c->points[0].bytes, 100);
	assert_int_equal(c->points[1].bytes, 1100);
	assert_int_equal(c->points[2].bytes, 100);
	assert_int_equal(c->points[3].bytes, 150);
	assert_in_range(c->points[1].time_ns, 98 * MS, 100 * MS);
	assert_in_range(c->points[2].time_ns, 100 * MS, 103 * MS);
	analyzed_release(&a);
}

/* --- pools and readings --- */

static void pools(void **state)
{
	static const uint64_t sizes[][2] = { { 100, 90 }, { 400, 100 }, { 400, 300 }, { 200, 20 } };
	struct events e = begin_events(*state);
	const struct memory_pool *p;
	struct analyzed a;

	for (size_t i = 0; i < 4; i++) {
		struct row_allocation row = { .missing = schema_missing(TABLE_allocation),
					      .time_ns = (1 + i) * MS,
					      .operation = memory_operation_allocation,
					      .kind = memory_kind_device,
					      .address = 0x1000 + i,
					      .pool_address = 0x77,
					      .pool_bytes = sizes[i][0],
					      .pool_used_bytes = sizes[i][1] };

		PRESENT(&row, allocation, time_ns, 1);
		PRESENT(&row, allocation, pool_address, 1);
		PRESENT(&row, allocation, pool_bytes, 1);
		PRESENT(&row, allocation, pool_used_bytes, 1);
		writer_append(e.m->writer, TABLE_allocation, &row);
	}
	writer_append(e.m->writer, TABLE_memory_pool,
		      &(struct row_memory_pool){ .time_ns = 8 * MS,
						 .operation = pool_operation_trimmed,
						 .address = 0x77,
						 .release_threshold_bytes = 9,
						 .bytes = 10,
						 .used_bytes = 5 });
	a = with_memory(&e, *state, 9 * MS);
	assert_int_equal(a.report.memory_peak->pool_count, 1);
	p = a.report.memory_peak->pools;
	assert_int_equal(p->size_bytes, 400);
	assert_int_equal(p->size_ns, 3 * MS);
	assert_int_equal(p->used_bytes, 300);
	assert_int_equal(p->peak_used_bytes, 300);
	assert_int_equal(p->trims, 1);
	assert_int_equal(p->threshold_bytes, 9);
	analyzed_release(&a);
}

static void unexplained(void **state)
{
	static const int64_t used[] = { 500, 1500, 900 };
	struct events e = begin_events(*state);
	struct row_counter counter = { .id = METRIC_gpu_memory_used };
	const struct memory_unexplained *g;
	struct analyzed a;

	counter.name = maker_string(e.m, "gpu_memory_used");
	counter.unit = maker_string(e.m, "bytes");
	writer_append(e.m->writer, TABLE_counter, &counter);
	for (uint64_t i = 0; i < 3; i++) {
		struct row_counter_sample row = { .time_ns = (2 + 2 * i) * MS,
						  .counter = counter.id,
						  .value = used[i] };

		ROW_MISSING(&row, counter_sample, thread);
		writer_append(e.m->writer, TABLE_counter_sample, &row);
	}
	allocate(&e, 3 * MS, 0x1000, 400);
	e.kind = memory_kind_pinned; /* on the host */
	allocate(&e, 3 * MS + 1, 0x2000, 8000);
	e.kind = memory_kind_allocator_block; /* within other memory */
	allocate(&e, 3 * MS + 2, 0x1000, 300);
	e.kind = memory_kind_device;
	release(&e, 5 * MS, 0x1000);
	a = with_memory(&e, *state, 9 * MS);
	assert_int_equal(a.report.memory_peak->gpu_count, 1);
	g = a.report.memory_peak->gpus;
	assert_int_equal(g->used_bytes, 1500);
	assert_int_equal(g->time_ns, 4 * MS);
	assert_int_equal(g->tracked_bytes, 400);
	assert_int_equal(g->unexplained_bytes, 1100);
	analyzed_release(&a);
}

/* --- steps --- */

static void trends(void **state)
{
	/* by Python's statistics, from the definition */
	static const struct {
		double values[8];
		size_t count;
		double slope, p;
	} cases[] = {
		{ { 1, 2, 3, 4, 5, 6 }, 6, 1, 0.004267 },
		{ { 6, 5, 4, 3, 2, 1 }, 6, -1, 1 },
		{ { 0, 5, 5, 5, 5, 5 }, 6, 0, 0.120783 },
		{ { 0, 10, 5, 15, 10, 20 }, 6, 2.5, 0.042584 },
		{ { 3, 3, 3, 3 }, 4, 0, 1 },
		{ { 4 }, 1, 0, 1 },
		{ { 0 }, 0, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		double slope, p;

		assert_int_equal(memory_trend(cases[i].values, cases[i].count, &slope, &p), 0);
		if (fabs(slope - cases[i].slope) > 1e-6 || fabs(p - cases[i].p) > 1e-5)
			fail_msg("case %zu: slope %f, p %f", i, slope, p);
	}
}

/* Steps of 10 ms; in each, a line allocates what `bytes` says for it and never releases it. */
static void add_steps(struct events *e, const uint64_t *bytes, size_t steps)
{
	uint32_t kernel = maker_config(e->m, "k", 1, 32), leak = line_stack(e->m, 30);
	uint32_t other = line_stack(e->m, 40);

	for (size_t i = 0; i < steps; i++) {
		uint64_t at = (1 + i) * 10 * MS;

		maker_scope(e->m, nvtx_kind_push, 1, "step", 0, at);
		e->m->stack = leak;
		if (bytes[i])
			allocate(e, at + MS, 0x100000 + (i << 12), bytes[i]);
		e->m->stack = other;
		allocate(e, at + 2 * MS, 0x9000, 5000);
		maker_call(e->m, MAKER_LAUNCH, 1, at + 3 * MS, at + 3 * MS + 5 * US,
			   ++e->correlation);
		maker_kernel(e->m, kernel, 7, at + 4 * MS, at + 5 * MS, e->correlation);
		release(e, at + 6 * MS, 0x9000);
		maker_scope(e->m, nvtx_kind_pop, 1, NULL, 0, at + 9 * MS);
	}
}

static struct analyzed growing(const char *folder, const uint64_t *bytes, size_t steps)
{
	struct events e = begin_events(folder);

	add_steps(&e, bytes, steps);
	return with_memory(&e, folder, (2 + steps) * 10 * MS);
}

static void leaks(void **state)
{
	static const uint64_t steady[] = { 10, 10, 10, 10, 10, 10, 10, 10 };
	const struct memory_leak *leak;
	struct analyzed a = growing(*state, steady, 8);

	assert_int_equal(a.report.steps->loops[0].count, 8);
	assert_int_equal(a.report.memory_steps->leak_count, 1);
	leak = a.report.memory_steps->leaks;
	assert_int_equal(caller_at(&a.report.callers, leak->line)->line, 30);
	assert_int_equal(leak->first_bytes, 10);
	assert_int_equal(leak->last_bytes, 80);
	assert_int_equal(leak->last_count, 8);
	assert_int_equal(leak->steps, 8);
	assert_true(fabs(leak->step_bytes - 10) < 1e-9 && leak->p < 0.001);
	analyzed_release(&a);
}

/* Memory that is released two steps later is live at the ends of steps, but does not grow. */
static void what_lives_for_steps_is_no_leak(void **state)
{
	static const uint64_t none[8] = { 0 };
	struct events e = begin_events(*state);
	struct analyzed a;

	add_steps(&e, none, 8);
	e.m->stack = line_stack(e.m, 50);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t at = (1 + i) * 10 * MS + 7 * MS, address = 0x8000 + (i % 2) * 0x800;

		if (i >= 2)
			release(&e, at, address);
		allocate(&e, at + MS, address, 1000);
	}
	allocate(&e, 95 * MS, 0xa000, 10); /* after the last step */
	a = with_memory(&e, *state, 100 * MS);
	assert_int_equal(a.report.steps->loops[0].count, 8);
	assert_int_equal(a.report.memory_steps->leak_count, 0);
	analyzed_release(&a);
}

/* What the sampler has seen belongs to the steps of the process itself. */
static void steps_of_what_is_seen_from_outside(void **state)
{
	static const uint64_t none[8] = { 0 };
	struct events e = begin_events(*state);
	struct analyzed a;

	add_steps(&e, none, 8);
	maker_close(e.m, 100 * MS);
	e.m = maker_begin_sampler(*state, 100, 10, "./app");
	e.kind = memory_kind_allocator_request;
	allocate(&e, 33 * MS, 0x7000, 60000);
	a = with_memory(&e, *state, 100 * MS);
	assert_int_equal(a.report.memory_use->items[0].kind, memory_kind_allocator_request);
	expect_part(&a.report.memory_peak->peak[MEMORY_BY_STEP], 0, 2, 60000, 1);
	expect_sums(&a.report);
	analyzed_release(&a);
}

static void few_steps_are_no_leak(void **state)
{
	static const uint64_t steady[] = { 1000, 1000, 1000, 1000, 1000 };
	struct analyzed a = growing(*state, steady, 5);

	assert_int_equal(a.report.steps->loops[0].count, 5);
	assert_int_equal(a.report.memory_steps->leak_count, 0);
	analyzed_release(&a);
}

/* A cache that fills up grows with p < 1 %, but not to the end. */
static void caches_are_no_leak(void **state)
{
	static const uint64_t filling[] = { 10, 10, 10, 10, 10, 10, 10, 0, 0, 0, 0, 0 };
	struct analyzed a = growing(*state, filling, 12);

	assert_int_equal(a.report.memory_steps->leak_count, 0);
	analyzed_release(&a);
}

static void churn(void **state)
{
	static const uint64_t once[] = { 10, 0, 0, 0, 0, 0, 0 };
	const struct memory_steps *s;
	struct analyzed a = growing(*state, once, 7);

	s = a.report.memory_steps;
	assert_int_equal(s->churn_count, 2);
	assert_int_equal(caller_at(&a.report.callers, s->churn[0].line)->line, 40);
	assert_int_equal(s->churn[0].allocations, 7);
	assert_int_equal(s->churn[0].releases, 7);
	assert_int_equal(s->churn[0].allocated_bytes, 35000);
	assert_int_equal(s->churn[0].synchronizing, 14);
	assert_int_equal(s->churn[0].host_ns, 14 * 5 * US);
	assert_int_equal(s->churn[0].steps, 7);
	assert_int_equal(s->churn[0].loop_steps, 7);
	assert_int_equal(s->churn[1].allocations, 1);
	assert_int_equal(s->churn[1].steps, 1);
	/* 4 ms, within one scope */
	assert_int_equal(s->lifetimes[0].counts[3], 7);
	assert_int_equal(s->lifetimes[0].bytes[3], 35000);
	assert_true(s->lifetimes[0].knows_ranges);
	assert_int_equal(s->lifetimes[0].same_range_count, 7);
	analyzed_release(&a);
}

/* A class of lifetimes ends before a power of ten, from 10 us on. */
static void lifetimes(void **state)
{
	struct events e = begin_events(*state);
	uint64_t at = 1 * MS, limit_ns = 10 * US;
	const struct memory_lifetime *l;
	struct analyzed a;

	for (unsigned i = 0; i + 1 < MEMORY_LIFETIMES; i++, limit_ns *= 10) {
		for (unsigned k = 0; k < 2; k++) {
			allocate(&e, at, 0x1000, 1 + i);
			at += limit_ns - 1 + k;
			release(&e, at, 0x1000);
			at += US;
		}
	}
	allocate(&e, at, 0x2000, 1000); /* is not released */
	a = with_memory(&e, *state, at + MS);
	l = &a.report.memory_steps->lifetimes[0];
	for (unsigned i = 0; i < MEMORY_LIFETIMES; i++) {
		unsigned shorter = i ? i : 0, longer = i + 1 < MEMORY_LIFETIMES ? i + 1 : 0;

		assert_int_equal(l->counts[i], (shorter != 0) + (longer != 0));
		assert_int_equal(l->bytes[i], shorter + longer);
	}
	assert_int_equal(l->same_range_count, 0);
	analyzed_release(&a);
}

/* In a window, only its calls count; the memory before it is live in it. */
static void window(void **state)
{
	static const uint64_t once[] = { 10, 10, 10, 10, 10, 10, 10 };
	struct report_options options = { .filter = FILTER_ALL, .memory = true };
	struct analyzed a = growing(*state, once, 7);

	analyzed_release(&a);
	options.filter.since_ns = 30 * MS;
	options.filter.until_ns = 50 * MS;
	analyze(&a, *state, options);
	assert_int_equal(a.report.memory_steps->churn[0].releases, 2);
	assert_int_equal(a.report.memory_use->items[0].live_bytes, 40);
	analyzed_release(&a);
}

static void not_requested(void **state)
{
	struct events e = begin_events(*state);
	struct analyzed a;

	allocate(&e, 1 * MS, 0x1000, 100);
	maker_close(e.m, 9 * MS);
	analyze(&a, *state, EVERYTHING);
	assert_null(a.report.memory_peak->curves);
	assert_null(a.report.memory_steps->lifetimes);
	assert_int_equal(a.report.memory_use->items[0].peak_bytes, 100);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(parts_add_up),
		folder_test(owners),
		folder_test(owners_of_what_is_seen_from_outside),
		folder_test(base_alone),
		folder_test(layers),
		folder_test(a_pool_whose_use_is_older),
		folder_test(a_pool_with_blocks_before_it),
		folder_test(curve),
		folder_test(pools),
		folder_test(unexplained),
		cmocka_unit_test(trends),
		folder_test(leaks),
		folder_test(what_lives_for_steps_is_no_leak),
		folder_test(steps_of_what_is_seen_from_outside),
		folder_test(few_steps_are_no_leak),
		folder_test(caches_are_no_leak),
		folder_test(churn),
		folder_test(lifetimes),
		folder_test(window),
		folder_test(not_requested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
