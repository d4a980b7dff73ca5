/* What later rows refer to, and tables of names, are repeated in each segment. */
#include "recording_fixture.h"

#define SEGMENT_BYTES 2000

/* A table of one segment, of all its blocks; rows in order. */
struct table_rows {
	size_t count;
	uint64_t *values[64];
};

static struct table_rows read_table(struct fixture *f, unsigned segment, enum table_id table)
{
	struct table_rows t = { 0 };
	struct segment s;

	fixture_map(f, segment, &s);
	for (size_t b = 0; b < s.block_count; b++) {
		struct decoded block;

		if (s.blocks[b].header.table != table)
			continue;
		assert_int_equal(decode_block(&s, &s.blocks[b], &block), 0);
		for (int c = 0; c < block.table->column_count; c++) {
			t.values[c] = realloc(t.values[c], (t.count + block.rows) * 8);
			memcpy(t.values[c] + t.count, block.values[c], block.rows * 8);
		}
		t.count += block.rows;
		decoded_free(&block);
	}
	segment_release(&s);
	return t;
}

static void table_rows_free(struct table_rows *t)
{
	for (int c = 0; c < 64; c++)
		free(t->values[c]);
}

/* Whether a segment has a string with the id and the text. */
static bool has_text(struct fixture *f, unsigned segment, uint64_t id, const char *text)
{
	struct segment s;
	bool found = false;

	fixture_map(f, segment, &s);
	for (size_t b = 0; b < s.block_count; b++) {
		struct decoded block;
		const struct bytes_column *texts;

		if (s.blocks[b].header.table != TABLE_string)
			continue;
		assert_int_equal(decode_block(&s, &s.blocks[b], &block), 0);
		texts = &block.bytes[COLUMN_string_text];
		for (size_t i = 0; i < block.rows; i++)
			found |= block.values[COLUMN_string_id][i] == id &&
				 texts->offsets[i + 1] - texts->offsets[i] == strlen(text) &&
				 memcmp(texts->data + texts->offsets[i], text, strlen(text)) == 0;
		decoded_free(&block);
	}
	segment_release(&s);
	return found;
}

static unsigned segments_of(struct fixture *f)
{
	unsigned n = 0;

	while (access(fixture_segment(f, n), F_OK) == 0)
		n++;
	return n;
}

/* Rows of random numbers, until another segment is begun. */
static void fill_segment(struct writer *w)
{
	static struct random r = { 1 };
	uint32_t before = writer_epoch(w);

	while (writer_epoch(w) == before) {
		for (int i = 0; i < 200; i++) {
			struct row_counter_sample row = { .value = (int64_t)random_u64(&r) };

			writer_append(w, TABLE_counter_sample, &row);
		}
		assert_int_equal(writer_flush(w), 0);
	}
}

static void rename_thread(struct writer *w, uint32_t tid, const char *name, uint64_t time_ns)
{
	struct row_thread row = { .tid = tid,
				  .name = writer_string(w, name, strlen(name)),
				  .time_ns = time_ns };

	writer_append(w, TABLE_thread, &row);
}

static void test_last_row_of_each_key_is_repeated(void **state UNUSED)
{
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .segment_bytes = SEGMENT_BYTES });
	rename_thread(w, 7, "python", 1000);
	rename_thread(w, 8, "worker", 2000);
	rename_thread(w, 7, "trainer", 3000);
	for (int i = 0; i < 3; i++)
		fill_segment(w);
	rename_thread(w, 8, "loader", 4000);
	fill_segment(w);
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(segments_of(&f), 4);
	for (unsigned n = 0; n < 4; n++) {
		struct table_rows t = read_table(&f, n, TABLE_thread);
		const uint64_t *tids = t.values[COLUMN_thread_tid],
			       *names = t.values[COLUMN_thread_name],
			       *times = t.values[COLUMN_thread_time_ns];

		assert_int_equal(t.count, n == 0 || n == 3 ? 3 : 2);
		if (n > 0) {
			assert_int_equal(tids[0], 8);
			assert_int_equal(times[0], 2000);
			assert_true(has_text(&f, n, names[0], "worker"));
			assert_int_equal(tids[1], 7);
			assert_int_equal(times[1], 3000);
			assert_true(has_text(&f, n, names[1], "trainer"));
		}
		if (n == 3)
			assert_true(has_text(&f, n, names[2], "loader"));
		table_rows_free(&t);
	}
	fixture_close(&f);
}

