/*
 * arrow_ipc.c: a folder with an Arrow IPC file (Feather, version 2) for each table that has rows.
 * Texts are dictionaries of the whole table, because readers of files do not expect them to change;
 * therefore their columns are read twice. Nothing is compressed, so that readers can map a file.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "export/tables/flat_table.h"
#include "export/tables/flatbuffer.h"

#define MAGIC "ARROW1"
#define CONTINUES UINT32_MAX /* before each message */

/* Numbers of Arrow's Schema.fbs and Message.fbs. */
enum { VERSION_V5 = 4 };
enum { MESSAGE_SCHEMA = 1, MESSAGE_DICTIONARY, MESSAGE_ROWS };
enum { TYPE_INT = 2, TYPE_DOUBLE = 3, TYPE_UTF8 = 5, TYPE_TIMESTAMP = 10 };
enum { UNIT_NANOSECOND = 3, PRECISION_DOUBLE = 2 };

struct block {
	int64_t offset;
	int32_t head_bytes, unused; /* with what is before a message */
	int64_t body_bytes;
};
_Static_assert(sizeof(struct block) == 24, "it is in the file");

struct dictionary {
	struct map items; /* value -> item of texts, from 1 */
	struct interner texts;
};

struct arrow_file {
	struct flat_table *table;
	struct output *output;
	struct flat_chunk chunk;
	struct dictionary *dictionaries; /* by column */
	struct strbuf head, body;
	VEC(int64_t) nodes; /* of the message: rows and missing values of each array */
	VEC(int64_t) buffers; /* of the message: place in the body and bytes of each buffer */
	VEC(struct block) blocks[2]; /* dictionaries, rows */
};

/* ---- schema ---- */

static unsigned bits_of(const struct flat_column *c)
{
	return c->type == FLAT_I32 || c->type == FLAT_U32 || c->type == FLAT_TEXT ? 32 : 64;
}

static size_t add_int(struct strbuf *b, int32_t bits, bool is_signed)
{
	size_t type = fb_table(b, "41");

	fb_set(b, type, 0, &bits, sizeof(bits));
	fb_set(b, type, 1, &is_signed, 1);
	return type;
}

/* Appends what the type is, and returns its number. */
static uint8_t add_type(struct strbuf *b, const struct flat_column *c, size_t *place)
{
	int16_t unit = UNIT_NANOSECOND, precision = PRECISION_DOUBLE;

	switch (c->type) {
	case FLAT_TEXT:
		*place = fb_table(b, "");
		return TYPE_UTF8;
	case FLAT_F64:
		*place = fb_table(b, "2");
		fb_set(b, *place, 0, &precision, sizeof(precision));
		return TYPE_DOUBLE;
	case FLAT_TIME:
		*place = fb_table(b, "24");
		fb_set(b, *place, 0, &unit, sizeof(unit));
		fb_link(b, fb_field(b, *place, 1), fb_text(b, "UTC"));
		return TYPE_TIMESTAMP;
	default:
		*place =
			add_int(b, (int32_t)bits_of(c), c->type == FLAT_I32 || c->type == FLAT_I64);
		return TYPE_INT;
	}
}

static size_t add_pair(struct strbuf *b, const char *key, const char *value)
{
	size_t pair = fb_table(b, "44");

	fb_link(b, fb_field(b, pair, 0), fb_text(b, key));
	fb_link(b, fb_field(b, pair, 1), fb_text(b, value));
	return pair;
}

static size_t add_field(struct strbuf *b, const struct flat_column *c, int64_t number)
{
	bool is_text = c->type == FLAT_TEXT;
	size_t field = fb_table(b, is_text ? "4114444" : "4114044"), place, pairs;
	uint8_t type;

	fb_set(b, field, 1, &c->maybe, 1);
	fb_link(b, fb_field(b, field, 0), fb_text(b, c->name));
	type = add_type(b, c, &place);
	fb_set(b, field, 2, &type, 1);
	fb_link(b, fb_field(b, field, 3), place);
	if (is_text) {
		place = fb_table(b, "84");
		fb_set(b, place, 0, &number, sizeof(number));
		fb_link(b, fb_field(b, field, 4), place);
		fb_link(b, fb_field(b, place, 1), add_int(b, 32, true));
	}
	fb_link(b, fb_field(b, field, 5), fb_vector(b, 0, 4));
	pairs = fb_vector(b, 1, 4);
	fb_link(b, fb_field(b, field, 6), pairs);
	fb_link(b, pairs + 4, add_pair(b, "meaning", c->meaning));
	return field;
}

