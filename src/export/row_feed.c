#include "export/row_feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tables whose rows are appended when another row refers to them. */
static uint64_t referred_tables(void)
{
	uint64_t tables = UINT64_C(1) << TABLE_string;

	for (int t = 1; t < TABLE_END; t++)
		for (int c = 0; c < schema_table((enum table_id)t)->column_count; c++)
			tables |= UINT64_C(1) << schema_table((enum table_id)t)->columns[c].ref;
	return tables & ~UINT64_C(1);
}

int row_feed_init(struct row_feed *f, struct row_source *source, struct sink *sink)
{
	uint64_t tables = referred_tables();
	const struct trace *t = source->trace;

	*f = (struct row_feed){ .source = source, .sink = sink };
	for (int table = 1; table < TABLE_END; table++) {
		uint64_t rows = table == TABLE_string ? trace_string_count(t)
						      : trace_rows(t, (enum table_id)table);

		if (!(tables >> table & 1))
			continue;
		f->known[table] = calloc(rows / 8 + 1, 1);
		if (!f->known[table])
			return -ENOMEM;
	}
	return 0;
}

void row_feed_release(struct row_feed *f)
{
	for (int table = 1; table < TABLE_END; table++)
		free(f->known[table]);
	*f = (struct row_feed){ 0 };
}

static const struct row_columns *columns_of(struct row_source *source, enum table_id table)
{
	const struct table_schema *schema = schema_table(table);
	struct row_columns *columns = &source->tables[table];

	if (likely(columns->count))
		return columns;
	columns->missing = 0;
	for (uint8_t c = 0; c < schema->column_count; c++) {
		const struct column_schema *column = &schema->columns[c];
		const uint8_t *values = trace_column(source->trace, table, c);
		bool is_text = column->type == COLUMN_TYPE_STRING;

		if (!values) {
			columns->missing |= UINT64_C(1) << c;
			continue;
		}
		columns->items[columns->count++] = (struct row_column){
			.values = values,
			.valid = trace_valid(source->trace, table, c),
			.offset = column->row_offset,
			.width = column->width,
			.column = c,
			.ref = is_text ? TABLE_string : column->ref,
		};
	}
	return columns;
}

static void append_text(struct row_feed *f, uint32_t id)
{
	const struct trace *t = f->source->trace;
	struct row_string row = { .id = id };

	row.text.data = trace_string(t, id);
	row.text.length = (uint32_t)trace_string_length(t, id);
	f->sink->ops->append(f->sink, TABLE_string, &row);
}

static bool is_number(const struct row_feed *f, enum table_id table, uint32_t number)
{
	if (table == TABLE_string)
		return number && number < trace_string_count(f->source->trace);
	return number != TRACE_NO_ROW;
}

void row_feed_refer(struct row_feed *f, enum table_id table, uint32_t number)
{
	uint8_t *known;

	if (unlikely(!is_number(f, table, number)))
		return;
	known = &f->known[table][number / 8];
	if (likely(*known >> number % 8 & 1))
		return;
	*known |= (uint8_t)(1 << number % 8);
	if (table == TABLE_string)
		append_text(f, number);
	else
		row_feed_append(f, table, number);
}

void row_feed_read(struct row_feed *f, enum table_id table, uint64_t row, void *out)
{
	const struct row_columns *columns = columns_of(f->source, table);
	uint64_t missing = columns->missing;
	uint32_t number = (uint32_t)row;

	memset(out, 0, schema_table(table)->row_size);
	for (unsigned i = 0; i < columns->count; i++) {
		const struct row_column *c = &columns->items[i];
		uint8_t *member = (uint8_t *)out + c->offset;
		uint32_t referred;

		if (c->valid && !c->valid[row]) {
			missing |= UINT64_C(1) << c->column;
			continue;
		}
		if (c->width == 8)
			memcpy(member, c->values + row * 8, 8);
		else if (c->width == 4)
			memcpy(member, c->values + row * 4, 4);
		else
			memcpy(member, c->values + row * c->width, c->width);
		if (!c->ref)
			continue;
		memcpy(&referred, member, sizeof(referred));
		row_feed_refer(f, c->ref, referred);
	}
	memcpy(out, &missing, sizeof(missing));
	if (f->known[table])
		memcpy((uint8_t *)out + schema_table(table)->columns[0].row_offset, &number,
		       sizeof(number));
}

void row_feed_append(struct row_feed *f, enum table_id table, uint64_t row)
{
	_Alignas(8) uint8_t bytes[ROW_BYTES_MAX];

	if (f->known[table])
		f->known[table][row / 8] |= (uint8_t)(1 << row % 8);
	row_feed_read(f, table, row, bytes);
	f->sink->ops->append(f->sink, table, bytes);
}

void row_feed_table(struct row_feed *f, enum table_id table, size_t process)
{
	const struct trace *t = f->source->trace;

	for (uint64_t row = trace_first_row(t, table, process);
	     row < trace_first_row(t, table, process + 1); row++)
		row_feed_append(f, table, row);
}

uint32_t row_feed_text(struct row_feed *f, uint32_t number, const char *text)
{
	struct row_string row = { .id = UINT32_MAX - number,
				  .text = { text, (uint32_t)strlen(text) } };

	f->sink->ops->append(f->sink, TABLE_string, &row);
	return row.id;
}
