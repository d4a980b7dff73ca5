#include "format/definitions.h"

#include <string.h>

/* Returns memory for a key's row, that of the previous row if there was one, or NULL. */
static void *row_memory(struct definitions *d, enum table_id table, uint32_t key, size_t size)
{
	uint64_t known;
	void *copy;

	if (table != TABLE_string && map_get(&d->rows[table], key, &known))
		return (void *)(uintptr_t)known;
	copy = arena_alloc(&d->arena, size);
	if (copy && map_put(&d->rows[table], key, (uint64_t)(uintptr_t)copy) == 0)
		return copy;
	d->lost++;
	return NULL;
}

static void add_text(struct definitions *d, const struct row_string *r)
{
	struct bytes_value *text =
		row_memory(d, TABLE_string, r->id, sizeof(*text) + r->text.length + 1);

	if (!text)
		return;
	*text = (struct bytes_value){ text + 1, r->text.length };
	memcpy(text + 1, r->text.data, r->text.length);
	((char *)(text + 1))[r->text.length] = '\0';
}

bool definitions_add(struct definitions *d, enum table_id table, const void *row)
{
	const struct table_schema *schema;
	uint32_t key;
	void *copy;

	if (table == TABLE_string)
		add_text(d, row);
	if (table == TABLE_string || !(d->tables >> table & 1))
		return table == TABLE_string;
	schema = schema_table(table);
	memcpy(&key, (const uint8_t *)row + schema->columns[0].row_offset, sizeof(key));
	copy = row_memory(d, table, key, schema->row_size);
	if (copy)
		memcpy(copy, row, schema->row_size);
	return true;
}

const void *definitions_row(const struct definitions *d, enum table_id table, uint32_t key)
{
	uint64_t row;

	return map_get(&d->rows[table], key, &row) ? (const void *)(uintptr_t)row : NULL;
}

struct bytes_value definitions_text(const struct definitions *d, uint32_t id)
{
	const struct bytes_value *text = definitions_row(d, TABLE_string, id);

	return text ? *text : (struct bytes_value){ "", 0 };
}

void definitions_clear(struct definitions *d)
{
	for (size_t i = 0; i < TABLE_END; i++)
		map_clear(&d->rows[i]);
	arena_release(&d->arena);
}

void definitions_release(struct definitions *d)
{
	for (size_t i = 0; i < TABLE_END; i++)
		map_release(&d->rows[i]);
	arena_release(&d->arena);
}