static size_t add_schema(const struct arrow_file *a, struct strbuf *b)
{
	size_t schema = fb_table(b, "0440"), fields = fb_vector(b, a->chunk.columns, 4), pairs;

	fb_link(b, fb_field(b, schema, 1), fields);
	for (size_t i = 0; i < a->chunk.columns; i++)
		fb_link(b, fields + 4 + 4 * i,
			add_field(b, &a->table->columns.data[i], (int64_t)i));
	pairs = fb_vector(b, 2, 4);
	fb_link(b, fb_field(b, schema, 2), pairs);
	fb_link(b, pairs + 4, add_pair(b, "pitot.version", PITOT_VERSION));
	fb_link(b, pairs + 8, add_pair(b, "pitot.table", a->table->schema->name));
	return schema;
}

/* ---- messages ---- */

/* Appends a buffer to the body. */
static int add_buffer(struct arrow_file *a, const void *bytes, size_t length)
{
	static const char zeros[64];
	int64_t pair[] = { (int64_t)a->body.length, (int64_t)length };

	strbuf_add(&a->body, bytes, length);
	strbuf_add(&a->body, zeros, (64 - length % 64) % 64);
	return vec_push(&a->buffers, pair[0]) < 0 || vec_push(&a->buffers, pair[1]) < 0 ? -ENOMEM
											: 0;
}

static int add_node(struct arrow_file *a, size_t rows, size_t missing)
{
	return vec_push(&a->nodes, (int64_t)rows) < 0 || vec_push(&a->nodes, (int64_t)missing) < 0
		       ? -ENOMEM
		       : 0;
}

/* Appends a vector of pairs of numbers, and empties the list. */
static size_t add_pairs(struct strbuf *b, const int64_t *numbers, size_t *count)
{
	size_t vector = fb_vector(b, *count / 2, 16);

	if (!b->failed && *count)
		memcpy(b->data + vector + 4, numbers, *count * sizeof(*numbers));
	*count = 0;
	return vector;
}

static size_t add_batch(struct arrow_file *a, int64_t rows)
{
	struct strbuf *b = &a->head;
	size_t batch = fb_table(b, "844");

	fb_set(b, batch, 0, &rows, sizeof(rows));
	fb_link(b, fb_field(b, batch, 1), add_pairs(b, a->nodes.data, &a->nodes.count));
	fb_link(b, fb_field(b, batch, 2), add_pairs(b, a->buffers.data, &a->buffers.count));
	return batch;
}

/* Begins the head of a message; its table is appended next. */
static size_t begin_message(struct arrow_file *a, uint8_t kind)
{
	struct strbuf *b = &a->head;
	int16_t version = VERSION_V5;
	int64_t bytes = (int64_t)a->body.length;
	size_t message;

	strbuf_clear(b);
	strbuf_add(b, "\0\0\0", 4);
	message = fb_table(b, "2148");
	fb_link(b, 0, message);
	fb_set(b, message, 0, &version, sizeof(version));
	fb_set(b, message, 1, &kind, 1);
	fb_set(b, message, 3, &bytes, sizeof(bytes));
	return fb_field(b, message, 2);
}

/* Writes the message, and what the footer says of it. */
static int write_message(struct arrow_file *a, struct block *block)
{
	static const char zeros[8];
	size_t padding = (8 - a->head.length % 8) % 8;
	uint32_t before[] = { CONTINUES, (uint32_t)(a->head.length + padding) };

	if (a->head.failed || a->body.failed)
		return -ENOMEM;
	*block =
		(struct block){ (int64_t)output_bytes(a->output),
				(int32_t)(sizeof(before) + before[1]), 0, (int64_t)a->body.length };
	output_write(a->output, before, sizeof(before));
	output_write(a->output, a->head.data, a->head.length);
	output_write(a->output, zeros, padding);
	output_write(a->output, strbuf_text(&a->body), a->body.length);
	strbuf_clear(&a->body);
	return 0;
}

