/*
 * parquet.c: a folder with a Parquet file for each table that has rows.
 *
 * Row groups have 128 Ki rows, and a column of one is one page after its dictionary, so its
 * statistics are what a page index would say. Numbers and times are DELTA_BINARY_PACKED, texts
 * RLE_DICTIONARY, doubles PLAIN; pages are of version 1 and compressed by zstd. All of that is read
 * by every reader since 2017. Columns are encoded on all processors.
 *
 * Ends of spans are left out: two of start, end and duration would be the most expensive columns.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/map.h"
#include "export/tables/flat_table.h"
#include "export/tables/parquet_encode.h"
#include "trace/parallel.h"

#define MAGIC "PAR1"
#define ZSTD_LEVEL 1

enum { INT32 = 1, INT64 = 2, DOUBLE = 5, BYTE_ARRAY = 6 };
enum { PLAIN = 0, RLE = 3, DELTA_BINARY_PACKED = 5, RLE_DICTIONARY = 8 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2 };
enum { REQUIRED = 0, OPTIONAL = 1 };
#define CODEC_ZSTD 6

struct chunk_meta {
	uint64_t offset, dictionary_offset; /* of the pages; 0: no dictionary */
	uint64_t bytes, raw_bytes;
	uint64_t values, nulls;
	uint64_t least, most;
	uint8_t encoding;
};

struct column_writer {
	const struct flat_column *column;
	struct strbuf pages; /* of the row group, compressed */
	struct chunk_meta meta;
	uint64_t *values;
	uint8_t *valid;
	uint32_t *levels, *items; /* items: indexes of texts */
	struct strbuf raw, text, compressed;
	struct map indexes; /* value -> item of texts, from 1 */
	struct interner texts;
	ZSTD_CCtx *zstd;
};

struct parquet {
	struct flat_table *table;
	struct output *output;
	struct column_writer *writers;
	size_t count;
	struct flat_rows rows; /* of the row group */
	VEC(struct chunk_meta) chunks; /* by row group, then by column */
	VEC(uint64_t) group_rows;
};

static int physical_type(const struct flat_column *c)
{
	switch (c->type) {
	case FLAT_TEXT:
		return BYTE_ARRAY;
	case FLAT_F64:
		return DOUBLE;
	case FLAT_I32:
	case FLAT_U32:
		return INT32;
	default:
		return INT64;
	}
}

/* ---- pages ---- */

static int add_page(struct column_writer *w, int type, uint32_t values, int encoding)
{
	size_t bound = ZSTD_compressBound(w->raw.length), size;
	struct thrift t = { .out = &w->pages };
	size_t begin = w->pages.length;

	if (w->raw.length > INT32_MAX)
		return E_LIMIT;
	strbuf_clear(&w->compressed);
	if (!strbuf_reserve(&w->compressed, bound))
		return -ENOMEM;
	size = ZSTD_compressCCtx(w->zstd, w->compressed.data, bound, strbuf_text(&w->raw),
				 w->raw.length, ZSTD_LEVEL);
	if (ZSTD_isError(size))
		return -ENOMEM;
	thrift_i32(&t, 1, type);
	thrift_i32(&t, 2, (int32_t)w->raw.length);
	thrift_i32(&t, 3, (int32_t)size);
	thrift_open(&t, type == DATA_PAGE ? 5 : 7);
	thrift_i32(&t, 1, (int32_t)values);
	thrift_i32(&t, 2, encoding);
	if (type == DATA_PAGE) {
		thrift_i32(&t, 3, RLE);
		thrift_i32(&t, 4, RLE);
	}
	thrift_close(&t);
	strbuf_addc(&w->pages, 0);
	w->meta.raw_bytes += w->pages.length - begin + w->raw.length;
	strbuf_add(&w->pages, w->compressed.data, size);
	return w->pages.failed || w->raw.failed ? -ENOMEM : 0;
}

/* Definition levels, with their length before them. */
static void add_levels(struct column_writer *w, size_t rows)
{
	size_t at = w->raw.length;

	strbuf_add(&w->raw, "\0\0\0", 4);
	for (size_t i = 0; i < rows; i++)
		w->levels[i] = w->valid[i];
	parquet_hybrid(&w->raw, w->levels, rows, 1);
	if (!w->raw.failed)
		store_u32(w->raw.data + at, (uint32_t)(w->raw.length - at - 4));
}

