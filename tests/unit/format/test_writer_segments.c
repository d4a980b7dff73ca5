/*
 * Segments stand alone: each has the strings, kernel configurations and functions that its rows
 * refer to.
 */
#include "recording_fixture.h"

#include "base/map.h"

/*
 * Ids that a segment explains, and rows that refer to them: checked block by block, in file order.
 */
struct references {
	struct map strings; /* id → hash of the text */
	struct map configs; /* id → id of the name */
	struct map functions; /* id → id of the name */
	uint64_t kernels, calls;
	uint64_t (*name_of_kernel)(
		uint64_t correlation); /* hash of the name it must have; NULL: do not check */
};

static void take_strings(struct references *r, const struct decoded *t)
{
	const struct bytes_column *text = &t->bytes[COLUMN_string_text];

	for (size_t i = 0; i < t->rows; i++)
		assert_int_equal(map_put(&r->strings, t->values[COLUMN_string_id][i],
					 hash_bytes(text->data + text->offsets[i],
						    text->offsets[i + 1] - text->offsets[i])),
				 0);
}

static void take_block(struct references *r, const struct decoded *t)
{
	uint64_t name, text;

	switch (t->table->id) {
	case TABLE_string:
		take_strings(r, t);
		break;
	case TABLE_kernel_config:
		for (size_t i = 0; i < t->rows; i++) {
			name = t->values[COLUMN_kernel_config_name][i];
			assert_true(map_get(&r->strings, name, &text));
			assert_int_equal(
				map_put(&r->configs, t->values[COLUMN_kernel_config_id][i], text),
				0);
		}
		break;
	case TABLE_api_function:
		for (size_t i = 0; i < t->rows; i++) {
			name = t->values[COLUMN_api_function_name][i];
			assert_true(map_get(&r->strings, name, &text));
			assert_int_equal(
				map_put(&r->functions, t->values[COLUMN_api_function_id][i], text),
				0);
		}
		break;
	case TABLE_kernel:
		for (size_t i = 0; i < t->rows; i++, r->kernels++) {
			assert_true(
				map_get(&r->configs, t->values[COLUMN_kernel_config][i], &text));
			if (r->name_of_kernel)
				assert_int_equal(
					text,
					r->name_of_kernel(t->values[COLUMN_kernel_correlation][i]));
		}
		break;
	case TABLE_api_call:
		for (size_t i = 0; i < t->rows; i++, r->calls++)
			assert_true(map_get(&r->functions, t->values[COLUMN_api_call_function][i],
					    &text));
		break;
	default:
		break;
	}
}

/* Every reference in the segment is explained by an earlier block of it. */
static void check_references(const struct segment *s, struct references *r)
{
	for (size_t b = 0; b < s->block_count; b++) {
		struct decoded block;

		assert_int_equal(decode_block(s, &s->blocks[b], &block), 0);
		take_block(r, &block);
		decoded_free(&block);
	}
	map_release(&r->strings);
	map_release(&r->configs);
	map_release(&r->functions);
}

#define KERNEL_NAMES 50

static uint64_t name_of_kernel(uint64_t correlation)
{
	char text[32];

	return hash_bytes(text, (size_t)snprintf(text, sizeof(text), "kernel %u",
						 (unsigned)(correlation % KERNEL_NAMES)));
}

static uint32_t config_of(struct writer *w, unsigned n, unsigned grid)
{
	struct row_kernel_config config;
	char text[32];

	memset(&config, 0xee, sizeof(config)); /* padding, id and missing values do not matter */
	config.missing = 0;
	ROW_MISSING(&config, kernel_config, priority);
	config.name = writer_string(w, text, (size_t)snprintf(text, sizeof(text), "kernel %u", n));
	config.grid_x = grid;
	return writer_kernel_config(w, &config);
}

