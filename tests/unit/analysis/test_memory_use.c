#include "analysis/memory/memory_use.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = { folder_test(peak_and_rest) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
