#include "trace/trace_state.h"

#include "trace_fixture.h"

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t bound)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % bound;
}

/* A permutation of each process's rows, in order of time, rows of equal time in their old order. */
static void check_order(const uint64_t *times, const uint64_t *first_row, size_t processes,
			const uint32_t *order)
{
	bool *seen = calloc(first_row[processes] + 1, sizeof(*seen));

	assert_non_null(seen);
	for (size_t p = 0; p < processes; p++) {
		for (uint64_t i = first_row[p]; i < first_row[p + 1]; i++) {
			assert_in_range(order[i], first_row[p], first_row[p + 1] - 1);
			assert_false(seen[order[i]]);
			seen[order[i]] = true;
			if (i == first_row[p])
				continue;
			assert_true(times[order[i - 1]] <= times[order[i]]);
			if (times[order[i - 1]] == times[order[i]])
				assert_true(order[i - 1] < order[i]);
		}
	}
	free(seen);
}

static void sorted_rows_stay(void **state)
{
	const uint64_t times[] = { 5, 5, 9, 1, 2, 3 }, first_row[] = { 0, 3, 3, 6 };
	uint32_t *order;

	(void)state;
	assert_int_equal(sort_rows(times, first_row, 3, &order), 0);
	assert_null(order);
}

static void sorts_any_order(void **state)
{
	uint64_t times[3000];

	(void)state;
	for (unsigned round = 0; round < 400; round++) {
		uint64_t first_row[4] = { 0, 0, 0, 0 };
		uint64_t spread = 1 + random_below(round % 2 ? 8 : 1000000);
		uint32_t *order;

		for (size_t p = 0; p < 3; p++) {
			uint64_t run = 1 + random_below(200), time = 0;

			first_row[p + 1] = first_row[p] + random_below(1000);
			for (uint64_t i = first_row[p]; i < first_row[p + 1]; i++) {
				time = i % run ? time + random_below(3) : random_below(spread);
				times[i] = time;
			}
		}
		assert_int_equal(sort_rows(times, first_row, 3, &order), 0);
		if (order)
			check_order(times, first_row, 3, order);
		free(order);
	}
}

static void reversed_rows(void **state)
{
	uint64_t times[1000], first_row[] = { 0, 1000 };
	uint32_t *order;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		times[i] = UINT64_MAX - i;
	assert_int_equal(sort_rows(times, first_row, 1, &order), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(order[i], 999 - i);
	free(order);
}

/* Two ranges of a permutation, and rows between them that stay. */
static void applies_to_all_widths(void **state)
{
	const uint32_t order[] = { 0, 3, 1, 2, 4, 6, 5 };

	(void)state;
	for (size_t width = 1; width <= 8; width *= 2) {
		uint8_t *values = calloc(ARRAY_SIZE(order), width);

		assert_non_null(values);
		for (size_t i = 0; i < ARRAY_SIZE(order); i++)
			values[i * width + width - 1] = (uint8_t)(10 + i);
		assert_int_equal(sort_apply(values, width, order, ARRAY_SIZE(order)), 0);
		for (size_t i = 0; i < ARRAY_SIZE(order); i++)
			assert_int_equal(values[i * width + width - 1], 10 + order[i]);
		free(values);
	}
}

/*
 * Buffers of two streams arrive late, in blocks that overlap; a column that is loaded later
 * follows, also where its values are only 0 or missing.
 */
static void orders_overlapping_blocks(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	const uint64_t *starts;
	const uint32_t *streams;
	const uint8_t *graph_valid;
	struct trace *t;

	for (unsigned block = 0; block < 20; block++) {
		for (unsigned i = 0; i < 50; i++) {
			uint64_t start = 10000 * (block / 2) + 100 * i + 7 * (block % 2);

			if (i % 10 == 0)
				maker_graph_kernel(m, config, 70 + block % 2, start, start + 5,
						   start, 0, start);
			else
				maker_kernel(m, config, 70 + block % 2, start, start + 5, start);
		}
		maker_flush(m);
	}
	maker_close(m, 500000);
	t = open_recording(*state);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns));
	starts = trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns);
	load(t, TABLE_kernel, 0);
	assert_ptr_equal(starts, trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns));
	streams = trace_u32(t, TABLE_kernel, COLUMN_kernel_stream);
	graph_valid = trace_valid(t, TABLE_kernel, COLUMN_kernel_graph);
	for (unsigned row = 0; row < 1000; row++) {
		assert_int_equal(starts[row],
				 10000 * (row / 100) + 100 * (row % 100 / 2) + 7 * (row % 2));
		assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_correlation)[row],
				 starts[row]);
		assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns)[row],
				 starts[row] + 5);
		assert_int_equal(streams[row], 70 + row % 2);
		assert_int_equal(graph_valid[row], row % 20 < 2);
		assert_int_equal(trace_u32(t, TABLE_kernel, COLUMN_kernel_graph)[row], 0);
	}
	trace_free(t);
}

