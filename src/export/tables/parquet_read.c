#include "export/tables/parquet_read.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "base/bytes.h"
#include "export/tables/flat_table.h"
#include "export/tables/parquet_encode.h"

#define MAGIC "PAR1"
#define TAIL 8u /* length of the footer, and MAGIC */
#define GROUPS_MAX 4096u
#define PAGE_BYTES_MAX ((size_t)64 << 20)
#define SKIP_DEPTH 8u

enum { PLAIN = 0, DELTA_BINARY_PACKED = 5, RLE_DICTIONARY = 8 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2 };
#define CODEC_ZSTD 6
#define BLOCK 128u
#define MINIBLOCKS 4u
#define MINIBLOCK (BLOCK / MINIBLOCKS)

/* --- Thrift --- */

struct field {
	int id;
	unsigned type;
};

/* Reads the head of the next field of a struct. False: it has ended, or is damaged. */
static bool next_field(struct cursor *c, struct field *f)
{
	uint8_t head = cursor_u8(c);

	f->type = head & 15u;
	if (!f->type)
		return false;
	f->id = head >> 4 ? f->id + (head >> 4) : (int)(int16_t)unzigzag(cursor_varint(c));
	return !c->failed;
}

static int64_t read_int(struct cursor *c, const struct field *f)
{
	c->failed |= f->type != THRIFT_I32 && f->type != THRIFT_I64;
	return unzigzag(cursor_varint(c));
}

/* Returns how many items a list has; all of them are of that type. */
static size_t read_list(struct cursor *c, const struct field *f, enum thrift_type type)
{
	uint8_t head = f->type == THRIFT_LIST ? cursor_u8(c) : 0;
	uint64_t count = head >> 4 == 15 ? cursor_varint(c) : head >> 4;

	/* An item has at least a byte. */
	c->failed |=
		f->type != THRIFT_LIST || (count && (head & 15) != type) || count > cursor_left(c);
	return c->failed ? 0 : (size_t)count;
}

static void skip(struct cursor *c, unsigned type, unsigned depth);

static void skip_struct(struct cursor *c, unsigned depth)
{
	struct field f = { .id = 0 };

	while (next_field(c, &f))
		skip(c, f.type, depth);
}

static void skip_list(struct cursor *c, unsigned depth)
{
	uint8_t head = cursor_u8(c);
	uint64_t count = head >> 4 == 15 ? cursor_varint(c) : head >> 4;

	for (uint64_t i = 0; i < count && !c->failed; i++) {
		if ((head & 15) == THRIFT_TRUE || (head & 15) == THRIFT_FALSE)
			(void)cursor_u8(c);
		else
			skip(c, head & 15, depth);
	}
}

static void skip(struct cursor *c, unsigned type, unsigned depth)
{
	if (depth >= SKIP_DEPTH)
		c->failed = true;
	if (c->failed)
		return;
	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		break;
	case THRIFT_BYTE:
		(void)cursor_u8(c);
		break;
	case THRIFT_I32:
	case THRIFT_I64:
		(void)cursor_varint(c);
		break;
	case THRIFT_BINARY:
		(void)cursor_bytes(c, cursor_varint(c));
		break;
	case THRIFT_LIST:
		skip_list(c, depth + 1);
		break;
	case THRIFT_STRUCT:
		skip_struct(c, depth + 1);
		break;
	default:
		c->failed = true;
	}
}

/* --- footer --- */

static void read_column(struct cursor *c, struct parquet_column *out, bool *is_root)
{
	struct field f = { .id = 0 };

	*out = (struct parquet_column){ .name = "" };
	*is_root = false;
	while (next_field(c, &f)) {
		if (f.id == 1) {
			out->type = (enum parquet_type)read_int(c, &f);
		} else if (f.id == 3) {
			int64_t repetition = read_int(c, &f);

			out->maybe = repetition == 1;
			c->failed |= repetition != 0 && repetition != 1;
		} else if (f.id == 4 && f.type == THRIFT_BINARY) {
			uint64_t length = cursor_varint(c);
			const uint8_t *text = cursor_bytes(c, length);

			c->failed |= length >= sizeof(out->name);
			if (!c->failed)
				memcpy(out->name, text, length);
		} else if (f.id == 5) {
			*is_root = read_int(c, &f) > 0;
		} else {
			skip(c, f.type, 0);
		}
	}
}

