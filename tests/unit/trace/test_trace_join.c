#include "trace/trace.h"

#include "trace_fixture.h"

static const uint32_t *launches(struct trace *t, enum table_id table)
{
	struct error e = { 0 };
	const uint32_t *calls;

	if (trace_launches(t, table, &calls, &e) < 0)
		fail_msg("%s", e.text);
	return calls;
}

static uint64_t call_start(struct trace *t, uint32_t call)
{
	load(t, TABLE_api_call, COLUMN_BIT(api_call, start_ns));
	assert_int_not_equal(call, TRACE_NO_ROW);
	return trace_u64(t, TABLE_api_call, COLUMN_api_call_start_ns)[call];
}

/*
 * The same correlation ids in two processes; some kernels without a call, some calls without a
 * kernel.
 */
static void joins_within_the_process(void **state)
{
	const uint32_t pids[] = { 100, 200 };
	const uint32_t *calls;
	struct trace *t;

	for (unsigned p = 0; p < 2; p++) {
		struct maker *m = maker_begin(*state, pids[p], 1000 + p, "./a");
		uint32_t config = maker_config(m, "add", 1, 32);

		for (unsigned i = 1; i <= 500; i++) {
			if (i % 10)
				maker_call(m, MAKER_LAUNCH, pids[p], 2000 + 100 * i + p,
					   2050 + 100 * i, 7 * i);
			if (i % 9)
				maker_kernel(m, config, 7, 900000 - 1000 * i, 900000 - 1000 * i + 1,
					     7 * i);
		}
		maker_kernel(m, config, 7, 1000000, 1000001, 0);
		maker_kernel(m, config, 7, 1000002, 1000003, UINT64_MAX);
		maker_call(m, MAKER_LAUNCH, pids[p], 2000000, 2000001, 0);
		maker_close(m, 5000000);
	}
	t = open_recording(*state);
	calls = launches(t, TABLE_kernel);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, correlation));
	for (uint64_t row = 0; row < trace_rows(t, TABLE_kernel); row++) {
		uint64_t i = trace_u64(t, TABLE_kernel, COLUMN_kernel_correlation)[row] / 7;

		if (i == 0 || i % 10 == 0 || i > 500)
			assert_int_equal(calls[row], TRACE_NO_ROW);
		else
			assert_int_equal(call_start(t, calls[row]),
					 2000 + 100 * i + trace_row_process(t, TABLE_kernel, row));
	}
	trace_free(t);
}

static void graph_kernels_share_a_launch(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "node", 1, 32);
	const uint32_t *calls;
	struct trace *t;

	for (unsigned i = 0; i < 50; i++) {
		maker_call(m, MAKER_GRAPH_LAUNCH, 100, 10000 * i, 10000 * i + 9, 100 + i);
		for (unsigned node = 0; node < 300; node++)
			maker_graph_kernel(m, config, 7, 10000 * i + 30 * node,
					   10000 * i + 30 * node + 20, 100 + i, 2, node);
	}
	maker_close(m, 5000000);
	t = open_recording(*state);
	calls = launches(t, TABLE_kernel);
	assert_ptr_equal(calls, launches(t, TABLE_kernel));
	for (unsigned row = 0; row < 50 * 300; row++)
		assert_int_equal(calls[row], row / 300);
	trace_free(t);
}

/* A runtime function and the driver function that it calls have one id. */
static void prefers_the_call_that_fits(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	struct row_api_function other = { .id = 5,
					  .name = maker_string(m, "other"),
					  .kind = api_kind_other };
	struct trace *t;

	writer_api_function(m->writer, 5, &other);
	/* 1: both fit, the outermost is taken; 2: only the inner one fits; 3: none does */
	maker_call(m, MAKER_RUNTIME_LAUNCH, 100, 2000, 2900, 1);
	maker_call(m, MAKER_LAUNCH, 100, 2100, 2800, 1);
	maker_call(m, (enum maker_function)5, 100, 3000, 3900, 2);
	maker_call(m, MAKER_LAUNCH, 100, 3100, 3800, 2);
	maker_call(m, (enum maker_function)5, 100, 4000, 4900, 3);
	maker_call(m, MAKER_MALLOC, 100, 4100, 4800, 3);
	/* 4: a copy and a synchronization of one id */
	maker_call(m, MAKER_MEMCPY, 100, 5000, 5900, 4);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 100, 5100, 5800, 4);
	for (unsigned id = 1; id <= 3; id++)
		maker_kernel(m, config, 7, 10000 * id, 10000 * id + 5, id);
	maker_memcpy(m, copy_kind_HtoD, 4096, 7, 5200, 5300, 4);
	maker_synchronization(m, synchronization_kind_stream, 7, 5400, 5500, 4);
	maker_memset(m, 4096, 7, 9000, 9100, 99);
	maker_close(m, 500000);
	t = open_recording(*state);
	assert_int_equal(call_start(t, launches(t, TABLE_kernel)[0]), 2000);
	assert_int_equal(call_start(t, launches(t, TABLE_kernel)[1]), 3100);
	assert_int_equal(call_start(t, launches(t, TABLE_kernel)[2]), 4000);
	assert_int_equal(call_start(t, launches(t, TABLE_memcpy)[0]), 5000);
	assert_int_equal(call_start(t, launches(t, TABLE_synchronization)[0]), 5100);
	assert_int_equal(launches(t, TABLE_memset)[0], TRACE_NO_ROW);
	trace_free(t);
}