/* Turns values into indexes of distinct texts, and writes these. */
static int add_dictionary(struct column_writer *w, const struct flat_table *f, size_t count)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT;

	interner_release(&w->texts);
	interner_init(&w->texts);
	map_clear(&w->indexes);
	for (size_t i = 0; i < count; i++) {
		uint64_t *index = map_at(&w->indexes, w->values[i], 0);

		if (!index)
			return -ENOMEM;
		if (!*index) {
			size_t length;
			const char *text = flat_text(f, w->column, w->values[i], &room, &length);
			int64_t item;

			strbuf_clear(&w->text);
			strbuf_add_utf8(&w->text, text, length);
			item = interner_add(&w->texts, strbuf_text(&w->text), w->text.length, NULL);
			if (item < 0 || w->text.failed)
				return -ENOMEM;
			*index = (uint64_t)item + 1;
		}
		w->items[i] = (uint32_t)(*index - 1);
	}
	strbuf_clear(&w->raw);
	for (size_t i = 0; i < w->texts.count; i++) {
		strbuf_add(&w->raw, &w->texts.items[i].length, sizeof(uint32_t));
		strbuf_add(&w->raw, w->texts.items[i].text, w->texts.items[i].length);
	}
	return add_page(w, DICTIONARY_PAGE, (uint32_t)w->texts.count, PLAIN);
}

static void add_indexes(struct column_writer *w, size_t count)
{
	size_t most = w->texts.count ? w->texts.count - 1 : 0;
	unsigned width = most ? 64 - (unsigned)__builtin_clzll(most) : 0;

	strbuf_addc(&w->raw, (char)width);
	parquet_hybrid(&w->raw, w->items, count, width);
}

static void find_limits(struct column_writer *w, size_t count)
{
	bool is_unsigned = w->column->type == FLAT_U64 || w->column->type == FLAT_U32;
	uint64_t flip = is_unsigned ? 0 : UINT64_C(1) << 63, least = UINT64_MAX, most = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t v = w->values[i] ^ flip;

		least = MIN(least, v);
		most = MAX(most, v);
	}
	w->meta.least = least ^ flip;
	w->meta.most = most ^ flip;
}

/* Encodes a column of the row group. */
static int encode(void *user, unsigned worker, size_t item)
{
	struct parquet *p = user;
	struct column_writer *w = &p->writers[item];
	size_t rows = p->rows.count, count, at = 0;
	int type = physical_type(w->column), rc = 0;

	(void)worker;
	strbuf_clear(&w->pages);
	w->meta = (struct chunk_meta){ .values = rows };
	count = flat_read(p->table, w->column, &p->rows, w->values, w->valid);
	w->meta.nulls = rows - count;
	for (size_t i = 0; i < rows && count < rows; i++)
		if (w->valid[i])
			w->values[at++] = w->values[i];
	if (type == BYTE_ARRAY && count)
		rc = add_dictionary(w, p->table, count);
	w->meta.offset = w->pages.length; /* in the chunk, which begins with the dictionary */
	strbuf_clear(&w->raw);
	if (w->column->maybe)
		add_levels(w, rows);
	w->meta.encoding = PLAIN;
	if (type == BYTE_ARRAY && count) {
		w->meta.encoding = RLE_DICTIONARY;
		add_indexes(w, count);
	} else if (type == DOUBLE) {
		strbuf_add(&w->raw, w->values, count * sizeof(*w->values));
	} else if (count) {
		w->meta.encoding = DELTA_BINARY_PACKED;
		parquet_delta(&w->raw, w->values, count, type == INT32);
		find_limits(w, count);
	}
	return rc < 0 ? rc : add_page(w, DATA_PAGE, (uint32_t)rows, w->meta.encoding);
}

