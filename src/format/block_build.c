#include "format/block_build.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/search.h"

int block_builder_init(struct block_builder *b, size_t rows_max, int level)
{
	*b = (struct block_builder){ .rows_max = rows_max };
	b->values = malloc(rows_max * sizeof(*b->values));
	b->order = malloc(rows_max * sizeof(*b->order));
	b->aside = malloc(rows_max * sizeof(*b->aside));
	if (!b->values || !b->order || !b->aside ||
	    column_encoder_init(&b->encoder, rows_max, level) < 0) {
		block_builder_release(b);
		return -ENOMEM;
	}
	return 0;
}

void block_builder_release(struct block_builder *b)
{
	column_encoder_release(&b->encoder);
	free(b->values);
	free(b->order);
	free(b->aside);
	*b = (struct block_builder){ 0 };
}

void block_header_seal(struct block_header *header, const void *payload)
{
	header->payload_crc = crc32c(0, payload, header->payload_bytes);
	header->header_crc = 0;
	header->header_crc = crc32c(0, header, sizeof(*header));
}

static const uint8_t *row_at(const struct block_rows *in, size_t i)
{
	return (const uint8_t *)in->rows + i * in->table->row_size;
}

static uint64_t row_missing(const uint8_t *row)
{
	return load_u64(row);
}

static bool is_missing(uint64_t set, int column)
{
	return set >> column & 1;
}

/*
 * The sort is stable. Rows arrive nearly sorted: mostly in order with some late by a few rows,
 * which insertion sort handles; and, gathered by several threads, in sorted runs, which are merged.
 * A run's neighbours mostly lie in one of its gaps, so that merging moves few rows.
 */
#define LATE_MAX 32 /* rows that a row may be late for insertion sort */
#define RUNS_MAX 40 /* that wait to be merged, each more than twice as long as the next */
#define ROW_BYTES_MAX 256

#define CHECK_SIZE(name, id, doc) _Static_assert(sizeof(struct row_##name) <= ROW_BYTES_MAX, #name);
SCHEMA_TABLES(CHECK_SIZE)

struct build {
	struct block_builder *b;
	const struct block_rows *in;
	uint64_t any_missing; /* columns missing in some row */
	uint64_t all_missing; /* columns missing in all rows */
	unsigned chunks;
};

/*
 * Finds what is missing, and fills b->values with the rows' times, 0 for none, and b->order with
 * the rows, those without a time first. Returns true if the rows are in order already.
 */
static bool start_order(struct build *g)
{
	const struct block_rows *in = g->in;
	int column = in->table->time_column;
	size_t offset = column < 0 ? 0 : in->table->columns[column].row_offset, none = 0, some;
	uint64_t last = 0, any = 0, all = UINT64_MAX;
	bool sorted = true;

	for (size_t i = 0; i < in->count; i++) {
		const uint8_t *row = row_at(in, i);
		uint64_t missing = row_missing(row);
		bool has_none = column < 0 || is_missing(missing, column);
		uint64_t time = has_none ? 0 : load_u64(row + offset);

		any |= missing;
		all &= missing;
		sorted &= last <= time && (!has_none || none == i);
		none += has_none;
		g->b->values[i] = last = time;
	}
	g->any_missing = any;
	g->all_missing = all;
	if (sorted)
		return true;
	some = none;
	none = 0;
	for (size_t i = 0; i < in->count; i++)
		g->b->order[is_missing(row_missing(row_at(in, i)), column) ? none++ : some++] =
			(uint32_t)i;
	return false;
}

/* Sorts from `from` to the first row that is later than LATE_MAX. Returns the index of that row. */
static size_t sort_run(const uint64_t *keys, uint32_t *order, size_t from, size_t count)
{
	size_t i = from + 1;

	for (; i < count; i++) {
		uint32_t row = order[i];
		size_t k = i;

		if (keys[order[i - 1]] <= keys[row])
			continue;
		if (i - from > LATE_MAX && keys[order[i - 1 - LATE_MAX]] > keys[row])
			break;
		for (; k > from && keys[order[k - 1]] > keys[row]; k--)
			order[k] = order[k - 1];
		order[k] = row;
	}
	return i;
}