/*
 * Once the order of rows is forgotten no column can follow it; where rows are in order it is not
 * needed.
 */
static void loading_ends(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct error e = { 0 };
	struct trace *t;

	for (unsigned i = 0; i < 3; i++) {
		maker_kernel(m, maker_config(m, "add", 1, 32), 7, 5000 + 100 * i, 9000, i + 1);
		maker_kernel(m, maker_config(m, "add", 1, 32), 8, 8000 + 100 * i, 9000, i + 4);
		maker_memset(m, 64, 7, 5000 + 100 * i, 6000, i + 1);
		maker_flush(m);
	}
	maker_close(m, 10000);
	t = open_recording(*state);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns));
	load(t, TABLE_memset, COLUMN_BIT(memset, start_ns));
	trace_load_done(t);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns));
	assert_int_equal(trace_load(t, TABLE_kernel, COLUMN_BIT(kernel, end_ns), &e), E_USAGE);
	load(t, TABLE_memset, 0);
	load(t, TABLE_kernel_config, 0);
	trace_free(t);
}

/* Four streams whose buffers arrive late, in two processes, and what was written of them. */
static uint64_t make_many(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, 1000, "./a");
	uint64_t now[4] = { 5000, 6000, 7000, 8000 }, total = 0;
	uint32_t configs[] = { maker_config(m, "add", 1, 32), maker_config(m, "mul", 1, 32) };

	for (unsigned i = 0; i < 60000; i++) {
		unsigned stream = i / 500 % 4;
		uint64_t duration = random_below(5000);

		maker_call(m, MAKER_LAUNCH, pid + stream, now[stream], now[stream] + 100, i + 1);
		maker_kernel(m, configs[i % 2], 7 + stream, now[stream] + 200,
			     now[stream] + 200 + duration, i + 1);
		if (i % 5 == 0)
			maker_memcpy(m, copy_kind_HtoD, duration, 7, now[stream] + 1,
				     now[stream] + 2, i + 1);
		now[stream] += 250 + duration;
		total += duration;
		if (i % 7000 == 0)
			maker_flush(m);
	}
	maker_close(m, UINT64_C(1) << 40);
	return total;
}

static void same_column(struct trace *a, struct trace *b, enum table_id table, int column,
			size_t width)
{
	size_t rows = trace_rows(a, table);

	assert_memory_equal(trace_column(a, table, column), trace_column(b, table, column),
			    rows * width);
	assert_int_equal(trace_valid(a, table, column) != NULL,
			 trace_valid(b, table, column) != NULL);
	if (trace_valid(a, table, column))
		assert_memory_equal(trace_valid(a, table, column), trace_valid(b, table, column),
				    rows);
}

/* Whatever the number of threads, all rows arrive, sums are what was written, and launches fit. */
static void threads_make_no_difference(void **state)
{
	const enum table_id tables[] = { TABLE_kernel, TABLE_api_call, TABLE_memcpy };
	uint64_t written = make_many(*state, 100) + make_many(*state, 200), read = 0;
	struct trace *one = open_with(*state, 1), *four = open_with(*state, 4);
	const uint32_t *calls_one, *calls_four;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		const struct table_schema *schema = schema_table(tables[i]);

		load(one, tables[i], 0);
		load(four, tables[i], 0);
		assert_int_equal(trace_rows(one, tables[i]), trace_rows(four, tables[i]));
		for (int c = 0; c < schema->column_count; c++)
			same_column(one, four, tables[i], c, schema->columns[c].width);
	}
	assert_int_equal(trace_rows(four, TABLE_kernel), 120000);
	for (uint64_t row = 0; row < 120000; row++)
		read += trace_u64(four, TABLE_kernel, COLUMN_kernel_end_ns)[row] -
			trace_u64(four, TABLE_kernel, COLUMN_kernel_start_ns)[row];
	assert_true(read == written);
	assert_int_equal(trace_launches(one, TABLE_kernel, &calls_one, NULL), 0);
	assert_int_equal(trace_launches(four, TABLE_kernel, &calls_four, NULL), 0);
	assert_memory_equal(calls_one, calls_four, 120000 * sizeof(*calls_one));
	for (uint64_t row = 0; row < 120000; row++) {
		assert_int_not_equal(calls_four[row], TRACE_NO_ROW);
		assert_true(
			trace_u64(four, TABLE_kernel, COLUMN_kernel_start_ns)[row] ==
			trace_u64(four, TABLE_api_call, COLUMN_api_call_start_ns)[calls_four[row]] +
				200);
	}
	trace_free(one);
	trace_free(four);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorted_rows_stay),
		cmocka_unit_test(sorts_any_order),
		cmocka_unit_test(reversed_rows),
		cmocka_unit_test(applies_to_all_widths),
		folder_test(orders_overlapping_blocks),
		folder_test(threads_make_no_difference),
		folder_test(loading_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
