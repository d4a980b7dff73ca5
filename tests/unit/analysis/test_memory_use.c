#include "analysis/memory/memory_use.h"

#include "analysis/memory/memory_peak.h"
#include "report_fixture.h"

static void allocate(struct maker *m, enum memory_operation operation, uint64_t time_ns,
		     uint64_t address, uint64_t bytes)
{
	struct row_allocation row = { .time_ns = time_ns,
				      .operation = (uint8_t)operation,
				      .kind = memory_kind_device,
				      .address = address,
				      .bytes = bytes };

	writer_append(m->writer, TABLE_allocation, &row);
}

static void peak_and_rest(void **state)
{
	struct maker *m = begin(*state, 100);
	struct report_options options = EVERYTHING;
	struct analyzed a;
	const struct memory_group *g;

	allocate(m, memory_operation_allocation, 1000, 0x1000, 100);
	allocate(m, memory_operation_allocation, 2000, 0x2000, 50);
	allocate(m, memory_operation_release, 3000, 0x1000, 0);
	allocate(m, memory_operation_allocation, 4000, 0x1000, 120);
	allocate(m, memory_operation_release, 5000, 0x1000, 120);
	allocate(m, memory_operation_release, 6000, 0x9000,
		 10); /* allocated before recording began */
	maker_close(m, 9000);
	analyze(&a, *state, options);
	assert_int_equal(a.report.memory_use->count, 1);
	g = &a.report.memory_use->items[0];
	assert_int_equal(g->allocations, 3);
	assert_int_equal(g->allocated_bytes, 270);
	assert_int_equal(g->releases, 3);
	assert_int_equal(g->unknown_releases, 1);
	assert_int_equal(g->peak_bytes, 180); /* with what was there before */
	assert_int_equal(g->peak_ns, 4000);
	assert_int_equal(g->live, 1);
	assert_int_equal(g->live_bytes, 50);
	analyzed_release(&a);
	options.filter.since_ns = 1500;
	options.filter.until_ns = 3500;
	analyze(&a, *state, options);
	assert_int_equal(a.report.memory_use->items[0].peak_bytes, 150);
	assert_int_equal(a.report.memory_use->items[0].live_bytes, 50);
	analyzed_release(&a);
}

static void sizes_of_any_sum(void **state)
{
	struct maker *m = begin(*state, 100);
	struct report_options options = EVERYTHING;
	struct analyzed a;

	options.memory = true;
	for (unsigned i = 0; i < 5; i++)
		allocate(m, memory_operation_allocation, 1000 + i, 0x1000 + i,
			 UINT64_C(0x7000000000000000));
	allocate(m, memory_operation_release, 3000, 0x1000, 0);
	allocate(m, memory_operation_release, 4000, 0x9000, UINT64_MAX);
	maker_close(m, 9000);
	analyze(&a, *state, options);
	assert_int_equal(a.report.memory_use->items[0].live, 4);
	analyzed_release(&a);
}

/* As many groups as rows: each is as cheap as its rows. */
static void groups_without_end(void **state)
{
	struct maker *m = begin(*state, 100);
	struct report_options options = EVERYTHING;
	const uint32_t groups = 50000;
	struct analyzed a;

	options.memory = true;
	for (uint32_t i = 0; i < groups; i++) {
		struct row_allocation row = { .time_ns = 1000 + i,
					      .operation = memory_operation_allocation,
					      .kind = i % 2 ? memory_kind_allocator_block
							    : memory_kind_allocator_segment,
					      .device = i / 2,
					      .address = 0x1000 + i,
					      .bytes = 512 + i };

		writer_append(m->writer, TABLE_allocation, &row);
	}
	maker_close(m, 90000);
	analyze(&a, *state, options);
	assert_int_equal(a.report.memory_use->count, groups);
	assert_int_equal(a.report.memory_peak->pool_count, groups / 2);
	assert_int_equal(a.report.memory_peak->curves[0].points[0].bytes, 512 + groups - 1);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(peak_and_rest),
		folder_test(sizes_of_any_sum),
		folder_test(groups_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
