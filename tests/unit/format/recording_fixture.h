/*
 * recording_fixture.h: what the tests of the format share: a folder to write to, random rows,
 * decoded tables.
 */
#ifndef PITOT_TEST_RECORDING_FIXTURE_H
#define PITOT_TEST_RECORDING_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/io.h"
#include "format/reader.h"
#include "format/writer.h"

#define UNUSED __attribute__((unused))

/* ---- a folder ---- */

struct fixture {
	char directory[64];
	char path[512]; /* of the last segment asked for */
};

static inline void fixture_open(struct fixture *f)
{
	strcpy(f->directory, "/tmp/pitot-format-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
}

static inline void fixture_close(struct fixture *f)
{
	DIR *d = opendir(f->directory);
	struct dirent *entry;
	char path[512];

	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", f->directory, entry->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(f->directory);
}

static inline const char *fixture_segment(struct fixture *f, unsigned n)
{
	snprintf(f->path, sizeof(f->path), "%s/test.%u.pit", f->directory, n);
	return f->path;
}

static inline struct writer *fixture_writer(struct fixture *f, struct writer_options options)
{
	struct writer *w = NULL;
	struct error e = { 0 };

	options.directory = f->directory;
	options.prefix = "test";
	if (writer_open(&options, &w, &e) < 0)
		fail_msg("%s", e.text);
	return w;
}

static inline void fixture_map(struct fixture *f, unsigned n, struct segment *s)
{
	struct error e = { 0 };

	if (segment_open(fixture_segment(f, n), s, &e) < 0)
		fail_msg("%s", e.text);
}

/* ---- numbers that are the same in every run ---- */

struct random {
	uint64_t state;
};

static inline uint64_t random_u64(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline uint64_t random_below(struct random *r, uint64_t n)
{
	return random_u64(r) % n;
}

/* ---- decoded tables ---- */

struct decoded {
	const struct table_schema *table;
	size_t rows;
	uint64_t *values[64]; /* sign-extended; by column */
	uint8_t *valid[64];
	struct bytes_column bytes[64];
};

static inline void decoded_free(struct decoded *t)
{
	for (int c = 0; c < 64; c++) {
		free(t->values[c]);
		free(t->valid[c]);
		free(t->bytes[c].offsets);
		free(t->bytes[c].data);
	}
	memset(t, 0, sizeof(*t));
}

static inline uint64_t widen(const struct column_schema *c, const void *values, size_t i)
{
	switch (c->width) {
	case 1:
		return ((const uint8_t *)values)[i];
	case 2:
		return ((const uint16_t *)values)[i];
	case 4:
		return c->type == COLUMN_TYPE_I32 ? (uint64_t)(int64_t)((const int32_t *)values)[i]
						  : ((const uint32_t *)values)[i];
	default:
		return ((const uint64_t *)values)[i];
	}
}

/* One for the whole test. */
static struct decoder *the_decoder;

__attribute__((destructor)) static void free_the_decoder(void)
{
	decoder_free(the_decoder);
}

/* Decodes all columns of a block. Returns block_decode's result; then out is to be freed. */
static inline int decode_block(const struct segment *s, const struct block_ref *b,
			       struct decoded *out)
{
	struct column_target targets[64] = { 0 };
	int r;

	if (!the_decoder)
		the_decoder = decoder_new();
	*out = (struct decoded){ .table = schema_table(b->header.table), .rows = b->header.rows };
	assert_non_null(the_decoder);
	for (int c = 0; c < out->table->column_count; c++) {
		unsigned width = out->table->columns[c].width;

		out->valid[c] = malloc(out->rows + 1);
		targets[c].column = c;
		targets[c].valid = out->valid[c];
		targets[c].values = width ? malloc(out->rows * width + 1) : (void *)&out->bytes[c];
	}
	r = block_decode(the_decoder, s, b, targets, out->table->column_count);
	for (int c = 0; c < out->table->column_count; c++) {
		if (out->table->columns[c].width == 0)
			continue;
		out->values[c] = malloc(out->rows * 8 + 1);
		for (size_t i = 0; i < out->rows && r == 0; i++)
			out->values[c][i] = widen(&out->table->columns[c], targets[c].values, i);
		free(targets[c].values);
	}
	return r;
}

/* All blocks of a table, decoded one after the other: calls each(user, block). Returns the rows. */
static inline size_t for_each_block(const struct segment *s, enum table_id table,
				    void (*each)(void *user, const struct decoded *block),
				    void *user)
{
	size_t rows = 0;

	for (size_t b = 0; b < s->block_count; b++) {
		struct decoded block;

		if (s->blocks[b].header.table != table)
			continue;
		assert_int_equal(decode_block(s, &s->blocks[b], &block), 0);
		if (each)
			each(user, &block);
		rows += block.rows;
		decoded_free(&block);
	}
	return rows;
}

/* ---- random rows ---- */

/* A value of a random magnitude: tables must take any. */
static inline uint64_t random_value(struct random *r)
{
	return random_u64(r) >> random_below(r, 64);
}

/*
 * Rows of one block resemble each other or not at all, so that every encoding is chosen somewhere.
 */
struct row_style {
	/*
	 * of each column: 0 constant, 1 random, 2 rising, 3 few values, 4 runs, 5 rising with late
	 * ones
	 */
	uint8_t kind[64];
	uint64_t last[64];
	unsigned missing_percent[64];
};

static inline void style_new(struct row_style *s, struct random *r)
{
	for (int c = 0; c < 64; c++) {
		static const unsigned percents[] = { 0, 0, 0, 1, 50, 99, 100 };

		s->kind[c] = (uint8_t)random_below(r, 6);
		s->last[c] = random_value(r);
		s->missing_percent[c] = percents[random_below(r, ARRAY_SIZE(percents))];
	}
}

static inline uint64_t style_value(struct row_style *s, int c, struct random *r)
{
	switch (s->kind[c]) {
	case 0:
		break;
	case 1:
		s->last[c] = random_value(r);
		break;
	case 2:
		s->last[c] += random_below(r, 50);
		break;
	case 3:
		return s->last[c] ^ (UINT64_C(0x101010101) * random_below(r, 9));
	case 4:
		if (random_below(r, 100) == 0)
			s->last[c] = random_value(r);
		break;
	default:
		s->last[c] += random_below(r, 50);
		if (random_below(r, 100) == 0)
			return s->last[c] - random_below(r, 2000); /* up to 80 rows or so */
	}
	return s->last[c];
}

/*
 * Fills a row of any table but `string`. Strings get ids from the pool, references are below 100.
 */
static inline void random_row(const struct table_schema *t, struct row_style *s, struct random *r,
			      const uint32_t *strings, size_t string_count, uint8_t *row)
{
	uint64_t missing = 0;

	memset(row, 0xa5, t->row_size);
	for (int c = 0; c < t->column_count; c++) {
		const struct column_schema *column = &t->columns[c];
		uint64_t v = style_value(s, c, r);

		if (column->type == COLUMN_TYPE_STRING)
			v = strings[v % string_count];
		else if (column->type == COLUMN_TYPE_REF)
			v %= 100;
		memcpy(row + column->row_offset, &v, column->width);
		if (random_below(r, 100) < s->missing_percent[c])
			missing |= UINT64_C(1) << c;
	}
	memcpy(row, &missing, 8);
}

/*
 * Whether row a belongs behind row b: rows without a time come first, equal times keep their order.
 */
static inline bool is_later(const struct table_schema *t, const uint8_t *a, const uint8_t *b)
{
	int c = t->time_column;
	bool a_missing, b_missing;

	if (c < 0)
		return false;
	a_missing = load_u64(a) >> c & 1;
	b_missing = load_u64(b) >> c & 1;
	if (a_missing || b_missing)
		return !a_missing && b_missing;
	return load_u64(a + t->columns[c].row_offset) > load_u64(b + t->columns[c].row_offset);
}

/* Sorts as docs/format.md says blocks are sorted. */
static inline void sort_expected(const struct table_schema *t, const uint8_t **rows, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const uint8_t *row = rows[i];
		size_t k = i;

		for (; k > 0 && is_later(t, rows[k - 1], row); k--)
			rows[k] = rows[k - 1];
		rows[k] = row;
	}
}

static inline void assert_row_equal(const struct decoded *t, size_t i, const uint8_t *row)
{
	for (int c = 0; c < t->table->column_count; c++) {
		const struct column_schema *column = &t->table->columns[c];
		bool missing = load_u64(row) >> c & 1;

		if (t->valid[c][i] == missing ||
		    t->values[c][i] != (missing ? 0 : widen(column, row + column->row_offset, 0)))
			fail_msg("%s.%s of row %zu is %#llx, valid %u", t->table->name,
				 column->name, i, (unsigned long long)t->values[c][i],
				 t->valid[c][i]);
	}
}

#endif
