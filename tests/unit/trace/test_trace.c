#include "trace/trace.h"

#include "trace_fixture.h"

#include "trace/columns.h"

#include <errno.h>
#include <unistd.h>

/*
 * Two processes whose ids of strings and configurations are the same numbers with other meanings.
 */
static void merges_processes(void **state)
{
	struct maker *a = maker_begin(*state, 100, 1000, "./a");
	struct maker *b = maker_begin(*state, 200, 2000, "./b");
	uint32_t add_a = maker_config(a, "add", 4, 128), mul_a = maker_config(a, "mul", 4, 128);
	uint32_t mul_b = maker_config(b, "mul", 8, 256), sub_b = maker_config(b, "sub", 4, 128);
	const uint32_t *names, *configs;
	uint64_t total = 0;
	struct trace *t;

	assert_int_equal(add_a, mul_b);
	assert_int_equal(mul_a, sub_b);
	for (unsigned i = 0; i < 1000; i++) {
		maker_kernel(b, i % 2 ? mul_b : sub_b, 7, 5000 + 100 * i, 5010 + 100 * i + i, i);
		maker_kernel(a, i % 2 ? mul_a : add_a, 7, 5001 + 100 * i, 5021 + 100 * i, i);
	}
	maker_close(b, 900000);
	maker_close(a, 900000);

	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_int_equal(trace_process(t, 0)->pid, 100);
	assert_string_equal(trace_process(t, 1)->command, "./b");
	assert_int_equal(trace_rows(t, TABLE_kernel), 2000);
	load(t, TABLE_kernel,
	     COLUMN_BIT(kernel, start_ns) | COLUMN_BIT(kernel, end_ns) |
		     COLUMN_BIT(kernel, config));
	load(t, TABLE_kernel_config, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 2000);
	assert_int_equal(trace_first_row(t, TABLE_kernel, 0), 0);
	assert_int_equal(trace_first_row(t, TABLE_kernel, 1), 1000);
	assert_int_equal(trace_first_row(t, TABLE_kernel, 2), 2000);
	assert_int_equal(trace_row_process(t, TABLE_kernel, 999), 0);
	assert_int_equal(trace_row_process(t, TABLE_kernel, 1000), 1);
	assert_int_equal(trace_row_process(t, TABLE_kernel, 1999), 1);
	assert_string_equal(kernel_name(t, 0), "add");
	assert_string_equal(kernel_name(t, 1), "mul");
	assert_string_equal(kernel_name(t, 1000), "sub");
	assert_string_equal(kernel_name(t, 1001), "mul");
	configs = trace_u32(t, TABLE_kernel, COLUMN_kernel_config);
	names = trace_u32(t, TABLE_kernel_config, COLUMN_kernel_config_name);
	assert_int_not_equal(configs[1], configs[1001]);
	assert_int_equal(names[configs[1]], names[configs[1001]]);
	for (unsigned i = 0; i < 2000; i++)
		total += trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns)[i] -
			 trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns)[i];
	assert_int_equal(total, 1000 * 20 + 1000 * 10 + 999 * 1000 / 2);
	trace_free(t);
}

static void tells_missing_values(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	struct row_kernel row = { .end_ns = 0, .config = config, .correlation = 3, .channel = 9 };
	struct row_kernel lost = {
		.start_ns = 300, .end_ns = 310, .config = 12345, .correlation = 4
	};
	struct row_thread thread = { .tid = 5, .name = 54321, .time_ns = 4 };
	struct trace *t;
	bool missing;

	maker_kernel(m, config, 7, 100, 200, 1);
	maker_graph_kernel(m, config, 7, 210, 220, 2, 6, 77);
	ROW_MISSING(&row, kernel, start_ns);
	ROW_MISSING(&row, kernel, end_ns);
	writer_append(m->writer, TABLE_kernel, &row);
	writer_append(m->writer, TABLE_kernel, &lost);
	writer_append(m->writer, TABLE_thread, &thread);
	maker_nvtx(m, nvtx_kind_push, 1, "push", 50);
	maker_nvtx(m, nvtx_kind_pop, 1, NULL, 60);
	maker_close(m, 5000);

	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	load(t, TABLE_nvtx, 0);
	load(t, TABLE_thread, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 4);
	assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_correlation)[0], 3);
	assert_int_equal(trace_valid(t, TABLE_kernel, COLUMN_kernel_start_ns)[0], 0);
	assert_int_equal(trace_valid(t, TABLE_kernel, COLUMN_kernel_start_ns)[1], 1);
	assert_null(trace_valid(t, TABLE_kernel, COLUMN_kernel_correlation));
	trace_value(t, TABLE_kernel, COLUMN_kernel_end_ns, 0, &missing);
	assert_true(missing);
	assert_int_equal(trace_value(t, TABLE_kernel, COLUMN_kernel_end_ns, 1, &missing), 200);
	assert_false(missing);
	trace_value(t, TABLE_kernel, COLUMN_kernel_graph_node, 1, &missing);
	assert_true(missing);
	assert_int_equal(trace_value(t, TABLE_kernel, COLUMN_kernel_graph_node, 2, &missing), 77);
	assert_false(missing);
	trace_value(t, TABLE_kernel, COLUMN_kernel_correlation, 4, &missing);
	assert_true(missing);
	assert_int_equal(trace_u32(t, TABLE_kernel, COLUMN_kernel_config)[3], TRACE_NO_ROW);
	trace_value(t, TABLE_kernel, COLUMN_kernel_config, 3, &missing);
	assert_true(missing);
	assert_string_equal(trace_string(t, trace_u32(t, TABLE_thread, COLUMN_thread_name)[0]),
			    "?");
	assert_string_equal(trace_string(t, trace_u32(t, TABLE_nvtx, COLUMN_nvtx_message)[0]),
			    "push");
	assert_int_equal(trace_u32(t, TABLE_nvtx, COLUMN_nvtx_message)[1], 0);
	assert_int_equal(trace_valid(t, TABLE_nvtx, COLUMN_nvtx_message)[1], 0);
	trace_free(t);
}