static void append_launch(struct writer *w, uint64_t n)
{
	struct row_api_function function = { .kind = api_kind_launch };
	struct row_api_call call = { .start_ns = 1000 * n,
				     .end_ns = 1000 * n + 10,
				     .correlation = n };
	struct row_kernel kernel = { .start_ns = 1000 * n + 50,
				     .end_ns = 1000 * n + 90,
				     .correlation = n };

	call.function = 0x20000 + (uint32_t)(n % 3);
	function.name = n < 3 ? writer_string(w, "launch", 6) : 0;
	writer_api_function(w, call.function, n < 3 ? &function : NULL);
	kernel.config = config_of(w, (unsigned)(n % KERNEL_NAMES), 1);
	writer_append(w, TABLE_api_call, &call);
	writer_append(w, TABLE_kernel, &kernel);
}

/* Writes many small segments; returns how many. */
static unsigned write_segments(struct fixture *f, uint64_t rows, size_t string_bytes_max)
{
	struct writer_options options = { .segment_bytes = 2000,
					  .string_bytes_max = string_bytes_max };
	struct writer *w = fixture_writer(f, options);
	unsigned n = 0;

	for (uint64_t i = 0; i < rows; i++) {
		append_launch(w, i);
		if (i % 700 == 699)
			assert_int_equal(writer_flush(w), 0);
	}
	assert_int_equal(writer_close(&w), 0);
	while (access(fixture_segment(f, n), F_OK) == 0)
		n++;
	return n;
}

static void test_every_segment_stands_alone(void **state UNUSED)
{
	struct references r = { .name_of_kernel = name_of_kernel };
	struct fixture f;
	struct segment s;
	uint64_t session = 0;
	unsigned segments;

	fixture_open(&f);
	segments = write_segments(&f, 50000, 0);
	assert_in_range(segments, 5, 1000);
	for (unsigned n = 0; n < segments; n++) {
		fixture_map(&f, n, &s);
		assert_true(s.closed);
		assert_int_equal(s.header.number, n);
		assert_true(n == 0 || s.header.session == session);
		session = s.header.session;
		for (size_t b = 0; b < s.block_count; b++)
			assert_int_equal(s.blocks[b].header.number, b);
		check_references(&s, &r);
		segment_release(&s);
	}
	assert_int_equal(r.kernels, 50000);
	assert_int_equal(r.calls, 50000);
	fixture_close(&f);
}

/* With room for a few texts only, ids change all the time, but every kernel keeps its name. */
static void test_forgotten_strings(void **state UNUSED)
{
	struct references r = { .name_of_kernel = name_of_kernel };
	struct fixture f;
	struct segment s;
	unsigned segments;

	fixture_open(&f);
	segments = write_segments(&f, 5000, 4000);
	for (unsigned n = 0; n < segments; n++) {
		fixture_map(&f, n, &s);
		check_references(&s, &r);
		segment_release(&s);
	}
	assert_int_equal(r.kernels, 5000);
	fixture_close(&f);
}

static void test_many_configs(void **state UNUSED)
{
	struct references r = { .name_of_kernel = name_of_kernel };
	struct row_kernel kernel = { 0 };
	struct fixture f;
	struct segment s;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (unsigned i = 0; i < 100000; i++) {
		kernel.start_ns = kernel.end_ns = kernel.correlation = i;
		kernel.config = config_of(w, i % KERNEL_NAMES, i / 2);
		writer_append(w, TABLE_kernel, &kernel);
	}
	assert_int_equal(config_of(w, 1, 5000000), config_of(w, 1, 5000000));
	assert_int_not_equal(config_of(w, 1, 5000000), config_of(w, 2, 5000000));
	assert_int_equal(writer_close(&w), 0);
	fixture_map(&f, 0, &s);
	check_references(&s, &r);
	assert_int_equal(r.kernels, 100000);
	segment_release(&s);
	fixture_close(&f);
}

static void append_thread(struct writer *w, uint32_t tid, const void *name, size_t length)
{
	struct row_thread row = { .tid = tid, .time_ns = tid };

	row.name = writer_string(w, name, length);
	writer_append(w, TABLE_thread, &row);
}

