/*
 * strings.c: interns the texts of all processes, so that equal texts have equal ids.
 *
 * Table `string` is the only one with a BYTES column. Its column `text` is loaded as ids of the
 * trace; each session gets a table that maps its own ids to these.
 */
#include "trace/trace_state.h"

#include <errno.h>
#include <string.h>

#define STRING_BYTES_MAX (UINT64_C(4) << 30)

int64_t trace_intern(struct trace *t, const char *text, size_t length)
{
	int64_t id;

	if (t->strings.bytes > STRING_BYTES_MAX || t->strings.count >= UINT32_MAX - 1) {
		id = interner_find(&t->strings, text, length);
		return id < 0 ? E_LIMIT : id;
	}
	return interner_add(&t->strings, text, length, NULL);
}

const char *trace_copy_text(struct trace *t, const char *text)
{
	int64_t id = trace_intern(t, text, strlen(text));

	return id < 0 ? "?" : t->strings.items[id].text;
}

struct string_rows {
	VEC(uint32_t) ids; /* ids of the session */
	VEC(uint32_t) texts; /* ids of the trace */
};

/* Adds the texts of `count` ids, which the block's decoder appended after rows->ids.count. */
static int add_texts(struct trace *t, struct string_rows *rows, const struct bytes_column *texts,
		     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = texts->offsets[i + 1] - texts->offsets[i];
		int64_t id = trace_intern(t, (const char *)texts->data + texts->offsets[i], length);

		if (id == -ENOMEM)
			return -ENOMEM;
		rows->texts.data[rows->texts.count++] = id < 0 ? STRING_LOST : (uint32_t)id;
	}
	rows->ids.count += count;
	return 0;
}

static int load_block(struct trace *t, struct decoder *decoder, struct block_item *item,
		      struct string_rows *rows)
{
	const struct segment *file = &t->segments.data[item->segment].file;
	struct bytes_column texts = { NULL, NULL };
	struct column_target targets[] = {
		{ .column = COLUMN_string_id },
		{ .column = COLUMN_string_text, .values = &texts },
	};
	int result;

	if (vec_reserve(&rows->ids, item->rows) < 0 || vec_reserve(&rows->texts, item->rows) < 0)
		return -ENOMEM;
	targets[0].values = rows->ids.data + rows->ids.count;
	result = block_decode(decoder, file, &file->blocks[item->block], targets,
			      ARRAY_SIZE(targets));
	if (result < 0) {
		item->state = BLOCK_DAMAGED;
		return result == -ENOMEM ? result : 0;
	}
	result = add_texts(t, rows, &texts, item->rows);
	free(texts.offsets);
	free(texts.data);
	return result;
}

static int drop_repeats(struct trace *t, struct table_data *table, struct string_rows *rows,
			struct error *e)
{
	const struct row_column columns[] = {
		{ .values = (uint8_t *)rows->ids.data, .width = sizeof(uint32_t) },
		{ .values = (uint8_t *)rows->texts.data, .width = sizeof(uint32_t) },
	};

	return dedup_rows(t, table, columns, ARRAY_SIZE(columns), e);
}

/* Moves the decoded rows to the columns of the table. */
static void store_columns(struct table_data *table, struct string_rows *rows)
{
	const struct table_schema *schema = schema_table(TABLE_string);

	table_set_column(table, schema, COLUMN_string_id,
			 (struct column_data){ .values = rows->ids.data, .loaded = true });
	table_set_column(table, schema, COLUMN_string_text,
			 (struct column_data){ .values = rows->texts.data, .loaded = true });
	rows->ids.data = rows->texts.data = NULL;
}

int strings_decode(struct trace *t, struct error *e)
{
	struct table_data *table = &t->tables[TABLE_string];
	struct string_rows rows = { VEC_INIT, VEC_INIT };
	struct decoder *decoder;
	int result;

	if (table->rows_assigned)
		return 0;
	decoder = decoder_new();
	result = decoder ? 0 : -ENOMEM;
	for (size_t i = 0; i < table->items.count && result == 0; i++)
		result = load_block(t, decoder, &table->items.data[i], &rows);
	if (result == 0)
		result = rows_assign(t, table, e);
	if (result == 0)
		result = drop_repeats(t, table, &rows, e);
	if (result == 0)
		store_columns(table, &rows);
	else
		rows_unassign(t, TABLE_string);
	vec_release(&rows.ids);
	vec_release(&rows.texts);
	decoder_free(decoder);
	return result == -ENOMEM ? error_errno(e, ENOMEM, "cannot load strings") : result;
}