/* Returns the first index in [from, to) of a row later than `key`. */
static size_t find_later(const uint64_t *keys, const uint32_t *order, size_t from, size_t to,
			 uint64_t key)
{
	return from + sorted_prefix(to - from, i, keys[order[from + i]] <= key);
}

/* Merges the runs [a, m) and [m, z). */
static void merge(struct block_builder *b, size_t a, size_t m, size_t z)
{
	const uint64_t *keys = b->values;
	uint32_t *order = b->order;
	size_t to = find_later(keys, order, a, m, keys[order[m]]), left = 0, count = m - to;

	memcpy(b->aside, order + to, count * sizeof(*order));
	while (left < count)
		order[to++] = m < z && keys[order[m]] < keys[b->aside[left]] ? order[m++]
									     : b->aside[left++];
}

static void sort_order(struct block_builder *b, size_t count)
{
	size_t starts[RUNS_MAX], runs = 0;

	for (size_t end = 0; end < count;) {
		starts[runs++] = end;
		end = sort_run(b->values, b->order, end, count);
		for (; runs > 1 && (end == count || starts[runs - 1] - starts[runs - 2] <=
							    2 * (end - starts[runs - 1]));
		     runs--)
			merge(b, starts[runs - 2], starts[runs - 1], end);
	}
}

/*
 * Moves row order[i] to index i, for all i, along each cycle with one row aside. Changes `order`.
 */
static void move_rows(const struct block_rows *in, uint32_t *order)
{
	size_t size = in->table->row_size;
	uint8_t *rows = in->rows, aside[ROW_BYTES_MAX];

	for (size_t i = 0; i < in->count; i++) {
		size_t to = i, from;

		if (order[i] == i)
			continue;
		memcpy(aside, rows + i * size, size);
		for (; (from = order[to]) != i; to = from) {
			memcpy(rows + to * size, rows + from * size, size);
			order[to] = (uint32_t)to;
		}
		memcpy(rows + to * size, aside, size);
		order[to] = (uint32_t)to;
	}
}

ALWAYS_INLINE uint64_t load_value(const uint8_t *p, unsigned width, bool is_signed)
{
	switch (width) {
	case 1:
		return *p;
	case 2:
		return load_u16(p);
	case 4:
		return is_signed ? (uint64_t)(int64_t)(int32_t)load_u32(p) : load_u32(p);
	default:
		return load_u64(p);
	}
}

/* Gathers the present values of a column. Width and sign are constants at each inlined call. */
ALWAYS_INLINE size_t gather_width(const struct build *g, int column, unsigned width, bool has_sign,
				  uint64_t *values)
{
	size_t offset = g->in->table->columns[column].row_offset, stride = g->in->table->row_size,
	       count = 0;
	const uint8_t *row = g->in->rows;

	if (is_missing(g->any_missing, column)) {
		for (size_t i = 0; i < g->in->count; i++, row += stride) {
			values[count] = load_value(row + offset, width, has_sign);
			count += !is_missing(row_missing(row), column);
		}
		return count;
	}
	for (; count < g->in->count; count++, row += stride)
		values[count] = load_value(row + offset, width, has_sign);
	return count;
}

static size_t gather(const struct build *g, int column, uint64_t *values)
{
	const struct column_schema *schema = &g->in->table->columns[column];

	switch (schema->width) {
	case 1:
		return gather_width(g, column, 1, false, values);
	case 2:
		return gather_width(g, column, 2, false, values);
	case 4:
		return column_is_signed(schema) ? gather_width(g, column, 4, true, values)
						: gather_width(g, column, 4, false, values);
	default:
		return gather_width(g, column, 8, false, values);
	}
}

/* Like gather(), minus the row's value of the base column. Both columns are times. */
static size_t gather_differences(const struct build *g, int column, uint64_t *values)
{
	const struct column_schema *schema = &g->in->table->columns[column];
	size_t offset = schema->row_offset, base = g->in->table->columns[schema->base].row_offset;
	size_t stride = g->in->table->row_size, count = 0;
	const uint8_t *row = g->in->rows;

	for (size_t i = 0; i < g->in->count; i++, row += stride) {
		uint64_t missing = row_missing(row);

		values[count] = load_u64(row + offset) -
				(is_missing(missing, schema->base) ? 0 : load_u64(row + base));
		count += !is_missing(missing, column);
	}
	return count;
}

