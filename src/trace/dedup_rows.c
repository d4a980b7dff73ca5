/*
 * dedup_rows.c: drops rows that writers repeat in each segment.
 *
 * Of rows of a session that are equal in all columns, only the first is kept. A session with one
 * segment has no repeated rows.
 */
#include "trace/trace_state.h"

#include <errno.h>
#include <string.h>

/* Limit on equal hashes, which only a hostile recording exceeds; its rows are then all kept. */
#define TRIES_MAX 64

struct search {
	const struct row_column *columns;
	size_t count;
	/* hash -> row; rows whose hashes are equal use the following keys */
	struct map seen;
};

static bool is_missing(const struct row_column *c, uint64_t row)
{
	return c->valid && !c->valid[row];
}

static uint64_t value_at(const struct row_column *c, uint64_t row)
{
	uint64_t value = 0;

	if (!is_missing(c, row))
		memcpy(&value, c->values + row * c->width, c->width);
	return value;
}

static uint64_t hash_row(const struct search *s, uint64_t row)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < s->count; i++)
		hash = hash_u64(hash ^ value_at(&s->columns[i], row));
	return hash;
}

static bool equal_rows(const struct search *s, uint64_t a, uint64_t b)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct row_column *c = &s->columns[i];

		if (value_at(c, a) != value_at(c, b) || is_missing(c, a) != is_missing(c, b))
			return false;
	}
	return true;
}

/* Returns 1 for a new row, 0 for a repeated row, or -ENOMEM. */
static int add_row(struct search *s, uint64_t row)
{
	uint64_t hash = hash_row(s, row);

	for (unsigned i = 0; i < TRIES_MAX; i++) {
		uint64_t *known = map_at(&s->seen, hash + i, row);

		if (!known)
			return -ENOMEM;
		if (*known == row)
			return 1;
		if (equal_rows(s, row, *known))
			return 0;
	}
	return 1;
}

static void move_row(const struct row_column *columns, size_t count, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < count && from != to; i++) {
		const struct row_column *c = &columns[i];

		memcpy(c->values + to * c->width, c->values + from * c->width, c->width);
		if (c->valid)
			c->valid[to] = c->valid[from];
	}
}

int rows_drop(struct trace *t, struct table_data *table, const struct row_column *columns,
	      size_t count, const uint8_t *dropped, struct error *e)
{
	uint64_t kept = 0;

	for (size_t i = 0; i < table->items.count; i++) {
		struct block_item *item = &table->items.data[i];
		uint64_t first = kept;

		if (item->state == BLOCK_DAMAGED)
			continue;
		for (uint64_t row = item->row; row < item->row + item->rows; row++)
			if (!dropped[row])
				move_row(columns, count, row, kept++);
		item->rows = (uint32_t)(kept - first);
	}
	return rows_assign(t, table, e);
}

int dedup_rows(struct trace *t, struct table_data *table, const struct row_column *columns,
	       size_t count, struct error *e)
{
	struct search s = { .columns = columns, .count = count, .seen = MAP_INIT };
	const struct session *session = NULL;
	_cleanup_free_ uint8_t *dropped = calloc(table->rows + 1, 1);
	int is_new = dropped ? 0 : -ENOMEM;

	for (size_t i = 0; i < table->items.count && is_new >= 0; i++) {
		const struct block_item *item = &table->items.data[i];

		if (item->state == BLOCK_DAMAGED)
			continue;
		if (session != item_session(t, item))
			map_clear(&s.seen);
		session = item_session(t, item);
		for (uint64_t row = item->row; row < item->row + item->rows && is_new >= 0; row++) {
			is_new = session->segments > 1 ? add_row(&s, row) : 1;
			dropped[row] = is_new == 0;
		}
	}
	map_release(&s.seen);
	return is_new < 0 ? is_new : rows_drop(t, table, columns, count, dropped, e);
}