/* However many other texts there were meanwhile. */
static void test_names_are_not_forgotten(void **state UNUSED)
{
	struct writer_options options = { .segment_bytes = 5000, .string_bytes_max = 100000 };
	struct row_kernel_config config = { .grid_x = 1 };
	struct row_device device = { .id = 3 };
	struct row_kernel kernel = { 0 };
	struct fixture f;
	struct writer *w;
	unsigned segments, epoch = 0;

	fixture_open(&f);
	w = fixture_writer(&f, options);
	device.name = writer_string(w, "a GPU", 5);
	device.uuid = writer_string(w, "GPU-1", 5);
	writer_append(w, TABLE_device, &device);
	for (unsigned i = 0; i < 20000; i++) {
		char text[32];
		struct row_nvtx row = { .time_ns = i, .kind = nvtx_kind_mark };

		if (epoch != writer_epoch(w)) {
			epoch = writer_epoch(w);
			config.name = writer_string(w, "a kernel", 8);
			kernel.config = writer_kernel_config(w, &config);
		}
		row.message =
			writer_string(w, text, (size_t)snprintf(text, sizeof(text), "step %u", i));
		writer_append(w, TABLE_nvtx, &row);
		if (i % 100 == 99)
			writer_append(w, TABLE_kernel, &kernel);
		if (i % 1000 == 999)
			assert_int_equal(writer_flush(w), 0);
	}
	assert_int_equal(writer_close(&w), 0);
	segments = segments_of(&f);
	assert_true(segments >= 3);
	for (unsigned n = 0; n < segments; n++) {
		struct table_rows t = read_table(&f, n, TABLE_device);

		assert_true(t.count >= 1); /* once an epoch */
		for (size_t i = 0; i < t.count; i++) {
			assert_int_equal(t.values[COLUMN_device_id][i], 3);
			assert_true(has_text(&f, n, t.values[COLUMN_device_name][i], "a GPU"));
			assert_true(has_text(&f, n, t.values[COLUMN_device_uuid][i], "GPU-1"));
		}
		table_rows_free(&t);
		t = read_table(&f, n, TABLE_kernel_config);
		assert_true(t.count >= 1);
		for (size_t i = 0; i < t.count; i++)
			assert_true(has_text(&f, n, t.values[COLUMN_kernel_config_name][i],
					     "a kernel"));
		table_rows_free(&t);
	}
	fixture_close(&f);
}

#define STREAMS 10000u
#define REPEATED_MAX 4096u

static void test_of_many_the_last_ones_are_repeated(void **state UNUSED)
{
	struct fixture f;
	struct writer *w;
	struct table_rows t;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .segment_bytes = SEGMENT_BYTES });
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct row_stream row = { .id = i, .context = 1, .time_ns = i };

		writer_append(w, TABLE_stream, &row);
	}
	fill_segment(w);
	fill_segment(w);
	assert_int_equal(writer_close(&w), 0);
	t = read_table(&f, 0, TABLE_stream);
	assert_int_equal(t.count, STREAMS);
	table_rows_free(&t);
	t = read_table(&f, 1, TABLE_stream);
	assert_in_range(t.count, REPEATED_MAX / 2, REPEATED_MAX);
	for (size_t i = 0; i < t.count; i++)
		assert_int_equal(t.values[COLUMN_stream_id][i], STREAMS - t.count + i);
	table_rows_free(&t);
	fixture_close(&f);
}

static void append_node(struct writer *w, uint64_t node, uint64_t original)
{
	struct row_graph_node row = { .time_ns = node, .node = node, .original = original };

	if (!original)
		ROW_MISSING(&row, graph_node, original);
	ROW_MISSING(&row, graph_node, stack);
	writer_append(w, TABLE_graph_node, &row);
}

static void append_kernel(struct writer *w, uint64_t node)
{
	struct row_kernel row = { .start_ns = node, .end_ns = node + 1, .graph_node = node };

	writer_append(w, TABLE_kernel, &row);
}

/*
 * With what they were cloned from, once, and no others; also where the clone is made in a later
 * segment.
 */
static void test_nodes_are_repeated_where_they_run(void **state UNUSED)
{
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .segment_bytes = SEGMENT_BYTES });
	for (uint64_t node = 1; node <= 10; node++)
		append_node(w, node, 0);
	for (uint64_t node = 1; node <= 10; node++)
		append_node(w, 100 + node, node);
	append_node(w, 204, 104);
	fill_segment(w);
	append_kernel(w, 204);
	append_kernel(w, 204);
	append_kernel(w, 107);
	append_kernel(w, 999);
	fill_segment(w);
	append_node(w, 305, 105);
	append_node(w, 306, 105);
	fill_segment(w);
	assert_int_equal(writer_close(&w), 0);
	for (unsigned n = 0; n < 3; n++) {
		static const uint64_t run[] = { 4, 7, 104, 107, 204 },
				      cloned[] = { 5, 105, 305, 306 };
		const uint64_t *wanted = n == 1 ? run : cloned;
		struct table_rows t = read_table(&f, n, TABLE_graph_node);
		const uint64_t *nodes = t.values[COLUMN_graph_node_node];

		assert_int_equal(t.count, n == 0   ? 21
					  : n == 1 ? ARRAY_SIZE(run)
						   : ARRAY_SIZE(cloned));
		for (size_t i = 0; n && i < t.count; i++)
			assert_int_equal(nodes[i], wanted[i]);
		table_rows_free(&t);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_row_of_each_key_is_repeated),
		cmocka_unit_test(test_names_are_not_forgotten),
		cmocka_unit_test(test_of_many_the_last_ones_are_repeated),
		cmocka_unit_test(test_nodes_are_repeated_where_they_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