static int put_validity(struct build *g, int column, struct strbuf *out)
{
	uint64_t *values = g->b->values;
	struct column_input input = { .values = values,
				      .count = g->in->count,
				      .column = (unsigned)column,
				      .flags = CHUNK_VALIDITY };

	for (size_t i = 0; i < g->in->count; i++)
		values[i] = !is_missing(row_missing(row_at(g->in, i)), column);
	g->chunks++;
	return column_encode(&g->b->encoder, &input, out);
}

static int put_bytes(struct build *g, int column, struct strbuf *out)
{
	size_t offset = g->in->table->columns[column].row_offset, count = 0;
	uint64_t *spans = g->b->values;

	for (size_t i = 0; i < g->in->count; i++) {
		const uint8_t *row = row_at(g->in, i);
		struct bytes_value value;

		if (is_missing(row_missing(row), column))
			continue;
		memcpy(&value, row + offset, sizeof(value));
		spans[count++] = (uint64_t)(uintptr_t)value.data << 32 | value.length;
	}
	return column_encode_bytes(&g->b->encoder, (unsigned)column, spans, count, g->in->bytes,
				   out);
}

static int put_column(struct build *g, int column, struct strbuf *out)
{
	const struct column_schema *schema = &g->in->table->columns[column];
	struct column_input input = { .values = g->b->values, .column = (unsigned)column };
	int rc = 0;

	if (is_missing(g->all_missing, column))
		return 0;
	if (is_missing(g->any_missing, column))
		rc = put_validity(g, column, out);
	if (rc < 0)
		return rc;
	g->chunks++;
	if (schema->type == COLUMN_TYPE_BYTES)
		return put_bytes(g, column, out);
	input.is_signed = column_is_signed(schema);
	if (schema->base >= 0) {
		input.flags = CHUNK_BASE;
		input.count = gather_differences(g, column, g->b->values);
	} else {
		input.count = gather(g, column, g->b->values);
	}
	return column_encode(&g->b->encoder, &input, out);
}

/* Sets the time span: the time of the first row that has one, and of the last row. */
static void set_span(const struct build *g, struct block_header *header)
{
	int column = g->in->table->time_column;
	size_t offset, first = 0;

	header->start_ns = header->end_ns = 0;
	if (column < 0 || is_missing(g->all_missing, column))
		return;
	offset = g->in->table->columns[column].row_offset;
	while (is_missing(row_missing(row_at(g->in, first)), column))
		first++;
	header->start_ns = load_u64(row_at(g->in, first) + offset);
	header->end_ns = load_u64(row_at(g->in, g->in->count - 1) + offset);
}

int block_build(struct block_builder *b, const struct block_rows *in, uint64_t number,
		struct strbuf *out, struct block_header *header)
{
	struct build g = { .b = b, .in = in };
	size_t start = out->length;
	int rc = 0;

	if (!strbuf_reserve(out, sizeof(*header))) {
		out->failed = false;
		return -ENOMEM;
	}
	out->length += sizeof(*header);
	if (!start_order(&g)) {
		sort_order(b, in->count);
		move_rows(in, b->order);
	}
	for (int c = 0; c < in->table->column_count && rc >= 0; c++)
		rc = put_column(&g, c, out);
	if (rc < 0) {
		out->length = start;
		return rc;
	}
	*header = (struct block_header){ .magic = BLOCK_MAGIC,
					 .table = (uint16_t)in->table->id,
					 .columns = (uint16_t)g.chunks,
					 .rows = (uint32_t)in->count,
					 .number = number };
	header->payload_bytes = (uint32_t)(out->length - start - sizeof(*header));
	set_span(&g, header);
	block_header_seal(header, out->data + start + sizeof(*header));
	memcpy(out->data + start, header, sizeof(*header));
	return 0;
}
