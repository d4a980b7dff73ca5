/*
 * captured_rows.h: what a source of the capture layer wrote, read back as rows. One writer, one
 * segment.
 */
#ifndef PITOT_TESTS_CAPTURED_ROWS_H
#define PITOT_TESTS_CAPTURED_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/reader.h"
#include "format/writer.h"

#define CAPTURED_STRINGS_MAX 70000

struct captured {
	char directory[64], path[96];
	struct writer *writer;
	struct segment segment;
	struct decoder *decoder;
	char *strings[CAPTURED_STRINGS_MAX]; /* by id, terminated */
	uint32_t lengths[CAPTURED_STRINGS_MAX];
};

/* A folder and a writer in it. */
static inline struct captured *captured_begin(void)
{
	struct captured *c = calloc(1, sizeof(*c));
	struct writer_options options = { 0 };
	struct error e = { 0 };

	assert_non_null(c);
	strcpy(c->directory, "/tmp/pitot-capture-XXXXXX");
	assert_non_null(mkdtemp(c->directory));
	snprintf(c->path, sizeof(c->path), "%s/test.0.pit", c->directory);
	options.directory = c->directory;
	options.prefix = "test";
	if (writer_open(&options, &c->writer, &e) < 0)
		fail_msg("%s", e.text);
	return c;
}

static inline void captured_strings(struct captured *c, const struct block_ref *block)
{
	uint32_t *ids = malloc(block->header.rows * sizeof(*ids));
	struct bytes_column texts = { 0 };
	struct column_target targets[] = {
		{ .column = COLUMN_string_id, .values = ids },
		{ .column = COLUMN_string_text, .values = &texts },
	};

	if (block_decode(c->decoder, &c->segment, block, targets, 2) < 0)
		fail_msg("a block cannot be decoded");
	for (uint32_t i = 0; i < block->header.rows; i++) {
		uint32_t length = texts.offsets[i + 1] - texts.offsets[i];

		assert_true(ids[i] < CAPTURED_STRINGS_MAX);
		free(c->strings[ids[i]]);
		c->strings[ids[i]] = calloc(1, length + 1u);
		memcpy(c->strings[ids[i]], texts.data + texts.offsets[i], length);
		c->lengths[ids[i]] = length;
	}
	free(ids);
	free(texts.offsets);
	free(texts.data);
}

/* Reads what has been written and closed. */
static inline void captured_read(struct captured *c)
{
	struct error e = { 0 };

	if (segment_open(c->path, &c->segment, &e) < 0)
		fail_msg("%s", e.text);
	c->decoder = decoder_new();
	assert_non_null(c->decoder);
	for (size_t i = 0; i < c->segment.block_count; i++)
		if (c->segment.blocks[i].header.table == TABLE_string)
			captured_strings(c, &c->segment.blocks[i]);
}

/* Ends the writing, so that rows can be read. */
static inline void captured_close(struct captured *c)
{
	assert_int_equal(writer_close(&c->writer), 0);
	captured_read(c);
}

static inline void captured_free(struct captured *c)
{
	writer_abandon(&c->writer);
	if (c->decoder)
		segment_release(&c->segment);
	decoder_free(c->decoder);
	for (size_t i = 0; i < CAPTURED_STRINGS_MAX; i++)
		free(c->strings[i]);
	unlink(c->path);
	rmdir(c->directory);
	free(c);
}

static inline const char *captured_text(const struct captured *c, uint32_t id)
{
	assert_true(id < CAPTURED_STRINGS_MAX);
	if (!c->strings[id])
		fail_msg("string %u is not in the recording", id);
	return c->strings[id];
}

static inline void captured_block(struct captured *c, const struct block_ref *block,
				  const struct table_schema *table, uint8_t *rows)
{
	uint32_t count = block->header.rows;
	uint8_t *valid = malloc(count), *values = malloc(count * sizeof(uint64_t));

	for (int i = 0; i < table->column_count; i++) {
		const struct column_schema *column = &table->columns[i];
		struct column_target target = { .column = i, .values = values, .valid = valid };

		if (block_decode(c->decoder, &c->segment, block, &target, 1) < 0)
			fail_msg("%s cannot be decoded", column->name);
		for (uint32_t k = 0; k < count; k++) {
			uint8_t *row = rows + (size_t)k * table->row_size;

			memcpy(row + column->row_offset, values + (size_t)k * column->width,
			       column->width);
			if (!valid[k])
				*(uint64_t *)(void *)row |= UINT64_C(1) << i;
		}
	}
	free(valid);
	free(values);
}

/* All rows of a table (not `string`) as struct row_<table>, to be freed. */
static inline void *captured_rows(struct captured *c, enum table_id id, size_t *count)
{
	const struct table_schema *table = schema_table(id);
	uint8_t *rows;
	size_t n = 0;

	for (size_t i = 0; i < c->segment.block_count; i++)
		if (c->segment.blocks[i].header.table == id)
			n += c->segment.blocks[i].header.rows;
	rows = calloc(n + 1, table->row_size);
	assert_non_null(rows);
	*count = n;
	n = 0;
	for (size_t i = 0; i < c->segment.block_count; i++) {
		if (c->segment.blocks[i].header.table != id)
			continue;
		captured_block(c, &c->segment.blocks[i], table, rows + n * table->row_size);
		n += c->segment.blocks[i].header.rows;
	}
	return rows;
}

#define HAS(row, table, column) (!((row)->missing >> COLUMN_##table##_##column & 1))

#endif
