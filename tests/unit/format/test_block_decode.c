/* Single blocks: of newer and older versions, and payloads that break the rules one by one. */
#include "recording_fixture.h"

#include "format/block_build.h"

/*
 * Decodes one column of a block that lies alone in memory. values and valid have room for its rows.
 */
static int decode_column(const uint8_t *block, int column, void *values, uint8_t *valid)
{
	struct segment s = { .bytes = block };
	struct column_target target = { .column = column, .values = values, .valid = valid };
	struct block_ref b = { 0 };

	memcpy(&b.header, block, sizeof(b.header));
	s.size = sizeof(b.header) + b.header.payload_bytes;
	if (!the_decoder)
		the_decoder = decoder_new();
	return block_decode(the_decoder, &s, &b, &target, 1);
}

/* ---- other versions ---- */

static void build_clocks(const struct table_schema *table, struct strbuf *out)
{
	struct row_clock rows[5] = { 0 };
	struct block_rows in = { .table = table, .rows = rows, .count = 5 };
	struct block_header header;
	struct block_builder b;

	for (unsigned i = 0; i < 5; i++) {
		rows[i].monotonic_ns = 100 + i;
		rows[i].realtime_ns = UINT64_C(1) << (10 * i);
		rows[i].width_ns = 7 * i;
	}
	assert_int_equal(block_builder_init(&b, 5, 1), 0);
	assert_int_equal(block_build(&b, &in, 0, out, &header), 0);
	block_builder_release(&b);
}

static void test_newer_and_older(void **state UNUSED)
{
	struct table_schema table = *schema_table(TABLE_clock);
	struct column_schema columns[COLUMNS_clock + 1];
	struct strbuf block = STRBUF_INIT;
	uint64_t values[5];
	uint8_t valid[5];

	/* a newer writer has a column more */
	memcpy(columns, table.columns, sizeof(columns) - sizeof(*columns));
	columns[COLUMNS_clock] = columns[COLUMN_clock_realtime_ns];
	table.columns = columns;
	table.column_count++;
	build_clocks(&table, &block);
	assert_int_equal(
		decode_column((uint8_t *)block.data, COLUMN_clock_realtime_ns, values, valid), 0);
	assert_int_equal(values[4], UINT64_C(1) << 40);

	/* an older one lacks the last */
	strbuf_clear(&block);
	table.column_count = COLUMN_clock_width_ns;
	build_clocks(&table, &block);
	assert_int_equal(
		decode_column((uint8_t *)block.data, COLUMN_clock_realtime_ns, values, valid), 0);
	assert_int_equal(decode_column((uint8_t *)block.data, COLUMN_clock_width_ns, values, valid),
			 0);
	for (int i = 0; i < 5; i++)
		assert_false(valid[i]);

	/* and a table that we do not know is no error but E_UNSUPPORTED */
	strbuf_clear(&block);
	table.id = TABLE_MAX + 1;
	build_clocks(&table, &block);
	assert_int_equal(decode_column((uint8_t *)block.data, 0, values, valid), E_UNSUPPORTED);
	strbuf_release(&block);
}

/* ---- payloads by hand ---- */

#define ROWS 4

/* Result of decoding `column` of a block of table loss with this payload. */
static int decode_payload(int column, unsigned chunks, const uint8_t *payload, size_t length,
			  uint64_t *values, uint8_t *valid)
{
	struct block_header h = { .magic = BLOCK_MAGIC,
				  .table = TABLE_loss,
				  .rows = ROWS,
				  .columns = (uint16_t)chunks,
				  .payload_bytes = (uint32_t)length };
	uint8_t *block = malloc(sizeof(h) + length);
	uint8_t narrow[ROWS];
	int r;

	block_header_seal(&h, payload);
	memcpy(block, &h, sizeof(h));
	memcpy(block + sizeof(h), payload, length);
	if (column == COLUMN_loss_reason) {
		r = decode_column(block, column, narrow, valid);
		for (int i = 0; i < ROWS && r == 0; i++)
			values[i] = narrow[i];
	} else {
		r = decode_column(block, column, values, valid);
	}
	free(block);
	return r;
}

#define REASON COLUMN_loss_reason /* U8 */
#define COUNT COLUMN_loss_count /* U64 */
#define START COLUMN_loss_start_ns /* TIME */
#define END COLUMN_loss_end_ns /* TIME, base START */

#define PAYLOAD(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

struct payload_case {
	int column;
	unsigned chunks;
	const uint8_t *bytes;
	size_t length;
};

