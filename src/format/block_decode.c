#include <errno.h>

#include "base/bytes.h"
#include "format/column_decode.h"
#include "format/reader.h"

#define COLUMNS_MAX 64
#define VERIFY_BYTES ((size_t)16 << 10) /* on the stack */

struct decoder {
	struct column_decoder columns;
	uint8_t *payload; /* of the block, unless the segment is in memory */
	size_t payload_room;
	uint64_t *values, *base; /* one per row */
	uint8_t *valid, *base_valid;
	size_t rows_max; /* capacity of these */
};

/* State of decoding one block. */
struct decoding {
	struct decoder *d;
	const struct table_schema *table;
	size_t rows;
	struct chunk values[COLUMNS_MAX],
		validity[COLUMNS_MAX]; /* by column; data is NULL without a chunk */
	int base; /* column decoded into d->base, or -1 */
};

struct decoder *decoder_new(void)
{
	return calloc(1, sizeof(struct decoder));
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	column_decoder_release(&d->columns);
	free(d->payload);
	free(d->values);
	free(d->base);
	free(d->valid);
	free(d->base_valid);
	free(d);
}

static int reserve_rows(struct decoder *d, size_t rows)
{
	if (rows <= d->rows_max)
		return 0;
	free(d->values);
	free(d->base);
	free(d->valid);
	free(d->base_valid);
	d->values = malloc(rows * sizeof(*d->values));
	d->base = malloc(rows * sizeof(*d->base));
	d->valid = malloc(rows);
	d->base_valid = malloc(rows);
	d->rows_max = d->values && d->base && d->valid && d->base_valid ? rows : 0;
	return d->rows_max ? 0 : -ENOMEM;
}

bool block_verify(const struct segment *s, const struct block_ref *b)
{
	uint64_t offset = b->offset + sizeof(b->header);
	uint32_t left = b->header.payload_bytes, crc = 0;
	uint8_t piece[VERIFY_BYTES];

	while (left) {
		uint32_t length = MIN(left, (uint32_t)sizeof(piece));

		if (!segment_read(s, offset, piece, length))
			return false;
		crc = crc32c(crc, piece, length);
		offset += length;
		left -= length;
	}
	return crc == b->header.payload_crc;
}

/*
 * Reads and verifies the payload, each time: the file may have changed since its last column was
 * decoded.
 */
static int read_payload(struct decoder *d, const struct segment *s, const struct block_ref *b,
			struct cursor *out)
{
	uint64_t offset = b->offset + sizeof(b->header);
	size_t size = b->header.payload_bytes;

	if (s->bytes && (offset > s->size || size > s->size - offset))
		return E_FORMAT;
	if (!s->bytes && size > d->payload_room) {
		free(d->payload);
		d->payload = malloc(size);
		d->payload_room = d->payload ? size : 0;
		if (!d->payload)
			return -ENOMEM;
	}
	if (!s->bytes && !segment_read(s, offset, d->payload, size))
		return E_FORMAT;
	*out = cursor_of(s->bytes ? s->bytes + offset : d->payload, size);
	return crc32c(0, out->p, size) == b->header.payload_crc ? 0 : E_FORMAT;
}

static int parse_chunks(struct decoding *g, struct cursor *payload, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct chunk chunk, *slot;

		if (chunk_next(payload, g->rows, &chunk) < 0)
			return E_FORMAT;
		if (chunk.column >= g->table->column_count)
			continue;
		slot = chunk.flags & CHUNK_VALIDITY ? &g->validity[chunk.column]
						    : &g->values[chunk.column];
		if (slot->data || (chunk.flags & CHUNK_VALIDITY && g->values[chunk.column].data))
			return E_FORMAT;
		*slot = chunk;
	}
	return cursor_left(payload) ? E_FORMAT : 0;
}

