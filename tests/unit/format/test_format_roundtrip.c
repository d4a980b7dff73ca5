/* Rows of every table, of every kind of content, come back as they were. */
#include "recording_fixture.h"

#define STRINGS 40

static uint32_t pool[STRINGS];

static void fill_pool(struct writer *w)
{
	char text[32];

	for (unsigned i = 0; i < STRINGS; i++)
		pool[i] = writer_string(w, text,
					(size_t)snprintf(text, sizeof(text), "string %u", i));
}

/*
 * The segment's blocks of the table hold the rows in the order in which they were given, each block
 * sorted.
 */
static void check_table(const struct segment *s, const struct table_schema *t, const uint8_t *rows,
			size_t count)
{
	size_t done = 0;

	for (size_t b = 0; b < s->block_count; b++) {
		const struct block_header *h = &s->blocks[b].header;
		const uint8_t **expected;
		struct decoded out;

		if (h->table != t->id)
			continue;
		assert_true(h->rows <= count - done);
		assert_int_equal(decode_block(s, &s->blocks[b], &out), 0);
		expected = malloc(h->rows * sizeof(*expected));
		for (size_t i = 0; i < h->rows; i++)
			expected[i] = rows + (done + i) * t->row_size;
		sort_expected(t, expected, h->rows);
		for (size_t i = 0; i < h->rows; i++)
			assert_row_equal(&out, i, expected[i]);
		done += h->rows;
		free(expected);
		decoded_free(&out);
	}
	assert_int_equal(done, count);
}

/* Times of rows that three threads recorded at once, handed over in runs of `run` rows of one. */
static void set_time(struct row_cuda_event *row, size_t i, size_t run)
{
	size_t round = i / (3 * run) * 3 * run;

	row->missing &= ~(UINT64_C(1) << COLUMN_cuda_event_time_ns);
	row->time_ns = round + i % run * 3 + i / run % 3;
}

/* `run`: of set_time(); 0: random times. */
static void round_trip(const struct table_schema *t, size_t count, uint64_t seed, size_t run)
{
	struct random r = { seed };
	struct row_style style;
	struct fixture f;
	struct segment s;
	struct writer *w;
	uint8_t *rows = malloc(count * t->row_size);

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	fill_pool(w);
	style_new(&style, &r);
	for (size_t i = 0; i < count; i++) {
		random_row(t, &style, &r, pool, STRINGS, rows + i * t->row_size);
		if (run)
			set_time((struct row_cuda_event *)(void *)rows + i, i, run);
		writer_append(w, t->id, rows + i * t->row_size);
		if (random_below(&r, count) == 0)
			assert_int_equal(writer_flush(w), 0);
	}
	assert_int_equal(writer_close(&w), 0);
	fixture_map(&f, 0, &s);
	assert_true(s.closed);
	assert_false(s.truncated);
	assert_int_equal(s.skipped_bytes, 0);
	check_table(&s, t, rows, count);
	segment_release(&s);
	fixture_close(&f);
	free(rows);
}

static void test_every_table(void **state UNUSED)
{
	for (unsigned id = 2; id <= TABLE_MAX; id++)
		for (uint64_t seed = 0; seed < 12; seed++)
			round_trip(schema_table(id), 1 + seed * seed * 10, id * 1000 + seed, 0);
}

static void test_full_blocks(void **state UNUSED)
{
	round_trip(schema_table(TABLE_external_correlation), 70000, 1, 0);
	round_trip(schema_table(TABLE_cuda_event), 3000, 2, 0);
}

static void test_sorted_runs(void **state UNUSED)
{
	for (size_t run = 1; run < 2000; run = run * 5 / 2 + 1)
		round_trip(schema_table(TABLE_cuda_event), 5000, run, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_table),
		cmocka_unit_test(test_full_blocks),
		cmocka_unit_test(test_sorted_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
