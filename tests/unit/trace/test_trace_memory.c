#include "failing_alloc.h"
#include "trace/trace.h"

#include "trace_fixture.h"

#include <errno.h>

#include "trace/id_table.h"

/* After a failure everything can be asked for again. */
static void check_still_usable(struct trace *t)
{
	const struct trace_loss *losses;
	const uint32_t *calls;
	size_t count;

	assert_int_equal(trace_load(t, TABLE_kernel, 0, NULL), 0);
	assert_int_equal(trace_launches(t, TABLE_kernel, &calls, NULL), 0);
	assert_int_equal(trace_losses(t, &losses, &count, NULL), 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 40);
}

/* Opens, loads, joins, lists losses; the first code that is not 0. */
static int use_trace(const char *folder, struct error *e)
{
	struct trace_options options = { .threads = 1 };
	const struct trace_loss *losses;
	const uint32_t *calls;
	struct trace *t = NULL;
	size_t count;
	int result = trace_open(folder, &options, &t, e);

	for (uint32_t table = 1; table <= TABLE_MAX && result == 0; table++)
		result = trace_load(t, table, 0, e);
	if (result == 0)
		result = trace_launches(t, TABLE_kernel, &calls, e);
	if (result == 0)
		result = trace_losses(t, &losses, &count, e);
	if (result == 0 && count != 1)
		result = -EPROTO;
	if (t && result < 0)
		check_still_usable(t);
	if (result == 0 && trace_rows(t, TABLE_kernel) != 40)
		result = -EPROTO;
	trace_free(t);
	return result;
}

/*
 * Every allocation may fail: then it is an error with a text, nothing leaks, and nothing is taken
 * for damage.
 */
static void failing_allocations(void **state)
{
	struct writer_options two_segments = { .segment_bytes = 1 };
	struct maker *m = maker_begin_with(two_segments, *state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	unsigned failures = 0;

	for (unsigned i = 0; i < 40; i++) {
		uint64_t start = 1000 * (i % 20) + i;

		maker_call(m, MAKER_LAUNCH, 100, 5000 + i, 5001 + i, i + 1);
		if (i % 3)
			maker_kernel(m, config, 7, start, start + 9, i + 1);
		else
			maker_graph_kernel(m, config, 7, start, start + 9, i + 1, 2, 3);
		if (i == 20)
			maker_flush(m);
	}
	maker_loss(m, loss_reason_ring_full, 1, 10, 20, "ring");
	maker_close(m, 50000);
	maker_record(*state, 100, 50, 900, 8000, "./a", 0);
	maker_record(*state, 101, 50, 900, 8000, "./b", 0);
	FOR_EACH_FAILURE(n)
	{
		struct error e = { 0 };
		int result = use_trace(*state, &e);

		if (!failing_alloc_failed) {
			assert_int_equal(result, 0);
			continue;
		}
		failures++;
		if (result < 0)
			assert_int_not_equal(e.text[0], 0);
		if (result < 0)
			assert_int_equal(result, -ENOMEM);
	}
	assert_true(failures * FAILURE_STEP > 50);
}

static void id_tables(void **state)
{
	struct id_table table = { .sparse = MAP_INIT };
	uint32_t keys[] = { 10, 4000000000u, 12, 10 };

	(void)state;
	assert_int_equal(id_table_get(&table, 0), ID_ABSENT);
	assert_int_equal(id_table_fill(&table, keys, NULL, 5, 4, 1000), 0);
	assert_null(table.direct);
	assert_int_equal(id_table_get(&table, 10), 5);
	assert_int_equal(id_table_get(&table, 4000000000u), 6);
	assert_int_equal(id_table_get(&table, 12), 7);
	assert_int_equal(id_table_get(&table, 11), ID_ABSENT);
	id_table_release(&table);
	keys[1] = 11;
	assert_int_equal(id_table_fill(&table, keys, keys, 0, 4, 0), 0);
	assert_non_null(table.direct);
	assert_int_equal(id_table_get(&table, 10), 10);
	assert_int_equal(id_table_get(&table, 11), 11);
	assert_int_equal(id_table_get(&table, 9), ID_ABSENT);
	assert_int_equal(id_table_get(&table, 13), ID_ABSENT);
	assert_int_equal(id_table_get(&table, UINT64_MAX), ID_ABSENT);
	id_table_release(&table);
	keys[1] = 1000;
	for (uint64_t spare = 0; spare < 1000; spare += 999) {
		assert_int_equal(id_table_fill(&table, keys, keys, 0, 4, spare), 0);
		assert_int_equal(!table.direct, !spare);
		assert_int_equal(id_table_get(&table, 1000), 1000);
		id_table_release(&table);
	}
	assert_int_equal(id_table_init(&table, 0, UINT64_MAX, 3, 0), 0);
	assert_null(table.direct);
	assert_int_equal(id_table_add(&table, UINT64_MAX, 1), 1);
	assert_int_equal(id_table_add(&table, UINT64_MAX, 2), 0);
	assert_int_equal(id_table_get(&table, UINT64_MAX), 1);
	id_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(failing_allocations),
		cmocka_unit_test(id_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
