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

int row_feed_init(struct row_feed *f, const struct trace *t, struct sink *sink)
{
	uint64_t tables = referred_tables();

	*f = (struct row_feed){ .trace = t, .sink = sink };
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

static void append_text(struct row_feed *f, uint32_t id)
{
	const struct trace *t = f->trace;
	struct row_string row = { .id = id };

	row.text.data = trace_string(t, id);
	row.text.length = (uint32_t)trace_string_length(t, id);
	f->sink->ops->append(f->sink, TABLE_string, &row);
}

static bool is_number(const struct row_feed *f, enum table_id table, uint32_t number)
{
	if (table == TABLE_string)
		return number && number < trace_string_count(f->trace);
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
	const struct table_schema *schema = schema_table(table);
	uint8_t *bytes = out;
	uint64_t left;

	trace_row(f->trace, table, row, out);
	for (left = (schema->texts | schema->refs) & ~load_u64(out); left; left &= left - 1) {
		const struct column_schema *c = &schema->columns[__builtin_ctzll(left)];

		row_feed_refer(f, c->ref ? c->ref : TABLE_string, load_u32(bytes + c->row_offset));
	}
	if (f->known[table])
		store_u32(bytes + schema->columns[0].row_offset, (uint32_t)row);
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
	const struct trace *t = f->trace;

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
