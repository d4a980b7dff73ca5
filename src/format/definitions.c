#include "format/definitions.h"

#include <string.h>

/* Returns 0 or -ENOMEM. */
static int put_row(struct definition_rows *rows, uint32_t key, void *row)
{
	if (key >= DENSE_KEYS || key > DENSE_START + 4 * rows->dense.count)
		return map_put(&rows->others, key, (uint64_t)(uintptr_t)row);
	if (key >= rows->dense.count && vec_reserve(&rows->dense, key + 1 - rows->dense.count) < 0)
		return -ENOMEM;
	while (rows->dense.count <= key)
		rows->dense.data[rows->dense.count++] = NULL;
	rows->dense.data[key] = row;
	return 0;
}

/* Returns memory for a key's row, that of the previous row if there was one, or NULL. */
static void *row_memory(struct definitions *d, enum table_id table, uint32_t key, size_t size)
{
	void *row = table == TABLE_string ? NULL : (void *)definitions_row(d, table, key);

	if (row)
		return row;
	row = arena_alloc(&d->arena, size);
	if (row && put_row(&d->rows[table], key, row) == 0)
		return row;
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
	const struct definition_rows *rows = &d->rows[table];
	uint64_t row;

	if (likely(key < rows->dense.count && rows->dense.data[key]))
		return rows->dense.data[key];
	return map_get(&rows->others, key, &row) ? (const void *)(uintptr_t)row : NULL;
}

struct bytes_value definitions_text(const struct definitions *d, uint32_t id)
{
	const struct bytes_value *text = definitions_row(d, TABLE_string, id);

	return text ? *text : (struct bytes_value){ "", 0 };
}

void definitions_clear(struct definitions *d)
{
	for (size_t i = 0; i < TABLE_END; i++) {
		d->rows[i].dense.count = 0;
		map_clear(&d->rows[i].others);
	}
	arena_release(&d->arena);
}

void definitions_release(struct definitions *d)
{
	for (size_t i = 0; i < TABLE_END; i++) {
		vec_release(&d->rows[i].dense);
		map_release(&d->rows[i].others);
	}
	arena_release(&d->arena);
}