static void reads_values_of_all_types(void **state)
{
	static const char text[] = "a\0b";
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct row_stream stream = {
		.id = 9, .context = 1, .time_ns = 10, .priority = -5, .non_blocking = 1
	};
	struct row_counter counter = { .id = 4, .name = maker_string(m, "power"), .decimals = 3 };
	struct row_counter_sample sample = {
		.time_ns = 20, .counter = 4, .device = 1, .value = -700
	};
	struct row_thread thread = { .tid = 1,
				     .name = writer_string(m->writer, text, 3),
				     .time_ns = 1 };
	struct trace *t;
	uint32_t id;

	writer_append(m->writer, TABLE_stream, &stream);
	writer_append(m->writer, TABLE_counter, &counter);
	writer_append(m->writer, TABLE_counter_sample, &sample);
	writer_append(m->writer, TABLE_thread, &thread);
	maker_close(m, 5000);
	t = open_recording(*state);
	load(t, TABLE_stream, 0);
	load(t, TABLE_counter, 0);
	load(t, TABLE_counter_sample, 0);
	load(t, TABLE_thread, 0);
	assert_true((int64_t)trace_value(t, TABLE_stream, COLUMN_stream_priority, 0, NULL) == -5);
	assert_int_equal(trace_value(t, TABLE_stream, COLUMN_stream_non_blocking, 0, NULL), 1);
	assert_int_equal(trace_u8(t, TABLE_stream, COLUMN_stream_non_blocking)[0], 1);
	assert_int_equal(trace_u32(t, TABLE_counter_sample, COLUMN_counter_sample_counter)[0], 0);
	assert_true((int64_t)trace_value(t, TABLE_counter_sample, COLUMN_counter_sample_value, 0,
					 NULL) == -700);
	id = trace_u32(t, TABLE_thread, COLUMN_thread_name)[0];
	assert_int_equal(trace_string_length(t, id), 3);
	assert_memory_equal(trace_string(t, id), text, 4);
	assert_string_equal(trace_string(t, 0), "");
	assert_string_equal(trace_string(t, trace_string_count(t)), "?");
	trace_free(t);
}

static void loads_strings_as_a_table(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	bool found = false;
	struct trace *t;

	maker_thread(m, 1, "worker", 5);
	maker_close(m, 5000);
	t = open_recording(*state);
	load(t, TABLE_string, 0);
	assert_true(trace_rows(t, TABLE_string) >= 2);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_string); row++)
		found |=
			strcmp(trace_string(t, trace_u32(t, TABLE_string, COLUMN_string_text)[row]),
			       "worker") == 0;
	assert_true(found);
	trace_free(t);
}

static void loads_columns_one_after_another(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);
	const uint64_t *starts;
	struct trace *t;

	for (unsigned i = 0; i < 100; i++)
		maker_kernel(m, config, i, 100 * i, 100 * i + 50, i);
	maker_close(m, 50000);
	t = open_recording(*state);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns));
	starts = trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns);
	assert_null(trace_column(t, TABLE_kernel, COLUMN_kernel_stream));
	load(t, TABLE_kernel, COLUMN_BIT(kernel, stream));
	assert_ptr_equal(starts, trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns));
	assert_int_equal(trace_u32(t, TABLE_kernel, COLUMN_kernel_stream)[42], 42);
	assert_int_equal(trace_load(t, TABLE_kernel, UINT64_C(1) << 60, NULL), E_USAGE);
	assert_int_equal(trace_load(t, 0, 0, NULL), E_USAGE);
	trace_free(t);
}

