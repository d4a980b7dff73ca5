/*
 * refs.c: maps the ids of each session to rows of the table that they refer to, or to string ids.
 *
 * These tables have no time column (a test checks that), so their rows remain in block order.
 */
#include "trace/trace_state.h"

#include <errno.h>

/* Maps the rows of `count` consecutive blocks, all of one session. */
static int fill_session(struct id_table *ids, const struct block_item *items, size_t count,
			const uint32_t *keys, const uint32_t *values, uint64_t spare)
{
	uint64_t first = items[0].row, rows = 0;

	for (size_t i = 0; i < count; i++)
		if (items[i].state != BLOCK_DAMAGED)
			rows += items[i].rows;
	if (rows == 0)
		return 0;
	return id_table_fill(ids, keys + first, values ? values + first : NULL, (uint32_t)first,
			     rows, spare);
}

static void forget_ids(struct table_data *table)
{
	for (size_t i = 0; i < table->ids_count; i++)
		id_table_release(&table->ids[i]);
	free(table->ids);
	table->ids = NULL;
	table->ids_count = 0;
}

static int fill_sessions(struct trace *t, struct table_data *table, const uint32_t *keys,
			 const uint32_t *values)
{
	const struct block_item *items = table->items.data;
	size_t end;
	int result = 0;

	table->ids = calloc(t->sessions.count, sizeof(*table->ids));
	if (!table->ids)
		return -ENOMEM;
	table->ids_count = t->sessions.count;
	for (size_t i = 0; i < table->items.count && result == 0; i = end) {
		uint32_t session = t->segments.data[items[i].segment].session;

		for (end = i + 1; end < table->items.count; end++)
			if (t->segments.data[items[end].segment].session != session)
				break;
		result = fill_session(&table->ids[session], items + i, end - i, keys, values,
				      id_table_spare(t->sessions.count));
	}
	return result;
}

int refs_load(struct trace *t, enum table_id target, struct error *e)
{
	struct table_data *table = &t->tables[target];
	int id = schema_column_by_name(schema_table(target), "id");
	int result = trace_load(t, target, UINT64_C(1) << id, e);

	if (result < 0 || table->ids)
		return result;
	result = fill_sessions(t, table, table->columns[id].values,
			       target == TABLE_string ? table->columns[COLUMN_string_text].values
						      : NULL);
	if (result < 0)
		forget_ids(table);
	return result == -ENOMEM ? error_errno(e, ENOMEM, "cannot index table '%s'",
					       schema_table(target)->name)
				 : result;
}