static void test_many_strings(void **state UNUSED)
{
	struct fixture f;
	struct segment s;
	struct writer *w;
	char text[32];
	uint32_t last = 0;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (uint32_t i = 0; i < 100000; i++) {
		size_t length = (size_t)snprintf(text, sizeof(text), "text number %u", i);

		append_thread(w, i, text, length);
		last = writer_string(w, text, length);
		assert_int_equal(writer_string(w, text, length), last);
	}
	assert_int_equal(writer_close(&w), 0);
	fixture_map(&f, 0, &s);
	assert_int_equal(for_each_block(&s, TABLE_string, NULL, NULL), 100000);
	assert_int_equal(for_each_block(&s, TABLE_thread, NULL, NULL), 100000);
	segment_release(&s);
	fixture_close(&f);
}

struct lengths {
	uint32_t longest;
	unsigned losses;
};

static void measure_strings(void *user, const struct decoded *t)
{
	struct lengths *l = user;
	const uint32_t *offsets = t->bytes[COLUMN_string_text].offsets;

	for (size_t i = 0; i < t->rows; i++)
		l->longest = MAX(l->longest, offsets[i + 1] - offsets[i]);
}

static void count_string_limit(void *user, const struct decoded *t)
{
	struct lengths *l = user;

	for (size_t i = 0; i < t->rows; i++)
		if (t->values[COLUMN_loss_reason][i] == loss_reason_string_limit)
			l->losses += t->values[COLUMN_loss_count][i];
}

static void test_long_strings(void **state UNUSED)
{
	struct lengths l = { 0 };
	struct fixture f;
	struct segment s;
	struct writer *w;
	char *text = malloc(100000);
	struct random r = { 1 };

	for (size_t i = 0; i < 100000; i++)
		text[i] = (char)random_u64(&r);
	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (uint32_t i = 0; i < 50; i++)
		append_thread(w, i, text + i, 65536);
	append_thread(w, 1000, text, 65537);
	append_thread(w, 1001, NULL, 0);
	append_thread(w, 1002, "", 0);
	assert_int_equal(writer_string(w, NULL, 7), 0);
	assert_int_equal(writer_close(&w), 0);
	fixture_map(&f, 0, &s);
	assert_int_equal(for_each_block(&s, TABLE_string, measure_strings, &l), 51); /* and "" */
	assert_int_equal(l.longest, 65536);
	for_each_block(&s, TABLE_loss, count_string_limit, &l);
	assert_int_equal(l.losses, 1);
	segment_release(&s);
	fixture_close(&f);
	free(text);
}

/*
 * A process that is replaced by exec, or a child of a fork, finds the names of the old one taken.
 */
static void test_names_are_never_reused(void **state UNUSED)
{
	struct fixture f;
	struct segment first, second;
	struct writer *a, *b;

	fixture_open(&f);
	a = fixture_writer(&f, (struct writer_options){ 0 });
	b = fixture_writer(&f, (struct writer_options){ 0 });
	append_thread(a, 1, "a", 1);
	append_thread(b, 2, "b", 1);
	assert_int_equal(writer_close(&a), 0);
	writer_abandon(&b);
	assert_null(b);
	fixture_map(&f, 0, &first);
	fixture_map(&f, 1, &second);
	assert_int_not_equal(first.header.session, second.header.session);
	assert_int_equal(second.header.number, 0);
	assert_int_equal(second.block_count, 0);
	assert_false(second.closed);
	assert_false(second.truncated);
	segment_release(&first);
	segment_release(&second);
	fixture_close(&f);
}