/* The first item is the root; the others are columns, since none of them has children. */
static void read_schema(struct cursor *c, const struct field *f, struct parquet_file *out)
{
	size_t count = read_list(c, f, THRIFT_STRUCT);

	c->failed |= count < 2 || count - 1 > PARQUET_COLUMNS_MAX || out->column_count;
	for (size_t i = 0; i < count && !c->failed; i++) {
		struct parquet_column column;
		bool is_root;

		read_column(c, &column, &is_root);
		c->failed |= is_root != (i == 0);
		if (i && !c->failed)
			out->columns[out->column_count++] = column;
	}
}

static void read_chunk_meta(struct cursor *c, struct parquet_chunk *out)
{
	int64_t data = -1, dictionary = -1, codec = -1, bytes = -1;
	struct field f = { .id = 0 };

	while (next_field(c, &f)) {
		int64_t *to = f.id == 4    ? &codec
			      : f.id == 7  ? &bytes
			      : f.id == 9  ? &data
			      : f.id == 11 ? &dictionary
					   : NULL;

		if (to)
			*to = read_int(c, &f);
		else
			skip(c, f.type, 0);
	}
	c->failed |= codec != CODEC_ZSTD || data < 0 || bytes < 0;
	*out = (struct parquet_chunk){ (uint64_t)(dictionary > 0 ? dictionary : data),
				       (uint64_t)bytes };
}

static void read_chunks(struct cursor *c, const struct field *f, const struct parquet_file *file,
			struct parquet_group *out)
{
	size_t count = read_list(c, f, THRIFT_STRUCT);

	c->failed |= !file->column_count || count != file->column_count;
	for (size_t i = 0; i < count && !c->failed; i++) {
		struct parquet_chunk *chunk = &out->chunks[i];
		struct field part = { .id = 0 };

		while (next_field(c, &part)) {
			if (part.id == 3 && part.type == THRIFT_STRUCT)
				read_chunk_meta(c, chunk);
			else
				skip(c, part.type, 0);
		}
		c->failed |= !chunk->bytes || chunk->offset > file->size ||
			     chunk->bytes > file->size - chunk->offset;
	}
}

static int read_groups(struct cursor *c, const struct field *f, struct parquet_file *out)
{
	size_t count = read_list(c, f, THRIFT_STRUCT);

	c->failed |= count > GROUPS_MAX || out->groups.count;
	for (size_t i = 0; i < count && !c->failed; i++) {
		struct parquet_group group = { .rows = 0 };
		struct field part = { .id = 0 };
		bool has_chunks = false;

		while (next_field(c, &part)) {
			if (part.id == 1) {
				read_chunks(c, &part, out, &group);
				has_chunks = true;
			} else if (part.id == 3) {
				group.rows = (uint64_t)read_int(c, &part);
			} else {
				skip(c, part.type, 0);
			}
		}
		c->failed |= !has_chunks || group.rows > FLAT_ROWS;
		if (!c->failed && vec_push(&out->groups, group) < 0)
			return -ENOMEM;
	}
	return 0;
}

int parquet_file_open(struct parquet_file *f, const void *bytes, size_t size, struct error *e)
{
	const uint8_t *file = bytes;
	struct field part = { .id = 0 };
	struct cursor c = { .failed = true };
	int rc = 0;

	*f = (struct parquet_file){ .bytes = bytes, .size = size };
	if (size >= TAIL + strlen(MAGIC) && !memcmp(file, MAGIC, strlen(MAGIC)) &&
	    !memcmp(file + size - strlen(MAGIC), MAGIC, strlen(MAGIC)) &&
	    load_u32(file + size - TAIL) <= size - TAIL)
		c = cursor_of(file + size - TAIL - load_u32(file + size - TAIL),
			      load_u32(file + size - TAIL));
	while (rc == 0 && next_field(&c, &part)) {
		if (part.id == 2)
			read_schema(&c, &part, f);
		else if (part.id == 4)
			rc = read_groups(&c, &part, f);
		else
			skip(&c, part.type, 0);
	}
	if (rc < 0)
		return error_set(e, rc, "out of memory");
	return c.failed || !f->column_count
		       ? error_set(e, E_FORMAT, "it is no Parquet file of Pitot")
		       : 0;
}

void parquet_file_release(struct parquet_file *f)
{
	vec_release(&f->groups);
}

/* --- encodings --- */