/* Fills valid, one byte per row. *present is the number of rows with a value. */
static int decode_validity(struct decoding *g, int column, uint8_t *valid, size_t *present)
{
	const struct chunk *chunk = &g->validity[column];
	uint64_t *bits = g->d->values;
	size_t count = 0;
	int rc;

	if (!chunk->data || !g->values[column].data) {
		memset(valid, g->values[column].data != NULL, g->rows);
		*present = g->values[column].data ? g->rows : 0;
		return 0;
	}
	if (chunk->flags & CHUNK_BASE)
		return E_FORMAT;
	rc = column_decode(&g->d->columns, chunk, g->rows, false, bits);
	for (size_t i = 0; i < g->rows && rc == 0; i++) {
		if (bits[i] > 1)
			return E_FORMAT;
		valid[i] = (uint8_t)bits[i];
		count += valid[i];
	}
	*present = count;
	return rc;
}

/* Spreads `present` values over the rows with a value; the others become 0. */
static void spread(const uint8_t *valid, size_t rows, size_t present, uint64_t *values)
{
	if (present == rows)
		return;
	for (size_t i = rows; i-- > 0;)
		values[i] = valid[i] ? values[--present] : 0;
}

/* Decodes a column without a base, one value per row, 0 where it is missing. */
static int decode_plain(struct decoding *g, int column, uint8_t *valid, uint64_t *values,
			size_t *present)
{
	const struct chunk *chunk = &g->values[column];
	int rc = decode_validity(g, column, valid, present);

	if (rc == 0 && *present)
		rc = column_decode(&g->d->columns, chunk, *present,
				   column_is_signed(&g->table->columns[column]), values);
	if (rc == 0)
		spread(valid, g->rows, *present, values);
	return rc;
}

static int decode_base(struct decoding *g, int base)
{
	size_t present;

	if (base < 0 || g->values[base].flags & CHUNK_BASE)
		return E_FORMAT;
	if (g->base == base)
		return 0;
	g->base = base;
	return decode_plain(g, base, g->d->base_valid, g->d->base, &present);
}

/*
 * Decodes into d->values, one value per row, and d->valid. `base` has the values of the base, or is
 * NULL.
 */
static int decode_values(struct decoding *g, int column, const uint64_t *base, size_t *present)
{
	uint64_t *values = g->d->values;
	int rc;

	if (g->values[column].flags & CHUNK_BASE && !base) {
		base = g->d->base;
		rc = decode_base(g, g->table->columns[column].base);
		if (rc < 0) {
			g->base = -1;
			return rc;
		}
	}
	rc = decode_plain(g, column, g->d->valid, values, present);
	if (rc < 0 || !(g->values[column].flags & CHUNK_BASE))
		return rc;
	if (*present == g->rows) {
		for (size_t i = 0; i < g->rows; i++)
			values[i] += base[i];
	} else {
		for (size_t i = 0; i < g->rows; i++)
			values[i] += g->d->valid[i] ? base[i] : 0;
	}
	return 0;
}

/* Writes the values with the column's width. Returns E_FORMAT when one does not fit. */
static int narrow(const struct column_schema *column, const uint64_t *from, size_t rows, void *to)
{
	uint8_t *u8 = to;
	uint16_t *u16 = to;
	uint32_t *u32 = to;
	uint64_t over = 0;

	switch (column->width) {
	case 1:
		for (size_t i = 0; i < rows; i++) {
			u8[i] = (uint8_t)from[i];
			over |= from[i] >> 8;
		}
		break;
	case 2:
		for (size_t i = 0; i < rows; i++) {
			u16[i] = (uint16_t)from[i];
			over |= from[i] >> 16;
		}
		break;
	case 4:
		for (size_t i = 0; i < rows; i++) {
			uint64_t v = from[i] + (column_is_signed(column) ? UINT64_C(1) << 31 : 0);

			u32[i] = (uint32_t)from[i];
			over |= v >> 32;
		}
		break;
	default:
		memcpy(to, from, rows * sizeof(*from));
	}
	return over ? E_FORMAT : 0;
}