static void test_follow_a_growing_segment(void **state UNUSED)
{
	struct error e = { 0 };
	struct fixture f;
	struct segment s;
	struct writer *w;
	size_t blocks = 0;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	fixture_map(&f, 0, &s);
	assert_int_equal(s.block_count, 0);
	assert_int_equal(segment_refresh(&s, &e), 0);
	for (uint32_t i = 0; i < 300; i++) {
		int new;

		append_launch(w, i);
		assert_int_equal(writer_flush(w), 0);
		new = segment_refresh(&s, &e);
		assert_true(new > 0);
		blocks += (unsigned)new;
		assert_int_equal(s.block_count, blocks);
		assert_true(block_verify(&s, &s.blocks[blocks - 1]));
		assert_false(s.closed);
	}
	assert_int_equal(for_each_block(&s, TABLE_kernel, NULL, NULL), 300);
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(segment_refresh(&s, &e), 0);
	assert_true(s.closed);
	assert_int_equal(s.skipped_bytes, 0);
	assert_int_equal(segment_refresh(&s, &e), 0);
	segment_release(&s);
	fixture_close(&f);
}

static void test_stats(void **state UNUSED)
{
	struct writer_stats stats;
	struct fixture f;
	struct segment s;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (uint32_t i = 0; i < 100; i++)
		append_launch(w, i);
	assert_int_equal(writer_flush(w), 0);
	writer_stats(w, &stats);
	assert_int_equal(stats.rows, 200);
	assert_int_equal(stats.lost_rows, 0);
	assert_int_equal(stats.error, 0);
	fixture_map(&f, 0, &s);
	assert_int_equal(stats.bytes, s.size);
	assert_int_equal(stats.blocks, s.block_count);
	segment_release(&s);
	assert_int_equal(writer_close(&w), 0);
	fixture_close(&f);
}

/* A ring has its newest segments, which are enough to read it; a limit of nothing has one. */
static void test_a_ring_on_the_disk(void **state UNUSED)
{
	static const uint64_t rings[] = { 1, 64 << 10, 256 << 10 };

	for (size_t k = 0; k < ARRAY_SIZE(rings); k++) {
		struct writer_options options = { .ring_bytes = rings[k] };
		struct random numbers = { k };
		uint64_t bytes = 0, last = 0;
		unsigned first = 0, count = 0;
		struct fixture f;
		struct writer *w;

		fixture_open(&f);
		w = fixture_writer(&f, options);
		for (uint64_t i = 0; i < 200000; i++) {
			struct row_external_correlation row = { .id = random_u64(&numbers),
								.correlation = i };

			writer_append(w, TABLE_external_correlation, &row);
			if (i % 2000 == 1999)
				assert_int_equal(writer_flush(w), 0);
		}
		assert_int_equal(writer_close(&w), 0);
		while (access(fixture_segment(&f, first), F_OK) != 0 && first < 1000)
			first++;
		for (; access(fixture_segment(&f, first + count), F_OK) == 0; count++) {
			struct segment s;

			fixture_map(&f, first + count, &s);
			assert_int_equal(s.header.number, first + count);
			assert_true(s.closed);
			bytes += s.size;
			for (size_t i = 0; i < s.block_count; i++) {
				struct decoded rows;

				if (s.blocks[i].header.table != TABLE_external_correlation)
					continue;
				assert_int_equal(decode_block(&s, &s.blocks[i], &rows), 0);
				last = rows.values[COLUMN_external_correlation_correlation]
						  [rows.rows - 1];
				decoded_free(&rows);
			}
			segment_release(&s);
		}
		assert_true(first > 0 && count > 0);
		assert_int_equal(last, 199999);
		/* What is being written is beyond the limit: an eighth, and a flush at most. */
		assert_true(bytes <= rings[k] + rings[k] / 8 + (64 << 10));
		assert_true(bytes >= rings[k] / 2);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_segment_stands_alone),
		cmocka_unit_test(test_a_ring_on_the_disk),
		cmocka_unit_test(test_forgotten_strings),
		cmocka_unit_test(test_many_configs),
		cmocka_unit_test(test_many_strings),
		cmocka_unit_test(test_long_strings),
		cmocka_unit_test(test_names_are_never_reused),
		cmocka_unit_test(test_follow_a_growing_segment),
		cmocka_unit_test(test_stats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