/* ---- dictionaries ---- */

/* Adds the texts of a column's values. */
static int add_texts(const struct flat_table *f, size_t column, const struct flat_chunk *chunk,
		     struct dictionary *d)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT, text = STRBUF_INIT;

	for (size_t row = 0; row < chunk->rows.count; row++) {
		uint64_t value = chunk->values[column][row], *item;
		const char *bytes;
		size_t length;
		int64_t added;

		if (!chunk->valid[column][row])
			continue;
		item = map_at(&d->items, value, 0);
		if (!item)
			return -ENOMEM;
		if (*item)
			continue;
		bytes = flat_text(f, &f->columns.data[column], value, &room, &length);
		strbuf_clear(&text);
		strbuf_add_utf8(&text, bytes, length);
		added = interner_add(&d->texts, strbuf_text(&text), text.length, NULL);
		if (added < 0 || text.failed || room.failed)
			return -ENOMEM;
		*item = (uint64_t)added + 1;
	}
	return 0;
}

/* Writes the dictionary of a column: the ends of its texts, and these. */
static int write_dictionary(struct arrow_file *a, size_t column)
{
	const struct interner *texts = &a->dictionaries[column].texts;
	_cleanup_strbuf_ struct strbuf ends = STRBUF_INIT, bytes = STRBUF_INIT;
	int64_t number = (int64_t)column;
	struct block block;
	uint32_t end = 0;
	size_t table, place;

	if (texts->bytes > INT32_MAX)
		return E_LIMIT;
	strbuf_add(&ends, &end, sizeof(end));
	for (size_t i = 0; i < texts->count; i++) {
		strbuf_add(&bytes, texts->items[i].text, texts->items[i].length);
		end = (uint32_t)bytes.length;
		strbuf_add(&ends, &end, sizeof(end));
	}
	if (ends.failed || bytes.failed || add_node(a, texts->count, 0) < 0 ||
	    add_buffer(a, "", 0) < 0 || add_buffer(a, ends.data, ends.length) < 0 ||
	    add_buffer(a, strbuf_text(&bytes), bytes.length) < 0)
		return -ENOMEM;
	place = begin_message(a, MESSAGE_DICTIONARY);
	table = fb_table(&a->head, "84");
	fb_link(&a->head, place, table);
	fb_set(&a->head, table, 0, &number, sizeof(number));
	fb_link(&a->head, fb_field(&a->head, table, 1), add_batch(a, (int64_t)texts->count));
	return write_message(a, &block) < 0 || vec_push(&a->blocks[0], block) < 0 ? -ENOMEM : 0;
}

/* Reads the texts of the table, and writes its dictionaries. */
static int write_dictionaries(struct arrow_file *a, const struct flat_table *table)
{
	struct flat_table f = *table; /* its rows are read from the first one again */
	int rc;

	while ((rc = flat_chunk_next(&a->chunk, &f)) > 0)
		for (size_t i = 0; i < a->chunk.columns; i++)
			if (f.columns.data[i].type == FLAT_TEXT &&
			    add_texts(&f, i, &a->chunk, &a->dictionaries[i]) < 0)
				return -ENOMEM;
	for (size_t i = 0; i < a->chunk.columns && rc >= 0; i++)
		if (f.columns.data[i].type == FLAT_TEXT)
			rc = write_dictionary(a, i);
	return rc;
}

/* ---- rows ---- */

/* Appends the array of a column: which values are there, and the values. */
static int add_array(struct arrow_file *a, size_t column)
{
	const struct flat_column *c = &a->table->columns.data[column];
	uint64_t *values = a->chunk.values[column];
	const uint8_t *valid = a->chunk.valid[column];
	size_t rows = a->chunk.rows.count, missing = 0;
	uint32_t *narrow = (uint32_t *)(void *)values;
	uint8_t bits[FLAT_ROWS / 8] = { 0 };

	for (size_t i = 0; i < rows; i++) {
		missing += !valid[i];
		bits[i / 8] |= (uint8_t)(valid[i] << i % 8);
		if (c->type == FLAT_TEXT && valid[i]) {
			map_get(&a->dictionaries[column].items, values[i], &values[i]);
			values[i]--;
		}
	}
	for (size_t i = 0; i < rows && bits_of(c) == 32; i++)
		narrow[i] = (uint32_t)values[i];
	return add_node(a, rows, missing) < 0 ||
			       add_buffer(a, bits, missing ? (rows + 7) / 8 : 0) < 0 ||
			       add_buffer(a, values, rows * (bits_of(c) / 8)) < 0
		       ? -ENOMEM
		       : 0;
}