/* Reads one value of `width` bits (at most 64) at a bit. */
static uint64_t unpack(const uint8_t *bytes, size_t bit, unsigned width)
{
	unsigned __int128 bits = 0;

	bytes += bit / 8;
	for (unsigned i = 0; i < (bit % 8 + width + 7) / 8; i++)
		bits |= (unsigned __int128)bytes[i] << 8 * i;
	bits >>= bit % 8;
	return width == 64 ? (uint64_t)bits : (uint64_t)bits & ((UINT64_C(1) << width) - 1);
}

static bool read_hybrid(struct cursor *c, unsigned width, size_t count, uint64_t *values)
{
	for (size_t at = 0; at < count;) {
		uint64_t head = cursor_varint(c), length = head >> 1;
		size_t run = (size_t)MIN(length, (count - at + 7) / 8);
		const uint8_t *bytes = cursor_bytes(c, head & 1 ? run * width : (width + 7) / 8);
		uint64_t value = 0;

		if (!length || !bytes)
			return false;
		if (head & 1) {
			for (size_t i = 0; i < run * 8 && at < count; i++)
				values[at++] = unpack(bytes, i * width, width);
			continue;
		}
		memcpy(&value, bytes, (width + 7) / 8);
		for (uint64_t i = 0; i < length && at < count; i++)
			values[at++] = value;
	}
	return true;
}

static bool read_delta(struct cursor *c, size_t count, uint64_t *values)
{
	uint64_t value;

	if (cursor_varint(c) != BLOCK || cursor_varint(c) != MINIBLOCKS ||
	    cursor_varint(c) != count || !count)
		return false;
	value = (uint64_t)unzigzag(cursor_varint(c));
	values[0] = value;
	for (size_t at = 1; at < count;) {
		uint64_t least = (uint64_t)unzigzag(cursor_varint(c));
		const uint8_t *widths = cursor_bytes(c, MINIBLOCKS);

		for (size_t m = 0; m < MINIBLOCKS && at < count; m++) {
			unsigned width = widths ? widths[m] : 65;
			const uint8_t *bytes =
				width > 64 ? NULL : cursor_bytes(c, MINIBLOCK / 8 * width);

			if (!bytes)
				return false;
			for (size_t i = 0; i < MINIBLOCK && at < count; i++)
				values[at++] = value += least + unpack(bytes, i * width, width);
		}
	}
	return !c->failed;
}

/* --- pages --- */

struct page {
	int64_t type, encoding, values;
	int64_t raw_bytes, bytes;
	uint8_t *raw; /* decompressed */
};

static void read_page_head(struct cursor *c, struct page *p)
{
	struct field f = { .id = 0 }, part = { .id = 0 };

	*p = (struct page){ -1, -1, -1, -1, -1, NULL };
	while (next_field(c, &f)) {
		if (f.id >= 1 && f.id <= 3) {
			*(f.id == 1   ? &p->type
			  : f.id == 2 ? &p->raw_bytes
				      : &p->bytes) = read_int(c, &f);
		} else if ((f.id == 5 || f.id == 7) && f.type == THRIFT_STRUCT) {
			for (part.id = 0; next_field(c, &part);)
				if (part.id == 1 || part.id == 2)
					*(part.id == 1 ? &p->values : &p->encoding) =
						read_int(c, &part);
				else
					skip(c, part.type, 0);
		} else {
			skip(c, f.type, 0);
		}
	}
}

/* Reads a page of that type. Returns 0, E_FORMAT or -ENOMEM; the caller frees p->raw. */
static int read_page(struct cursor *c, int type, struct page *p)
{
	const uint8_t *bytes;

	read_page_head(c, p);
	if (c->failed || p->type != type || p->raw_bytes < 0 || p->values < 0 || p->bytes < 0 ||
	    (uint64_t)p->raw_bytes > PAGE_BYTES_MAX)
		return E_FORMAT;
	bytes = cursor_bytes(c, (size_t)p->bytes);
	if (!bytes)
		return E_FORMAT;
	p->raw = malloc((size_t)p->raw_bytes + 8); /* also of nothing */
	if (!p->raw)
		return -ENOMEM;
	return ZSTD_decompress(p->raw, (size_t)p->raw_bytes, bytes, (size_t)p->bytes) ==
			       (size_t)p->raw_bytes
		       ? 0
		       : E_FORMAT;
}

static struct cursor cursor_of_page(const struct page *p, int rc)
{
	return rc == 0 ? cursor_of(p->raw, (size_t)p->raw_bytes)
		       : (struct cursor){ .failed = true };
}

