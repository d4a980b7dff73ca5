/* A reader of damaged segments: fewer blocks, never a wrong row. */
#include "recording_fixture.h"

#include <fcntl.h>

#define BLOCKS_MAX 64
#define OPENED_MAX 200 /* more than stay open */

static struct {
	uint8_t bytes[16384];
	size_t size;
	struct segment segment; /* over bytes */
	struct decoded blocks[BLOCKS_MAX]; /* what is in its blocks */
} original;

static void append_rows(struct writer *w, struct random *r, unsigned count)
{
	static const enum table_id tables[] = { TABLE_kernel, TABLE_api_call, TABLE_nvtx,
						TABLE_clock };
	uint32_t strings[3] = { writer_string(w, "one", 3), writer_string(w, "two", 3),
				writer_string(w, "", 0) };
	uint64_t row[64];

	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		struct row_style style;

		style_new(&style, r);
		for (unsigned i = 0; i < count; i++) {
			random_row(schema_table(tables[t]), &style, r, strings, 3, (uint8_t *)row);
			writer_append(w, tables[t], row);
		}
	}
	assert_int_equal(writer_flush(w), 0);
}

static int make_original(void **state UNUSED)
{
	struct random r = { 42 };
	struct strbuf bytes = STRBUF_INIT;
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	append_rows(w, &r, 3);
	append_rows(w, &r, 20);
	append_rows(w, &r, 1);
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(io_read_file(fixture_segment(&f, 0), sizeof(original.bytes), &bytes), 0);
	memcpy(original.bytes, bytes.data, bytes.length);
	original.size = bytes.length;
	strbuf_release(&bytes);
	fixture_close(&f);
	assert_int_equal(segment_open_bytes(original.bytes, original.size, &original.segment, NULL),
			 0);
	assert_in_range(original.segment.block_count, 13, BLOCKS_MAX);
	for (size_t b = 0; b < original.segment.block_count; b++)
		assert_int_equal(decode_block(&original.segment, &original.segment.blocks[b],
					      &original.blocks[b]),
				 0);
	return 0;
}

static int free_original(void **state UNUSED)
{
	for (size_t b = 0; b < BLOCKS_MAX; b++)
		decoded_free(&original.blocks[b]);
	segment_release(&original.segment);
	return 0;
}

static void assert_same(const struct decoded *a, const struct decoded *b)
{
	assert_ptr_equal(a->table, b->table);
	assert_int_equal(a->rows, b->rows);
	for (int c = 0; c < a->table->column_count; c++) {
		assert_memory_equal(a->valid[c], b->valid[c], a->rows);
		if (a->table->columns[c].width) {
			assert_memory_equal(a->values[c], b->values[c], 8 * a->rows);
			continue;
		}
		assert_memory_equal(a->bytes[c].offsets, b->bytes[c].offsets, 4 * (a->rows + 1));
		assert_memory_equal(a->bytes[c].data, b->bytes[c].data,
				    a->bytes[c].offsets[a->rows]);
	}
}

/*
 * Whether the block has the same header and payload as the original one: then it needs no decoding.
 */
static bool is_untouched(const struct segment *s, const struct block_ref *b)
{
	const struct block_ref *o = &original.segment.blocks[b->header.number];

	return b->header.number < original.segment.block_count &&
	       memcmp(&b->header.payload_bytes, &o->header.payload_bytes,
		      sizeof(b->header) - offsetof(struct block_header, payload_bytes)) == 0 &&
	       memcmp(s->bytes + b->offset + sizeof(b->header),
		      original.bytes + o->offset + sizeof(o->header), o->header.payload_bytes) == 0;
}

/*
 * Opens what became of the segment. Every block that can be decoded is one of the original's.
 * Returns their number.
 */
static size_t check_damaged(const uint8_t *bytes, size_t size, struct segment *s)
{
	struct error e = { 0 };
	size_t good = 0;

	if (segment_open_bytes(bytes, size, s, &e) < 0) {
		assert_true(e.text[0] != 0);
		return 0;
	}
	for (size_t b = 0; b < s->block_count; b++) {
		struct decoded block;

		if (is_untouched(s, &s->blocks[b])) {
			good++;
			continue;
		}
		if (!schema_table(s->blocks[b].header.table))
			continue;
		if (decode_block(s, &s->blocks[b], &block) == 0) {
			size_t number = s->blocks[b].header.number;

			assert_true(number < original.segment.block_count);
			assert_same(&block, &original.blocks[number]);
			good++;
		}
		decoded_free(&block);
	}
	return good;
}

/*
 * Blocks of the original that end within the first `size` bytes; *boundary: whether one ends there.
 */
static size_t whole_blocks(size_t size, bool *boundary)
{
	const struct segment *s = &original.segment;
	size_t n = 0, end = s->blocks[0].offset; /* behind the padding */

	*boundary = size == sizeof(struct segment_header) || size == end;
	for (; n < s->block_count; n++) {
		end = s->blocks[n].offset + sizeof(struct block_header) +
		      s->blocks[n].header.payload_bytes;
		if (end > size)
			break;
		*boundary = *boundary || end == size;
	}
	return n;
}