static int write_batch(struct arrow_file *a)
{
	struct block block;
	size_t place;

	for (size_t i = 0; i < a->chunk.columns; i++)
		if (add_array(a, i) < 0)
			return -ENOMEM;
	place = begin_message(a, MESSAGE_ROWS);
	fb_link(&a->head, place, add_batch(a, (int64_t)a->chunk.rows.count));
	return write_message(a, &block) < 0 || vec_push(&a->blocks[1], block) < 0 ? -ENOMEM : 0;
}

static int write_footer(struct arrow_file *a)
{
	static const uint32_t end[] = { CONTINUES, 0 };
	struct strbuf *b = &a->head;
	int16_t version = VERSION_V5;
	uint32_t length;
	size_t footer;

	strbuf_clear(b);
	strbuf_add(b, "\0\0\0", 4);
	footer = fb_table(b, "2444");
	fb_link(b, 0, footer);
	fb_set(b, footer, 0, &version, sizeof(version));
	fb_link(b, fb_field(b, footer, 1), add_schema(a, b));
	for (unsigned i = 0; i < 2; i++) {
		size_t count = a->blocks[i].count,
		       vector = fb_vector(b, count, sizeof(struct block));

		fb_link(b, fb_field(b, footer, 2 + i), vector);
		if (!b->failed && count)
			memcpy(b->data + vector + 4, a->blocks[i].data,
			       count * sizeof(struct block));
	}
	length = (uint32_t)b->length;
	strbuf_add(b, &length, sizeof(length));
	strbuf_adds(b, MAGIC);
	if (b->failed)
		return -ENOMEM;
	output_write(a->output, end, sizeof(end));
	output_write(a->output, b->data, b->length);
	return 0;
}

/* ---- files ---- */

static int write_all(struct arrow_file *a)
{
	struct block unlisted;
	size_t place;
	int rc;

	output_write(a->output, MAGIC "\0", 8);
	place = begin_message(a, MESSAGE_SCHEMA);
	fb_link(&a->head, place, add_schema(a, &a->head));
	rc = write_message(a, &unlisted);
	if (rc >= 0)
		rc = write_dictionaries(a, a->table);
	while (rc >= 0 && (rc = flat_chunk_next(&a->chunk, a->table)) > 0)
		rc = write_batch(a);
	return rc < 0 ? rc : write_footer(a);
}

static int init(struct arrow_file *a, struct error *e)
{
	a->dictionaries = calloc(a->table->columns.count, sizeof(*a->dictionaries));
	if (!a->dictionaries)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->table->columns.count; i++)
		interner_init(&a->dictionaries[i].texts);
	return flat_chunk_init(&a->chunk, a->table, e);
}

static void release(struct arrow_file *a)
{
	for (size_t i = 0; i < a->table->columns.count && a->dictionaries; i++) {
		map_release(&a->dictionaries[i].items);
		interner_release(&a->dictionaries[i].texts);
	}
	free(a->dictionaries);
	flat_chunk_release(&a->chunk);
	strbuf_release(&a->head);
	strbuf_release(&a->body);
	vec_release(&a->nodes);
	vec_release(&a->buffers);
	vec_release(&a->blocks[0]);
	vec_release(&a->blocks[1]);
}

int arrow_write_table(struct flat_table *f, struct output *output, struct error *e)
{
	struct arrow_file a = { .table = f, .output = output };
	int rc = init(&a, e);

	if (rc >= 0 && (rc = write_all(&a)) < 0)
		rc = error_set(e, rc, "table %s: %s", f->schema->name, error_code_text(rc));
	release(&a);
	return rc;
}

int arrow_write(struct trace *t, const struct export_options *options, const char *path,
		struct export_result *result, struct error *e)
{
	return flat_write_folder(t, options, path, ".arrow", arrow_write_table, result, e);
}