/* Ids far apart and out of order, and one id for very many calls. */
static void joins_scattered_ids(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	const uint32_t *calls;
	struct trace *t;

	for (unsigned i = 1; i <= 3000; i++) {
		uint64_t id = i < 2000 ? i : (uint64_t)i << 48 | i;

		maker_call(m, MAKER_LAUNCH, 100, 10 * i, 10 * i + 5, id);
		maker_kernel(m, config, 7, 1000000 + i, 1000000 + i + 1, id);
	}
	for (unsigned i = 0; i < 2000; i++)
		maker_call(m, MAKER_MALLOC, 100, 100000 + i, 100000 + i, 5000);
	maker_kernel(m, config, 7, 2000000, 2000001, 5000);
	maker_kernel(m, config, 7, 2000002, 2000003, (uint64_t)77 << 50);
	maker_close(m, 5000000);
	t = open_recording(*state);
	calls = launches(t, TABLE_kernel);
	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal(calls[i], i);
	assert_int_equal(call_start(t, calls[3000]), 100000);
	assert_int_equal(calls[3001], TRACE_NO_ROW);
	trace_free(t);
}

/*
 * Ids go on beyond the 32 bits of CUPTI's counter: calls whose ids differ only above them are
 * different calls, whether the ids run on (a recorder of 13 hours) or the counter began anew.
 */
static void joins_ids_beyond_32_bits(void **state)
{
	static const uint64_t firsts[] = { 1, UINT64_C(0xffffff38), UINT64_C(0x100000001),
					   UINT64_C(0xffffffff00000001) };
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	const uint32_t *calls;
	struct trace *t;

	for (unsigned f = 0; f < ARRAY_SIZE(firsts); f++)
		for (unsigned i = 0; i < 200; i++) {
			uint64_t time = 2000 + 100 * (200 * f + i);

			maker_call(m, MAKER_LAUNCH, 100, time, time + 10, firsts[f] + i);
			maker_kernel(m, config, 7, time + 1000000, time + 1000010, firsts[f] + i);
		}
	maker_close(m, 5000000);
	t = open_recording(*state);
	calls = launches(t, TABLE_kernel);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns) | COLUMN_BIT(kernel, correlation));
	assert_int_equal(trace_rows(t, TABLE_kernel), 200 * ARRAY_SIZE(firsts));
	for (uint64_t row = 0; row < trace_rows(t, TABLE_kernel); row++) {
		assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_correlation)[row],
				 firsts[row / 200] + row % 200);
		assert_int_equal(call_start(t, calls[row]) + 1000000,
				 trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns)[row]);
	}
	trace_free(t);
}

/* Two threads whose calls have ids out of order, and columns in the memory of these ids. */
static void joins_ids_out_of_order(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	const uint32_t *calls;
	struct trace *t;

	for (unsigned i = 0; i < 1000; i++) {
		maker_call(m, MAKER_LAUNCH, 100 + i % 2, 2000 + 10 * i, 2005 + 10 * i,
			   1 + (i * 7 ^ 1));
		maker_kernel(m, config, 7, 100000 + 10 * i, 100001 + 10 * i,
			     1 + ((i * 389 % 1000) * 7 ^ 1));
	}
	maker_close(m, 5000000);
	t = open_recording(*state);
	calls = launches(t, TABLE_kernel);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(calls[i], i * 389 % 1000);
	trace_launches_done(t);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, graph_node));
	load(t, TABLE_kernel, COLUMN_BIT(kernel, end_ns));
	load(t, TABLE_api_call, COLUMN_BIT(api_call, end_ns));
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_graph_node)[i], 0);
		assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns)[i],
				 100001 + 10 * i);
		assert_int_equal(trace_u64(t, TABLE_api_call, COLUMN_api_call_end_ns)[i],
				 2005 + 10 * i);
	}
	trace_free(t);
}

static void tables_without_launches(void **state)
{
	struct error e = { 0 };
	const uint32_t *calls;
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, "./a"), 5000);
	t = open_recording(*state);
	assert_int_equal(trace_launches(t, TABLE_thread, &calls, &e), E_USAGE);
	assert_string_equal(e.text, "table 'thread' has no launches");
	assert_int_equal(trace_launches(t, TABLE_kernel, &calls, &e), 0);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(joins_within_the_process),   folder_test(graph_kernels_share_a_launch),
		folder_test(prefers_the_call_that_fits), folder_test(joins_scattered_ids),
		folder_test(joins_ids_beyond_32_bits),   folder_test(joins_ids_out_of_order),
		folder_test(tables_without_launches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