struct progress {
	uint64_t done, total;
	unsigned calls;
};

static void note_progress(void *user, uint64_t done, uint64_t total)
{
	*(struct progress *)user =
		(struct progress){ done, total, ((struct progress *)user)->calls + 1 };
}

static void tells_progress(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct progress last = { 0 };
	struct trace_options options = {
		.threads = 1,
		.progress = note_progress,
		.progress_user = &last,
	};
	struct trace *t;

	for (unsigned i = 0; i < 3000; i++) {
		maker_call(m, MAKER_LAUNCH, 100, 2000 + i, 2001 + i, i);
		if (i % 1000 == 999)
			maker_flush(m);
	}
	maker_close(m, 9000);
	assert_int_equal(trace_open(*state, &options, &t, NULL), 0);
	last.calls = 0;
	load(t, TABLE_api_call, COLUMN_BIT(api_call, thread));
	assert_int_equal(last.calls, 3);
	assert_int_equal(last.done, 3000);
	assert_int_equal(last.total, 3000);
	trace_free(t);
}

static void empty_tables_are_empty(void **state)
{
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, "./a"), 5000);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 0);
	assert_null(trace_column(t, TABLE_kernel, COLUMN_kernel_config));
	assert_int_equal(trace_first_row(t, TABLE_kernel, 1), 0);
	trace_free(t);
}

static void describes_the_recording(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct trace_table_size size;
	uint64_t start, end;
	struct trace *t;

	maker_kernel(m, maker_config(m, "add", 1, 32), 7, 3000, 3500, 1);
	maker_call(m, MAKER_LAUNCH, 100, 2000, 2100, 1);
	maker_close(m, 5000);
	t = open_recording(*state);
	trace_span(t, &start, &end);
	assert_int_equal(start, 1000);
	assert_int_equal(end, 5000);
	assert_int_equal(trace_unix_ns(t, 0), INT64_C(1767225600000000000));
	trace_table_size(t, TABLE_kernel, &size);
	assert_int_equal(size.rows, 1);
	assert_int_equal(size.blocks, 1);
	assert_true(size.bytes > 48);
	assert_int_equal(trace_segment_count(t), 1);
	assert_true(trace_file_bytes(t) > size.bytes);
	assert_int_equal(trace_verify(t, NULL), 0);
	assert_int_equal(trace_process(t, 0)->start_ns, 1000);
	assert_int_equal(trace_process(t, 0)->end_ns, 5000);
	assert_true(trace_process(t, 0)->closed);
	assert_true(trace_process(t, 0)->inside);
	assert_int_equal(trace_process(t, 0)->exit_status, -1);
	assert_null(trace_process(t, 1));
	trace_free(t);
}

static void opens_one_segment(void **state)
{
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, "./a"), 5000);
	maker_close(maker_begin(*state, 200, 1000, "./b"), 5000);
	t = open_recording(temp_file(*state, "200.0.pit"));
	assert_int_equal(trace_process_count(t), 1);
	assert_int_equal(trace_process(t, 0)->pid, 200);
	trace_free(t);
}

static void refuses_what_is_no_recording(void **state)
{
	const char *file = temp_file(*state, "notes.txt"), *garbage = temp_file(*state, "1.0.pit");
	struct error e = { 0 };
	struct trace *t = NULL;
	char text[512];
	FILE *f;

	assert_int_equal(trace_open(temp_file(*state, "none"), NULL, &t, &e), -ENOENT);
	assert_non_null(strstr(e.text, "none'"));
	snprintf(
		text, sizeof(text),
		"'%s' is not a recording: no .pit segment in it; name a folder that `pitot record` "
		"has made",
		(char *)*state);
	assert_int_equal(trace_open(*state, NULL, &t, &e), E_FORMAT);
	assert_string_equal(e.text, text);
	f = fopen(file, "w");
	fputs("no segment at all, but longer than a segment's header would be, by far\n", f);
	fclose(f);
	assert_int_equal(trace_open(file, NULL, &t, &e), E_FORMAT);
	assert_non_null(strstr(e.text, "notes.txt"));
	assert_int_equal(rename(file, garbage), 0);
	assert_int_equal(trace_open(*state, NULL, &t, &e), E_FORMAT);
	assert_non_null(strstr(e.text, "1.0.pit"));
	assert_null(t);
}

/* refs.c relies on it. */
static void tables_referred_to_have_ids_and_no_time(void **state)
{
	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *table = schema_table(id);

		for (int c = 0; c < table->column_count; c++) {
			const struct table_schema *target = schema_table(table->columns[c].ref);
			int column = target ? schema_column_by_name(target, "id") : -1;

			if (!target)
				continue;
			assert_int_equal(target->time_column, -1);
			assert_true(column >= 0);
			assert_int_equal(target->columns[column].type, COLUMN_TYPE_U32);
		}
	}
}