static int write_group(struct parquet *p, struct error *e)
{
	int rc = parallel_for(parallel_processors(), p->count, encode, p);

	if (rc < 0)
		return error_set(e, rc, "table %s: %s", flat_name(p->table), error_code_text(rc));
	for (size_t i = 0; i < p->count; i++) {
		struct column_writer *w = &p->writers[i];
		uint64_t begin = output_bytes(p->output);

		w->meta.bytes = w->pages.length;
		w->meta.dictionary_offset = w->meta.offset ? begin : 0;
		w->meta.offset += begin;
		output_write(p->output, w->pages.data, w->pages.length);
		if (vec_push(&p->chunks, w->meta) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	}
	return vec_push(&p->group_rows, p->rows.count) < 0 ? error_set(e, -ENOMEM, "out of memory")
							   : 0;
}

/* ---- footer ---- */

static void add_logical_type(struct thrift *t, const struct flat_column *c)
{
	if (c->type == FLAT_F64)
		return;
	thrift_open(t, 10);
	if (c->type == FLAT_TEXT) {
		thrift_open(t, 1);
		thrift_close(t);
	} else if (c->type == FLAT_TIME) {
		thrift_open(t, 8);
		thrift_bool(t, 1, true); /* UTC */
		thrift_open(t, 2);
		thrift_open(t, 3); /* nanoseconds */
		thrift_close(t);
		thrift_close(t);
		thrift_close(t);
	} else {
		thrift_open(t, 10);
		thrift_byte(t, 1, physical_type(c) == INT32 ? 32 : 64);
		thrift_bool(t, 2, c->type == FLAT_I32 || c->type == FLAT_I64);
		thrift_close(t);
	}
	thrift_close(t);
}

/* What readers know that do not know logical types; -1: nothing. */
static int converted_type(const struct flat_column *c)
{
	switch (c->type) {
	case FLAT_TEXT:
		return 0;
	case FLAT_U32:
		return 13;
	case FLAT_U64:
		return 14;
	case FLAT_I32:
		return 17;
	case FLAT_I64:
		return 18;
	default:
		return -1;
	}
}

static void add_schema(struct thrift *t, const struct parquet *p)
{
	thrift_list(t, 2, THRIFT_STRUCT, p->count + 1);
	thrift_open(t, 0);
	thrift_text(t, 4, "schema");
	thrift_i32(t, 5, (int32_t)p->count);
	thrift_close(t);
	for (size_t i = 0; i < p->count; i++) {
		const struct flat_column *c = p->writers[i].column;

		thrift_open(t, 0);
		thrift_i32(t, 1, physical_type(c));
		thrift_i32(t, 3, c->maybe ? OPTIONAL : REQUIRED);
		thrift_text(t, 4, c->name);
		if (converted_type(c) >= 0)
			thrift_i32(t, 6, converted_type(c));
		add_logical_type(t, c);
		thrift_close(t);
	}
}

static void add_statistics(struct thrift *t, const struct flat_column *c,
			   const struct chunk_meta *m)
{
	size_t width = physical_type(c) == INT32 ? 4 : 8;

	thrift_open(t, 12);
	thrift_i64(t, 3, (int64_t)m->nulls);
	if (m->encoding == DELTA_BINARY_PACKED) {
		thrift_binary(t, 5, &m->most, width);
		thrift_binary(t, 6, &m->least, width);
	}
	thrift_close(t);
}

static void add_chunk(struct thrift *t, const struct flat_column *c, const struct chunk_meta *m)
{
	uint64_t begin = m->dictionary_offset ? m->dictionary_offset : m->offset;

	thrift_open(t, 0);
	thrift_i64(t, 2, (int64_t)begin);
	thrift_open(t, 3);
	thrift_i32(t, 1, physical_type(c));
	thrift_list(t, 2, THRIFT_I32, 3);
	thrift_item_i32(t, PLAIN);
	thrift_item_i32(t, RLE);
	thrift_item_i32(t, m->encoding);
	thrift_list(t, 3, THRIFT_BINARY, 1);
	thrift_item_text(t, c->name);
	thrift_i32(t, 4, CODEC_ZSTD);
	thrift_i64(t, 5, (int64_t)m->values);
	thrift_i64(t, 6, (int64_t)m->raw_bytes);
	thrift_i64(t, 7, (int64_t)m->bytes);
	thrift_i64(t, 9, (int64_t)m->offset);
	if (m->dictionary_offset)
		thrift_i64(t, 11, (int64_t)m->dictionary_offset);
	add_statistics(t, c, m);
	thrift_close(t);
	thrift_close(t);
}

static void add_groups(struct thrift *t, const struct parquet *p)
{
	thrift_list(t, 4, THRIFT_STRUCT, p->group_rows.count);
	for (size_t g = 0; g < p->group_rows.count; g++) {
		const struct chunk_meta *m = &p->chunks.data[g * p->count];
		uint64_t bytes = 0;

		thrift_open(t, 0);
		thrift_list(t, 1, THRIFT_STRUCT, p->count);
		for (size_t i = 0; i < p->count; i++) {
			add_chunk(t, p->writers[i].column, &m[i]);
			bytes += m[i].raw_bytes;
		}
		thrift_i64(t, 2, (int64_t)bytes);
		thrift_i64(t, 3, (int64_t)p->group_rows.data[g]);
		thrift_close(t);
	}
}

static void add_pair(struct thrift *t, const char *key, const char *value)
{
	thrift_open(t, 0);
	thrift_text(t, 1, key);
	thrift_text(t, 2, value);
	thrift_close(t);
}

/* Readers trust least and most values only if their order is named. */
static void add_orders(struct thrift *t, const struct parquet *p)
{
	thrift_list(t, 7, THRIFT_STRUCT, p->count);
	for (size_t i = 0; i < p->count; i++) {
		thrift_open(t, 0);
		thrift_open(t, 1);
		thrift_close(t);
		thrift_close(t);
	}
}

static int write_footer(struct parquet *p, struct error *e)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, command = STRBUF_INIT;
	struct thrift t = { .out = &out };
	const struct trace_process *process = flat_first_process(p->table);
	char offset[32];
	uint32_t length;

	snprintf(offset, sizeof(offset), "%lld", (long long)p->table->offset_ns);
	if (process)
		strbuf_add_utf8(&command, process->command, strlen(process->command));
	thrift_i32(&t, 1, 2);
	add_schema(&t, p);
	thrift_i64(&t, 3, (int64_t)p->table->rows);
	add_groups(&t, p);
	thrift_list(&t, 5, THRIFT_STRUCT, 4);
	add_pair(&t, "pitot.version", PITOT_VERSION);
	add_pair(&t, "pitot.table", flat_name(p->table));
	add_pair(&t, "pitot.command", strbuf_text(&command));
	add_pair(&t, "pitot.realtime_minus_monotonic_ns", offset);
	thrift_text(&t, 6, "pitot version " PITOT_VERSION);
	add_orders(&t, p);
	strbuf_addc(&out, 0);
	length = (uint32_t)out.length;
	strbuf_add(&out, &length, sizeof(length));
	strbuf_adds(&out, MAGIC);
	if (out.failed || out.length > INT32_MAX)
		return error_set(e, out.failed ? -ENOMEM : E_LIMIT, "the footer is too large");
	output_write(p->output, out.data, out.length);
	return 0;
}