/* The ids of the texts of a dictionary. */
struct dictionary {
	VEC(uint64_t) ids;
};

static int read_dictionary(struct cursor *c, struct interner *texts, struct dictionary *out)
{
	struct page p;
	int rc = read_page(c, DICTIONARY_PAGE, &p);
	struct cursor raw = cursor_of_page(&p, rc);

	while (rc == 0 && cursor_left(&raw)) {
		uint32_t length = cursor_u32(&raw);
		const uint8_t *text = cursor_bytes(&raw, length);
		int64_t id = text ? interner_add(texts, text, length, NULL) : E_FORMAT;

		if (id < 0)
			rc = (int)id;
		else
			rc = vec_push(&out->ids, (uint64_t)id);
	}
	free(p.raw);
	return rc;
}

/* Reads `count` values, which are all there are. */
static int read_values(struct cursor *c, const struct parquet_column *column, const struct page *p,
		       const struct dictionary *d, size_t count, uint64_t *values)
{
	bool is_text = column->type == PARQUET_TEXT;

	if (!count)
		return 0;
	if (p->encoding == RLE_DICTIONARY && is_text) {
		uint8_t width = cursor_u8(c);

		if (width > 32 || !read_hybrid(c, width, count, values))
			return E_FORMAT;
		for (size_t i = 0; i < count; i++) {
			if (values[i] >= d->ids.count)
				return E_FORMAT;
			values[i] = d->ids.data[values[i]];
		}
		return 0;
	}
	if (p->encoding == PLAIN && column->type == PARQUET_DOUBLE) {
		const uint8_t *bytes = cursor_bytes(c, count * sizeof(*values));

		if (bytes)
			memcpy(values, bytes, count * sizeof(*values));
		return bytes ? 0 : E_FORMAT;
	}
	if (p->encoding != DELTA_BINARY_PACKED || is_text || !read_delta(c, count, values))
		return E_FORMAT;
	for (size_t i = 0; i < count && column->type == PARQUET_I32; i++)
		values[i] = (uint32_t)values[i];
	return 0;
}

/* Moves the values to their rows. */
static void spread(size_t rows, size_t count, uint64_t *values, const uint8_t *valid)
{
	for (size_t i = rows; i-- > 0;)
		values[i] = valid[i] ? values[--count] : 0;
}

static int read_data(struct cursor *c, const struct parquet_column *column,
		     const struct dictionary *d, size_t rows, uint64_t *values, uint8_t *valid)
{
	struct page p;
	int rc = read_page(c, DATA_PAGE, &p);
	struct cursor raw = cursor_of_page(&p, rc);
	size_t count = rows;

	if (rc == 0 && (uint64_t)p.values != rows)
		rc = E_FORMAT;
	memset(valid, 1, rows);
	if (rc == 0 && column->maybe) {
		uint32_t length = cursor_u32(&raw);
		const uint8_t *bytes = cursor_bytes(&raw, length);
		struct cursor levels = { .failed = true };

		if (bytes)
			levels = cursor_of(bytes, length);
		if (!read_hybrid(&levels, 1, rows, values))
			rc = E_FORMAT;
		for (size_t i = 0; i < rows && rc == 0; i++) {
			valid[i] = (uint8_t)values[i];
			count -= !valid[i];
		}
	}
	if (rc == 0)
		rc = read_values(&raw, column, &p, d, count, values);
	if (rc == 0)
		spread(rows, count, values, valid);
	free(p.raw);
	return rc;
}

int parquet_file_read(const struct parquet_file *f, size_t group, size_t column,
		      struct interner *texts, uint64_t *values, uint8_t *valid, struct error *e)
{
	const struct parquet_chunk *chunk = &f->groups.data[group].chunks[column];
	const struct parquet_column *info = &f->columns[column];
	struct cursor c = cursor_of(f->bytes + chunk->offset, (size_t)chunk->bytes), copy = c;
	struct dictionary d = { .ids = VEC_INIT };
	struct page head;
	int rc = 0;

	read_page_head(&copy, &head);
	if (info->type == PARQUET_TEXT && head.type == DICTIONARY_PAGE)
		rc = read_dictionary(&c, texts, &d);
	if (rc == 0)
		rc = read_data(&c, info, &d, (size_t)f->groups.data[group].rows, values, valid);
	vec_release(&d.ids);
	if (rc == E_FORMAT)
		return error_set(e, rc, "its column '%s' is damaged", info->name);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}
