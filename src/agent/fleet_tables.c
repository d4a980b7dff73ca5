#include "agent/fleet_tables.h"

#include <string.h>

#include "base/json.h"

#define IS_MAYBE true
#define IS_ALWAYS false
#define COLUMN(table, name_, type_, presence, doc)                                                 \
	{ .name = #name_, .type = FLAT_##type_, .maybe = IS_##presence, .meaning = doc },
#define T(table, doc)                                                                              \
	static const struct fleet_column table##_columns[] = { FLEET_##table(COLUMN, table) };
FLEET_TABLES(T)
T(compacted, "")
#undef T

#define TIME_OF_step FLEET_step_start_ns
#define TIME_OF_kernel_sketch FLEET_kernel_sketch_time_ns
#define TIME_OF_loss FLEET_loss_time_ns

const struct fleet_schema fleet_schemas[FLEET_ALL_COUNT] = {
#define T(table, doc)                                                                              \
	[FLEET_##table] = { .name = #table,                                                        \
			    .meaning = doc,                                                        \
			    .columns = table##_columns,                                            \
			    .column_count = ARRAY_SIZE(table##_columns),                           \
			    .time_column = TIME_OF_##table,                                        \
			    .job_column = FLEET_##table##_job,                                     \
			    .host_column = FLEET_##table##_host },
	FLEET_TABLES(T)
#undef T
		[FLEET_compacted] = { .name = "compacted",
				      .meaning = "objects that others stand for",
				      .columns = compacted_columns,
				      .column_count = ARRAY_SIZE(compacted_columns) },
};

void fleet_rows_init(struct fleet_rows *rows)
{
	*rows = (struct fleet_rows){ .failed = false };
	interner_init(&rows->texts);
}

void fleet_rows_release(struct fleet_rows *rows)
{
	for (size_t i = 0; i < FLEET_ALL_COUNT; i++)
		vec_release(&rows->values[i]);
	interner_release(&rows->texts);
}

void fleet_rows_clear(struct fleet_rows *rows)
{
	fleet_rows_release(rows);
	fleet_rows_init(rows);
}

uint64_t fleet_text(struct fleet_rows *rows, const char *text)
{
	int64_t id = interner_add(&rows->texts, text, strlen(text), NULL);

	rows->failed |= id < 0;
	return id < 0 ? 0 : (uint64_t)id;
}

void fleet_append(struct fleet_rows *rows, enum fleet_table table, const void *row)
{
	size_t words = 1 + fleet_schemas[table].column_count;

	if (vec_reserve(&rows->values[table], words) < 0) {
		rows->failed = true;
		return;
	}
	memcpy(rows->values[table].data + rows->values[table].count, row, words * sizeof(uint64_t));
	rows->values[table].count += words;
}

size_t fleet_row_count(const struct fleet_rows *rows, enum fleet_table table)
{
	return rows->values[table].count / (1 + fleet_schemas[table].column_count);
}

static void add_value(struct json *j, enum flat_type type, uint64_t value,
		      const struct interner *texts)
{
	switch (type) {
	case FLAT_TEXT:
		json_bytes(j, texts->items[value].text, texts->items[value].length);
		break;
	case FLAT_I32:
	case FLAT_I64:
		json_i64(j, type == FLAT_I32 ? (int32_t)value : (int64_t)value);
		break;
	default:
		json_u64(j, value);
	}
}

void fleet_add_json(enum fleet_table table, const uint64_t *values, size_t rows,
		    const struct interner *texts, struct strbuf *out)
{
	const struct fleet_schema *schema = &fleet_schemas[table];

	for (size_t i = 0; i < rows; i++, values += 1 + schema->column_count) {
		struct json j = JSON_INIT(out);

		json_object(&j);
		for (size_t c = 0; c < schema->column_count; c++) {
			json_key(&j, schema->columns[c].name);
			if (values[0] >> c & 1)
				json_null(&j);
			else
				add_value(&j, schema->columns[c].type, values[1 + c], texts);
		}
		json_finish(&j);
	}
}

int fleet_write(enum fleet_table table, const uint64_t *values, size_t rows,
		const struct interner *texts, const char *path, uint64_t *bytes, struct error *e)
{
	const struct fleet_schema *schema = &fleet_schemas[table];
	struct flat_memory memory = { .name = schema->name,
				      .row_values = 1 + schema->column_count,
				      .rows = values,
				      .texts = texts };
	struct flat_table f;
	int rc = 0;

	flat_memory_init(&f, &memory, rows);
	for (size_t i = 0; i < schema->column_count && rc == 0; i++) {
		const struct fleet_column *c = &schema->columns[i];

		rc = flat_memory_column(&f, c->name, c->type, c->maybe, c->meaning);
	}
	rc = rc < 0 ? error_set(e, rc, "out of memory") : parquet_write_file(&f, path, bytes, e);
	flat_table_release(&f);
	return rc;
}
