/* Rows that are repeated from segment to segment are there once, whichever segments are left. */
#include "trace_fixture.h"

#include "base/map.h"
#include "trace/columns.h"

#define SEGMENTS 4

static const struct writer_options tiny = { .segment_bytes = 1 }; /* a segment a flush */

static void write_process(const char *folder, uint32_t pid, uint64_t start_ns)
{
	struct maker *m = maker_begin_with(tiny, folder, pid, start_ns, "./a");

	maker_device(m, 0, start_ns + 1);
	maker_stream(m, 8, start_ns + 4);
	maker_thread(m, pid, "early", start_ns + 5);
	maker_capability(m, feature_cupti, capability_state_on, NULL);
	for (unsigned i = 0; i < SEGMENTS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "kernel%u", i % 2);
		maker_kernel(m, maker_config(m, name, 1, 32), 7 + i % 2, start_ns + 1000 * i,
			     start_ns + 1000 * i + 500, i + 1);
		if (i == 2)
			maker_thread(m, pid, "late", start_ns + 2000);
		maker_flush(m);
	}
	maker_close(m, start_ns + 9000);
}

static void count(struct trace *t, enum table_id table, uint64_t rows)
{
	load(t, table, 0);
	if (trace_rows(t, table) != rows)
		fail_msg("%s: %llu rows, not %llu", schema_table(table)->name,
			 (unsigned long long)trace_rows(t, table), (unsigned long long)rows);
}

static void check_names(struct trace *t, uint64_t kernels)
{
	for (uint64_t row = 0; row < kernels; row++) {
		char name[16];

		snprintf(name, sizeof(name), "kernel%u", (unsigned)(row % 2));
		assert_string_equal(kernel_name(t, row), name);
	}
}

static void repeated_rows_are_one(void **state)
{
	struct trace_table_size size;
	struct trace *t;

	write_process(*state, 100, 10000);
	write_process(*state, 101, 20000);
	t = open_recording(*state);
	trace_table_size(t, TABLE_stream, &size);
	assert_true(size.rows > 6);
	assert_int_equal(trace_load_repeated(t, NULL), 0);
	count(t, TABLE_kernel, 2 * SEGMENTS);
	count(t, TABLE_process, 4); /* begun, ended */
	count(t, TABLE_device, 2);
	count(t, TABLE_context, 2);
	count(t, TABLE_capability, 2);
	count(t, TABLE_thread, 4);
	count(t, TABLE_kernel_config, 4);
	assert_int_equal(trace_rows(t, TABLE_stream), size.rows / (SEGMENTS + 1));
	check_names(t, 2 * SEGMENTS);
	for (size_t p = 0; p < 2; p++) {
		uint64_t row = trace_first_row(t, TABLE_thread, p);
		const uint32_t *names = trace_u32(t, TABLE_thread, COLUMN_thread_name);

		assert_int_equal(trace_first_row(t, TABLE_thread, p + 1), row + 2);
		assert_string_equal(trace_string(t, names[row]), "early");
		assert_string_equal(trace_string(t, names[row + 1]), "late");
		assert_int_equal(trace_u32(t, TABLE_thread, COLUMN_thread_tid)[row], 100 + p);
	}
	trace_free(t);
}

static void lost_segments_take_no_names_along(void **state)
{
	for (unsigned left = 0; left < SEGMENTS; left++) {
		struct trace *t;
		char name[32];

		write_process(*state, 100, 10000);
		for (unsigned i = 0; i <= SEGMENTS; i++) {
			snprintf(name, sizeof(name), "100.%u.pit", i);
			if (i != left)
				assert_int_equal(remove(temp_file(*state, name)), 0);
		}
		t = open_recording(*state);
		assert_string_equal(trace_process(t, 0)->command, "./a");
		count(t, TABLE_kernel, 1);
		count(t, TABLE_device, 1);
		count(t, TABLE_context, 1);
		count(t, TABLE_capability, 1);
		count(t, TABLE_kernel_config, 1);
		snprintf(name, sizeof(name), "kernel%u", left % 2);
		assert_string_equal(kernel_name(t, 0), name);
		trace_free(t);
		snprintf(name, sizeof(name), "100.%u.pit", left);
		assert_int_equal(remove(temp_file(*state, name)), 0);
	}
}

#ifdef __SANITIZE_THREAD__ /* one thread reads them */
#define CROWD 20000
#else
#define CROWD 200000
#endif

/* Rows that are made to have one hash: they are all there, and that does not take for ever. */
static void crowds_of_one_hash(void **state)
{
	struct maker *m = maker_begin_with(tiny, *state, 100, 1000, "./a");
	struct row_graph_node row = { .kind = 1, .thread = 2, .graph = 3 };
	struct trace *t;

	ROW_MISSING(&row, graph_node, correlation);
	ROW_MISSING(&row, graph_node, stack);
	for (uint64_t i = 1; i <= CROWD; i++) {
		uint64_t hash = hash_u64(hash_u64(0) ^ i);

		/*
		 * time_ns, node, graph, kind, original: what comes before the last is undone by it
		 */
		row.node = i;
		hash = hash_u64(hash_u64(hash ^ row.graph) ^ row.kind);
		row.original = hash;
		writer_append(m->writer, TABLE_graph_node, &row);
	}
	maker_flush(m);
	maker_close(m, 9000);
	t = open_recording(*state);
	count(t, TABLE_graph_node, CROWD);
	trace_free(t);
}

/* As early versions wrote it: the name is a text in the second column, and there is no eighth. */
static void old_capability(struct maker *m, const char *name, uint64_t time_ns)
{
	struct row_capability row = { .time_ns = time_ns, .other = maker_string(m, name) };

	ROW_MISSING(&row, capability, requested);
	ROW_MISSING(&row, capability, actual);
	ROW_MISSING(&row, capability, reason);
	ROW_MISSING(&row, capability, method);
	ROW_MISSING(&row, capability, name);
	writer_append(m->writer, TABLE_capability, &row);
}

static void check_feature(struct trace *t, uint64_t row, enum feature name, const char *other)
{
	const struct capability_columns *c = capability_columns(t);
	bool missing;

	trace_value(t, TABLE_capability, COLUMN_capability_other, row, &missing);
	assert_int_equal(c->name[row], name);
	assert_int_equal(missing, name != feature_other);
	assert_string_equal(trace_string(t, c->other[row]), other);
}

static void old_names_of_features_are_read(void **state)
{
	struct maker *m = maker_begin_with(tiny, *state, 100, 100, "./old");
	struct trace *t;

	old_capability(m, "cupti", 200);
	old_capability(m, "pc sampling of another tool", 300);
	maker_flush(m);
	maker_capability(m, feature_cupti, capability_state_on, NULL); /* at 100 */
	maker_close(m, 9000);
	t = open_recording(*state);
	count(t, TABLE_capability, 3);
	check_feature(t, 0, feature_cupti, "");
	check_feature(t, 1, feature_cupti, "");
	check_feature(t, 2, feature_other, "pc sampling of another tool");
	trace_free(t);
	m = maker_begin(*state, 101, 100, "./old"); /* no row has the new column */
	old_capability(m, "window", 200);
	maker_close(m, 9000);
	t = open_recording(*state);
	load(t, TABLE_capability, COLUMN_BIT(capability, name));
	check_feature(t, 3, feature_window, "");
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(repeated_rows_are_one),
		folder_test(lost_segments_take_no_names_along),
		folder_test(crowds_of_one_hash),
		folder_test(old_names_of_features_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