/* ---- files ---- */

static int init_writers(struct parquet *p, struct error *e)
{
	p->writers = calloc(p->table->columns.count, sizeof(*p->writers));
	for (size_t i = 0; i < p->table->columns.count && p->writers; i++) {
		struct column_writer *w = &p->writers[p->count];

		if (p->table->columns.data[i].is_end)
			continue;
		p->count++;
		interner_init(&w->texts);
		w->column = &p->table->columns.data[i];
		w->values = calloc(FLAT_ROWS, sizeof(*w->values));
		w->valid = malloc(FLAT_ROWS);
		w->levels = calloc(FLAT_ROWS, sizeof(*w->levels));
		w->items = calloc(FLAT_ROWS, sizeof(*w->items));
		w->zstd = ZSTD_createCCtx();
		if (!w->values || !w->valid || !w->levels || !w->items || !w->zstd)
			return error_set(e, -ENOMEM, "out of memory");
	}
	return p->writers ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static void release(struct parquet *p)
{
	for (size_t i = 0; i < p->count; i++) {
		struct column_writer *w = &p->writers[i];

		strbuf_release(&w->pages);
		strbuf_release(&w->raw);
		strbuf_release(&w->text);
		strbuf_release(&w->compressed);
		map_release(&w->indexes);
		interner_release(&w->texts);
		free(w->values);
		free(w->valid);
		free(w->levels);
		free(w->items);
		ZSTD_freeCCtx(w->zstd);
	}
	free(p->writers);
	vec_release(&p->chunks);
	vec_release(&p->group_rows);
}

static int write_rows(struct parquet *p, struct error *e)
{
	int rc = 0;

	output_write(p->output, MAGIC, strlen(MAGIC));
	while (rc >= 0 && flat_next(p->table, &p->rows.first, &p->rows.count)) {
		rc = write_group(p, e);
		if (rc >= 0)
			rc = flat_progress(p->table);
	}
	return rc < 0 ? rc : write_footer(p, e);
}

int parquet_write_table(struct flat_table *f, struct output *output, struct error *e)
{
	struct parquet p = { .table = f, .output = output };
	int rc = init_writers(&p, e);

	if (rc >= 0)
		rc = write_rows(&p, e);
	release(&p);
	return rc;
}

int parquet_write_file(struct flat_table *f, const char *path, uint64_t *bytes, struct error *e)
{
	struct output *output = output_open(path, true, e);
	int rc = output ? parquet_write_table(f, output, e) : e->code;

	if (rc >= 0)
		rc = output_commit(&output, bytes, e);
	output_abort(&output);
	return rc;
}

int parquet_write(struct trace *t, const struct export_options *options, const char *path,
		  struct export_result *result, struct error *e)
{
	return flat_write_folder(t, options, path, ".parquet", parquet_write_table, result, e);
}