/*
 * Blocks without a value, with some and with all; the last one is earlier than the others, so that
 * rows are sorted.
 */
static void columns_with_and_without_values(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 4, 128);
	const struct kernel_columns *k;
	struct trace *t;

	for (unsigned block = 0; block < 4; block++) {
		uint64_t at = block == 3 ? 5000 : 10000 + 1000 * block;

		for (unsigned i = 0; i < 10; i++) {
			if (block == 1 || (block == 2 && i % 2))
				maker_graph_kernel(m, config, 7, at + 10 * i, at + 10 * i + 5, 1, 9,
						   100 * block + i);
			else
				maker_kernel(m, config, 7, at + 10 * i, at + 10 * i + 5, 1);
		}
		maker_flush(m);
	}
	maker_close(m, 50000);
	t = open_recording(*state);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, graph_node));
	load(t, TABLE_kernel, 0);
	k = kernel_columns(t);
	assert_int_equal(trace_rows(t, TABLE_kernel), 40);
	for (unsigned row = 0; row < 40; row++) {
		unsigned block = row < 10 ? 3 : row / 10 - 1, i = row % 10;
		bool has = block == 1 || (block == 2 && i % 2);

		assert_int_equal(k->start_ns[row],
				 (block == 3 ? 5000 : 10000 + 1000 * block) + 10 * i);
		assert_int_equal(k->valid.graph_node[row], has);
		assert_int_equal(k->valid.graph[row], has);
		assert_int_equal(k->graph_node[row], has ? 100 * block + i : 0);
		assert_int_equal(k->graph[row], has ? 9 : 0);
		assert_int_equal(k->valid.queued_ns[row], 0);
		assert_int_equal(k->queued_ns[row], 0);
	}
	assert_null(k->valid.start_ns);
	assert_true(trace_has_values(t, TABLE_kernel, COLUMN_kernel_start_ns));
	assert_true(
		trace_has_values(t, TABLE_kernel, COLUMN_kernel_graph_node)); /* in two blocks */
	assert_false(trace_has_values(t, TABLE_kernel, COLUMN_kernel_queued_ns)); /* missing */
	assert_false(trace_has_values(t, TABLE_kernel, COLUMN_kernel_device)); /* 0 */
	trace_free(t);
}

/* What was loaded for the join alone is gone after it, and can be loaded and joined again. */
static void launches_are_done(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 4, 128);
	const uint32_t *kernels, *copies;
	struct trace *t;

	for (unsigned i = 0; i < 4; i++) {
		maker_call(m, MAKER_LAUNCH, 100, 10000 + 10 * i, 10005 + 10 * i, 1 + i);
		maker_kernel(m, config, 7, 10000 + 10 * i, 10007 + 10 * i, 4 - i);
	}
	maker_call(m, MAKER_MEMCPY, 100, 20000, 20010, 9);
	maker_memcpy(m, copy_kind_HtoD, 64, 7, 20020, 20030, 9);
	maker_close(m, 50000);
	t = open_recording(*state);
	load(t, TABLE_api_call, COLUMN_BIT(api_call, correlation));
	assert_int_equal(trace_launches(t, TABLE_kernel, &kernels, NULL), 0);
	assert_non_null(kernel_columns(t)->correlation);
	trace_launches_done(t);
	assert_null(kernel_columns(t)->correlation);
	assert_int_equal(api_call_columns(t)->correlation[4], 9); /* was loaded before */
	assert_int_equal(trace_launches(t, TABLE_memcpy, &copies, NULL), 0);
	load(t, TABLE_memcpy, COLUMN_BIT(memcpy, correlation));
	load(t, TABLE_kernel, COLUMN_BIT(kernel, correlation));
	trace_launches_done(t);
	assert_int_equal(memcpy_columns(t)->correlation[0],
			 9); /* was loaded by somebody else, too */
	assert_int_equal(copies[0], 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(kernels[i], 3 - i);
		assert_int_equal(kernel_columns(t)->correlation[i], 4 - i);
	}
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(columns_with_and_without_values),
		folder_test(launches_are_done),
		folder_test(merges_processes),
		folder_test(tells_missing_values),
		folder_test(reads_values_of_all_types),
		folder_test(loads_strings_as_a_table),
		folder_test(loads_columns_one_after_another),
		folder_test(tells_progress),
		folder_test(empty_tables_are_empty),
		folder_test(describes_the_recording),
		folder_test(opens_one_segment),
		folder_test(refuses_what_is_no_recording),
		cmocka_unit_test(tables_referred_to_have_ids_and_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