static void test_good_payloads(void **state UNUSED)
{
	const struct {
		struct payload_case in;
		uint64_t values[ROWS];
		uint8_t valid[ROWS];
	} cases[] = {
		{ { COUNT, 0, (const uint8_t *)"", 0 }, { 0 }, { 0 } },
		{ { COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 4, 4, 1, 9, 3, 5) },
		  { 9, 5, 5, 5 },
		  { 1, 1, 1, 1 } },
		{ { COUNT, 1, PAYLOAD(COUNT, ENCODING_PLANES, 9, 9, 2, 1, 2, 3, 4, 0, 1, 0, 1) },
		  { 1, 258, 3, 260 },
		  { 1, 1, 1, 1 } },
		{ { COUNT, 1, PAYLOAD(COUNT, ENCODING_DICTIONARY, 7, 7, 2, 50, 60, 0, 1, 1, 0) },
		  { 50, 60, 60, 50 },
		  { 1, 1, 1, 1 } },
		{ { COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_DELTA, 10, 4, 4, 3, 2, 1, 1) },
		  { 11, 12, 13, 12 },
		  { 1, 1, 1, 1 } },
		{ { COUNT, 2,
		    PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_VALIDITY, 4, 4, 2, 0, 2, 1, COUNT,
			    ENCODING_RUNS, 4, 4, 1, 7, 1, 8) },
		  { 0, 0, 7, 8 },
		  { 0, 0, 1, 1 } },
		/* a base that is missing in two rows, and comes later in the payload */
		{ { END, 3,
		    PAYLOAD(END, ENCODING_RUNS | CHUNK_BASE, 2, 2, 4, 6, START,
			    ENCODING_RUNS | CHUNK_VALIDITY, 4, 4, 2, 0, 2, 1, START, ENCODING_RUNS,
			    2, 2, 2, 100) },
		  { 3, 3, 103, 103 },
		  { 1, 1, 1, 1 } },
		/* validity without values; a column that we do not know */
		{ { COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_VALIDITY, 2, 2, 4, 1) },
		  { 0 },
		  { 0 } },
		{ { COUNT, 2,
		    PAYLOAD(99, ENCODING_BYTES, 3, 3, 1, 2, 3, COUNT, ENCODING_RUNS, 2, 2, 4, 1) },
		  { 1, 1, 1, 1 },
		  { 1, 1, 1, 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t values[ROWS];
		uint8_t valid[ROWS];

		assert_int_equal(decode_payload(cases[i].in.column, cases[i].in.chunks,
						cases[i].in.bytes, cases[i].in.length, values,
						valid),
				 0);
		assert_memory_equal(values, cases[i].values, sizeof(values));
		assert_memory_equal(valid, cases[i].valid, sizeof(valid));
	}
}

static void test_bad_payloads(void **state UNUSED)
{
	const struct payload_case cases[] = {
		/* fewer or more chunks than there are */
		{ COUNT, 2, PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 4, 1) },
		{ COUNT, 0, PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 4, 1) },
		/* data that are longer than the payload; lengths that differ without zstd */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 3, 3, 4, 1) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 3, 2, 4, 1) },
		/* runs: too long, too short, empty, something left */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 5, 1) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 3, 1) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 4, 4, 0, 1, 4, 1) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS, 4, 4, 4, 1, 1, 1) },
		/* planes: no width, a large one, a wrong length */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_PLANES, 1, 1, 0) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_PLANES, 5, 5, 9, 1, 2, 3, 4) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_PLANES, 4, 4, 1, 1, 2, 3) },
		/* dictionaries: empty, too large, an index beyond its end */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_DICTIONARY, 5, 5, 0, 0, 0, 0, 0) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_DICTIONARY, 6, 6, 0x81, 2, 0, 0, 0, 0) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_DICTIONARY, 6, 6, 1, 9, 0, 1, 0, 0) },
		/* a value too large for the column */
		{ REASON, 1, PAYLOAD(REASON, ENCODING_RUNS, 3, 3, 4, 0x80, 2) },
		/* BYTES for a number, a base for a column without one, unknown flags */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_BYTES, 4, 4, 0, 0, 0, 0) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_BASE, 2, 2, 4, 1) },
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS | 4, 2, 2, 4, 1) },
		/* chunks twice, validity after the values, validity that is neither 0 nor 1 */
		{ COUNT, 2,
		  PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 4, 1, COUNT, ENCODING_RUNS, 2, 2, 4, 1) },
		{ COUNT, 2,
		  PAYLOAD(COUNT, ENCODING_RUNS, 2, 2, 4, 1, COUNT, ENCODING_RUNS | CHUNK_VALIDITY,
			  2, 2, 4, 1) },
		{ COUNT, 2,
		  PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_VALIDITY, 2, 2, 4, 2, COUNT, ENCODING_RUNS,
			  2, 2, 4, 1) },
		/* no zstd, and more data than any block needs */
		{ COUNT, 1, PAYLOAD(COUNT, ENCODING_RUNS | CHUNK_ZSTD, 2, 2, 4, 1) },
		{ COUNT, 1,
		  PAYLOAD(COUNT, ENCODING_PLANES | CHUNK_ZSTD, 0xff, 0xff, 0x03, 2, 4, 1) },
		/* a varint that is too long */
		{ COUNT, 1,
		  PAYLOAD(COUNT, ENCODING_RUNS, 12, 12, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			  0xff, 0xff, 0xff, 1) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t values[ROWS];
		uint8_t valid[ROWS];

		if (decode_payload(cases[i].column, cases[i].chunks, cases[i].bytes,
				   cases[i].length, values, valid) != E_FORMAT)
			fail_msg("case %zu is taken", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newer_and_older),
		cmocka_unit_test(test_good_payloads),
		cmocka_unit_test(test_bad_payloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