static void test_truncation(void **state UNUSED)
{
	for (size_t size = 0; size <= original.size; size++) {
		uint8_t *bytes =
			malloc(size + 1); /* exactly, so that reading past the end is seen */
		struct segment s;
		bool boundary;
		size_t expected = whole_blocks(size, &boundary);
		size_t index = original.size - sizeof(struct segment_trailer);

		memcpy(bytes, original.bytes, size);
		bytes = realloc(bytes, MAX(size, 1));
		assert_int_equal(check_damaged(bytes, size, &s), expected);
		if (size >= sizeof(struct segment_header)) {
			assert_int_equal(s.closed, size == original.size);
			assert_int_equal(s.truncated,
					 !boundary && size != index && size != original.size);
			assert_int_equal(s.damaged_blocks, 0);
		}
		segment_release(&s);
		free(bytes);
	}
}

static void test_flipped_bits(void **state UNUSED)
{
	size_t count = original.segment.block_count;
	uint8_t *bytes = malloc(original.size);

	memcpy(bytes, original.bytes, original.size);
	for (size_t bit = 0; bit < 8 * original.size; bit++) {
		struct segment s;
		size_t good;

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		good = check_damaged(bytes, original.size, &s);
		assert_true(good >= count - 1 || bit / 8 < sizeof(struct segment_header));
		segment_release(&s);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(bytes);
}

/* Without the index the same, by walking: damage in a header is passed over. */
static void test_flipped_bits_without_index(void **state UNUSED)
{
	size_t count = original.segment.block_count;
	size_t size = original.size - sizeof(struct segment_trailer);
	uint8_t *bytes = malloc(size);

	memcpy(bytes, original.bytes, size);
	for (size_t bit = 8 * sizeof(struct segment_header); bit < 8 * size; bit++) {
		struct segment s;

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(check_damaged(bytes, size, &s) >= count - 1);
		assert_true(s.block_count == count || s.skipped_bytes > 0);
		segment_release(&s);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(bytes);
}

/* Pieces that are cut out, doubled or overwritten. */
static void test_rearranged(void **state UNUSED)
{
	uint8_t *bytes = malloc(2 * original.size);
	struct random r = { 7 };

	for (unsigned round = 0; round < 3000; round++) {
		size_t from = 64 + random_below(&r, original.size - 64),
		       to = from + random_below(&r, 600);
		size_t rest, size = from;
		struct segment s;

		memcpy(bytes, original.bytes, from);
		to = MIN(to, original.size);
		rest = original.size - to;
		if (round % 3 == 0) {
			memcpy(bytes + from, original.bytes + to, rest);
			size += rest;
		} else if (round % 3 == 1) {
			memcpy(bytes + from, original.bytes + from - MIN(from, 300),
			       MIN(from, 300));
			size += MIN(from, 300);
			memcpy(bytes + size, original.bytes + from, original.size - from);
			size += original.size - from;
		} else {
			for (; size < to; size++)
				bytes[size] = (uint8_t)random_u64(&r);
			memcpy(bytes + size, original.bytes + to, rest);
			size += rest;
		}
		check_damaged(bytes, size, &s);
		segment_release(&s);
	}
	free(bytes);
}

/* ---- files that change while they are open ---- */

/* Opens a file with the original's bytes. */
static int open_copy(struct fixture *f, struct segment *s)
{
	int fd = open(fixture_segment(f, 0), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, original.bytes, original.size), original.size);
	assert_int_equal(segment_open(f->path, s, NULL), 0);
	assert_int_equal(s->block_count, original.segment.block_count);
	return fd;
}

static void check_block(const struct segment *s, size_t number, bool good)
{
	struct decoded block;

	assert_int_equal(decode_block(s, &s->blocks[number], &block), good ? 0 : E_FORMAT);
	assert_int_equal(block_verify(s, &s->blocks[number]), good);
	if (good)
		assert_same(&block, &original.blocks[number]);
	decoded_free(&block);
}

/* A mapping would end us here. */
static void test_a_file_that_shrinks(void **state UNUSED)
{
	struct segment s, all;
	struct fixture f;

	fixture_open(&f);
	for (size_t size = 0; size < original.size; size += 97) {
		int fd = open_copy(&f, &s);

		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		for (size_t b = 0; b < s.block_count; b++)
			check_block(&s, b,
				    s.blocks[b].offset + sizeof(struct block_header) +
						    s.blocks[b].header.payload_bytes <=
					    size);
		s.closed = false;
		assert_int_equal(segment_refresh(&s, NULL), 0);
		assert_int_equal(segment_walk(&s, &all, NULL), 0);
		assert_true(all.truncated);
		segment_release(&all);
		segment_release(&s);
		close(fd);
	}
	fixture_close(&f);
}

static void test_a_file_that_is_written_over(void **state UNUSED)
{
	struct segment s;
	struct fixture f;
	int fd;

	fixture_open(&f);
	fd = open_copy(&f, &s);
	for (size_t b = 0; b < s.block_count; b++) {
		off_t at = (off_t)(s.blocks[b].offset + sizeof(struct block_header));
		uint8_t other = (uint8_t)~original.bytes[at];

		check_block(&s, b, true);
		assert_int_equal(pwrite(fd, &other, 1, at), 1);
		check_block(&s, b, false);
	}
	segment_release(&s);
	close(fd);
	fixture_close(&f);
}

/* Files beyond those that may stay open are opened again, if they are still the same. */
static void test_a_file_that_is_removed(void **state UNUSED)
{
	struct segment s[OPENED_MAX];
	struct fixture f;
	int fd, last = 0;

	fixture_open(&f);
	fd = open_copy(&f, &s[0]);
	while (s[last].stays_open && ++last < OPENED_MAX)
		assert_int_equal(segment_open(f.path, &s[last], NULL), 0);
	assert_in_range(last, 1, OPENED_MAX - 1);
	check_block(&s[last], 1, true);
	assert_int_equal(unlink(f.path), 0);
	check_block(&s[0], 1, true);
	check_block(&s[last], 1, false);
	close(open(f.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	check_block(&s[last], 1, false);
	for (int i = 0; i <= last; i++)
		segment_release(&s[i]);
	close(fd);
	fixture_close(&f);
}

/* 64 GiB that take no room on the disk, with a block behind them. */
static void test_a_huge_hole(void **state UNUSED)
{
	const struct block_ref *last = &original.segment.blocks[original.segment.block_count - 1];
	size_t size = sizeof(last->header) + last->header.payload_bytes;
	const uint64_t far = (uint64_t)64 << 30;
	struct decoded block;
	struct segment s;
	struct fixture f;
	int fd;

	fixture_open(&f);
	fd = open(fixture_segment(&f, 0), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, original.bytes, sizeof(struct segment_header)),
			 sizeof(struct segment_header));
	assert_int_equal(pwrite(fd, original.bytes + last->offset, size, (off_t)far), size);
	assert_int_equal(segment_open(f.path, &s, NULL), 0);
	assert_int_equal(s.block_count, 1);
	assert_int_equal(s.damaged_blocks, 1);
	assert_int_equal(s.skipped_bytes, far - sizeof(struct segment_header));
	assert_int_equal(decode_block(&s, &s.blocks[0], &block), 0);
	decoded_free(&block);
	segment_release(&s);
	assert_int_equal(ftruncate(fd, (off_t)far), 0);
	assert_int_equal(segment_open(f.path, &s, NULL), 0);
	assert_int_equal(s.block_count, 0);
	assert_true(s.truncated);
	segment_release(&s);
	close(fd);
	fixture_close(&f);
}

/* Each looks like a header: none is a reason to read everything behind it again. */
static void test_many_false_headers(void **state UNUSED)
{
	const size_t size = (size_t)8 << 20;
	uint8_t *bytes = malloc(size);
	struct segment s;
	struct fixture f;
	int fd;

	assert_non_null(bytes);
	for (size_t i = 0; i < size; i += 4)
		memcpy(bytes + i, "PBLK", 4);
	memcpy(bytes, original.bytes, sizeof(struct segment_header));
	fixture_open(&f);
	fd = open(fixture_segment(&f, 0), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(segment_open(f.path, &s, NULL), 0);
	assert_int_equal(s.block_count, 0);
	assert_int_equal(s.skipped_bytes, size - sizeof(struct segment_header));
	segment_release(&s);
	close(fd);
	free(bytes);
	fixture_close(&f);
}

static void test_not_a_segment(void **state UNUSED)
{
	struct error e = { 0 };
	struct segment s;
	uint8_t newer[sizeof(struct segment_header)];

	assert_int_equal(segment_open("/nonexistent/x.pit", &s, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/x.pit"));
	assert_int_equal(segment_open("/tmp", &s, &e), E_FORMAT);
	assert_int_equal(segment_open("/dev/null", &s, &e), E_FORMAT);
	assert_int_equal(segment_open("/proc/self/maps", &s, &e), E_FORMAT);
	memcpy(newer, original.bytes, sizeof(newer));
	newer[8] = SEGMENT_VERSION + 1;
	assert_int_equal(segment_open_bytes(newer, sizeof(newer), &s, &e), E_VERSION);
	segment_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_flipped_bits_without_index),
		cmocka_unit_test(test_rearranged),
		cmocka_unit_test(test_a_file_that_shrinks),
		cmocka_unit_test(test_a_file_that_is_written_over),
		cmocka_unit_test(test_a_file_that_is_removed),
		cmocka_unit_test(test_a_huge_hole),
		cmocka_unit_test(test_many_false_headers),
		cmocka_unit_test(test_not_a_segment),
	};

	return cmocka_run_group_tests(tests, make_original, free_original);
}