/*
 * Sums the lengths into offsets[0 .. rows]. Returns E_FORMAT unless the data have exactly the total
 * length.
 */
static int decode_offsets(struct cursor *data, const uint8_t *valid, size_t rows, uint32_t *offsets)
{
	uint64_t total = 0;

	for (size_t i = 0; i < rows; i++) {
		uint64_t length = valid[i] ? cursor_varint(data) : 0;

		offsets[i] = (uint32_t)total;
		if (length > BLOCK_BYTES_MAX)
			return E_FORMAT;
		total += length;
		if (total > BLOCK_BYTES_MAX)
			return E_FORMAT;
	}
	offsets[rows] = (uint32_t)total;
	return data->failed || cursor_left(data) != total ? E_FORMAT : 0;
}

static int decode_bytes(struct decoding *g, int column, struct bytes_column *out, size_t *present)
{
	const struct chunk *chunk = &g->values[column];
	struct cursor data = cursor_of("", 0);
	int rc = decode_validity(g, column, g->d->valid, present);

	if (rc == 0 && chunk->data)
		rc = (chunk->flags & ~CHUNK_ZSTD) == ENCODING_BYTES
			     ? chunk_data(&g->d->columns, chunk, &data)
			     : E_FORMAT;
	if (rc < 0)
		return rc;
	out->offsets = malloc((g->rows + 1) * sizeof(*out->offsets));
	out->data = malloc(cursor_left(&data) + 1);
	if (!out->offsets || !out->data)
		rc = -ENOMEM;
	else
		rc = decode_offsets(&data, g->d->valid, g->rows, out->offsets);
	if (rc < 0) {
		free(out->offsets);
		free(out->data);
		*out = (struct bytes_column){ NULL, NULL };
		return rc;
	}
	memcpy(out->data, data.p, cursor_left(&data));
	return 0;
}

static bool are_zero(const uint64_t *values, size_t rows)
{
	size_t i = 0;

	while (i < rows && values[i] == 0)
		i++;
	return i == rows;
}

static int decode_target(struct decoding *g, struct column_target *t)
{
	const struct column_schema *column = &g->table->columns[t->column];
	size_t present = 0;
	int rc;

	t->all_zero = false;
	if (column->type == COLUMN_TYPE_BYTES) {
		rc = decode_bytes(g, t->column, t->values, &present);
	} else {
		rc = decode_values(g, t->column, t->base, &present);
		t->all_zero = rc == 0 && (!present || are_zero(g->d->values, g->rows));
		if (rc == 0 && (!t->all_zero || !t->zeroed))
			rc = narrow(column, g->d->values, g->rows, t->values);
	}
	t->has_missing = present < g->rows;
	t->all_missing = present == 0;
	if (rc == 0 && t->valid)
		memcpy(t->valid, g->d->valid, g->rows);
	return rc;
}

static void drop_bytes(const struct table_schema *table, struct column_target *targets,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bytes_column *bytes = targets[i].values;

		if (table->columns[targets[i].column].type != COLUMN_TYPE_BYTES)
			continue;
		free(bytes->offsets);
		free(bytes->data);
		*bytes = (struct bytes_column){ NULL, NULL };
	}
}

int block_decode(struct decoder *d, const struct segment *s, const struct block_ref *b,
		 struct column_target *targets, size_t target_count)
{
	struct decoding g = {
		.d = d, .table = schema_table(b->header.table), .rows = b->header.rows, .base = -1
	};
	struct cursor payload;
	size_t done = 0;
	int rc;

	if (!g.table)
		return E_UNSUPPORTED;
	rc = read_payload(d, s, b, &payload);
	if (rc == 0)
		rc = reserve_rows(d, MAX(g.rows, 1));
	if (rc == 0)
		rc = parse_chunks(&g, &payload, b->header.columns);
	while (rc == 0 && done < target_count) {
		rc = decode_target(&g, &targets[done]);
		done += rc == 0;
	}
	if (rc < 0)
		drop_bytes(g.table, targets, done);
	return rc;
}
