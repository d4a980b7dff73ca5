/*
 * reuse.c: what was decoded before a recording grew is taken over rather than decoded again.
 *
 * When blocks are listed anew, a loaded table is put aside with its columns, in t->old. The next load
 * finds each of its blocks there by file and offset, and copies their rows to where they belong now;
 * only the other blocks are decoded. Then all goes on as if everything had been decoded, so that the
 * result is that of a fresh load.
 *
 * Texts have ids of the trace, which stay. REF values are rows of a table that may have got others
 * before them: refs.c says which row an earlier one is now. That holds between two listings, whose
 * number both tables carry. A column with references that led nowhere is decoded again, for they may
 * be explained by now; and so is table `loss`, because its block in the reserve changes.
 */
#include "trace/trace_data.h"

#include <errno.h>
#include <string.h>

/* No other block has it, but by rare chance: then the file and offset differ. */
static uint64_t place_key(const struct block_item *item)
{
	return hash_u64(item->offset) ^ item->file;
}

static bool is_whole(const struct table_data *table)
{
	for (size_t i = 0; i < table->items.count; i++)
		if (table->items.data[i].state == BLOCK_INCOMPLETE)
			return false;
	return true;
}

void reuse_put_aside(struct trace *t, enum table_id id)
{
	struct table_data *table = &t->tables[id], *old = &t->old[id];

	if (table->fixed && table->rows && id != TABLE_loss && is_whole(table)) {
		table_release(old);
		*old = *table;
		old->listing = t->listing;
		memset(table, 0, sizeof(*table));
		return;
	}
	if (table->fixed)
		table_release(old);
	table_release(table);
}

static bool is_referred_to(enum table_id id)
{
	for (uint32_t other = 1; other <= TABLE_MAX; other++)
		for (int c = 0; c < schema_table(other)->column_count; c++)
			if (schema_table(other)->columns[c].type == COLUMN_TYPE_REF &&
			    schema_table(other)->columns[c].ref == id)
				return true;
	return false;
}

static bool can_take(const struct trace *t, const struct table_data *old,
		     const struct column_schema *schema, const struct column_data *column)
{
	if (!column->loaded || !column->values || column->unresolved)
		return false;
	return schema->type != COLUMN_TYPE_REF || t->old[schema->ref].listing == old->listing;
}

const struct column_data *reuse_column(const struct trace *t, enum table_id id, int column)
{
	const struct table_data *old = &t->old[id];
	const struct table_schema *schema = schema_table(id);

	if (!t->tables[id].matched ||
	    !can_take(t, old, &schema->columns[column], &old->columns[column]))
		return NULL;
	return &old->columns[column];
}

/* Which row a decoded row became by sorting: the inverse of the permutation. */
static int invert(struct table_data *old)
{
	if (!old->permutation || old->inverse)
		return 0;
	old->inverse = array_new(old->rows, sizeof(*old->inverse));
	if (!old->inverse)
		return -ENOMEM;
	for (uint64_t row = 0; row < old->rows; row++)
		old->inverse[old->permutation[row]] = (uint32_t)row;
	return 0;
}

static int match_items(struct table_data *table, const struct table_data *old)
{
	struct map places = MAP_INIT;
	int result = 0;

	for (size_t i = 0; i < old->items.count && result == 0; i++)
		result = map_put(&places, place_key(&old->items.data[i]), i);
	for (size_t i = 0; i < table->items.count && result == 0; i++) {
		struct block_item *item = &table->items.data[i];
		const struct block_item *before;
		uint64_t index;

		if (!map_get(&places, place_key(item), &index))
			continue;
		before = &old->items.data[index];
		if (before->file != item->file || before->offset != item->offset)
			continue;
		item->old = (uint32_t)index + 1;
		item->rows = before->rows;
		item->state = before->state;
	}
	map_release(&places);
	return result;
}

int reuse_match(struct trace *t, enum table_id id)
{
	const struct table_schema *schema = schema_table(id);
	struct table_data *table = &t->tables[id], *old = &t->old[id];
	int result;

	if (!old->fixed)
		return 0;
	/* Of repeated rows it is all of their columns or none that decide which are there. */
	for (int c = 0; c < schema->column_count && schema->repeated; c++)
		if (!can_take(t, old, &schema->columns[c], &old->columns[c]))
			return 0;
	result = invert(old);
	if (result == 0)
		result = match_items(table, old);
	table->matched = result == 0;
	return result;
}

void reuse_taken(struct trace *t, enum table_id id, int column)
{
	struct column_data *data = &t->old[id].columns[column];

	if (is_referred_to(id))
		return;
	free(data->values);
	free(data->valid);
	*data = (struct column_data){ .values = NULL };
}

#define COPY(type, to, from, inverse, first, rows)                                                 \
	for (uint32_t i = 0; i < (rows); i++)                                                      \
	((type *)(to))[i] = ((const type *)(from))[(inverse)[(first) + i]]

void reuse_copy(const struct trace *t, enum table_id id, const struct block_item *item,
		const void *from, size_t width, void *to)
{
	const struct table_data *old = &t->old[id];
	uint64_t first = old->items.data[item->old - 1].row;

	if (!old->inverse)
		memcpy(to, (const uint8_t *)from + first * width, item->rows * width);
	else if (width == 1)
		COPY(uint8_t, to, from, old->inverse, first, item->rows);
	else if (width == 2)
		COPY(uint16_t, to, from, old->inverse, first, item->rows);
	else if (width == 4)
		COPY(uint32_t, to, from, old->inverse, first, item->rows);
	else
		COPY(uint64_t, to, from, old->inverse, first, item->rows);
}
