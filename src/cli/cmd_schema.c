/* cmd_schema.c: `pitot schema`: the tables and columns of recordings. */
#include <string.h>

#include "base/json.h"
#include "report/text_table.h"
#include "cli/ui.h"
#include "schema/schema.h"

static const struct command_example examples[] = {
	{ "pitot schema", "all tables" },
	{ "pitot schema kernel", "the columns of one table" },
	{ "pitot schema --json", "everything, for scripts" },
	{ NULL, NULL },
};

static void print_tables(const struct context *c, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT("table"), RIGHT("columns"),
						      LEFT("meaning") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *table = schema_table(id);

		text_table_add(&t, table->name);
		text_table_addf(&t, "%u", table->column_count);
		text_table_add(&t, table->meaning);
	}
	text_table_print(&t, 0, UINT32_MAX, c->color, out);
}

/* Adds "ref kernel_config" for a reference, else the name of the type. */
static void add_type(struct text_table *t, const struct column_schema *column)
{
	if (column->ref)
		text_table_addf(t, "ref %s", schema_table(column->ref)->name);
	else
		text_table_add(t, schema_type_name(column->type));
}

static void print_values(const struct table_schema *table, unsigned width, struct strbuf *out)
{
	for (int i = 0; i < table->column_count; i++) {
		const struct column_schema *column = &table->columns[i];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		if (!column->value_count)
			continue;
		strbuf_addf(&line, "%s:", column->name);
		for (unsigned v = 0; v < column->value_count; v++)
			strbuf_addf(&line, "%s %s %u", v ? "," : "", column->values[v].name,
				    column->values[v].value);
		strbuf_addc(out, '\n');
		text_fold(out, strbuf_text(&line), 0, width);
	}
}

static void print_table(const struct context *c, const struct table_schema *table,
			struct strbuf *out)
{
	static const struct text_column columns[] = {
		LEFT("column"), LEFT("type"), LEFT("unit"), LEFT("missing"), LEFT("meaning"),
	};
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	strbuf_addf(out, "%s: %s\n\n", table->name, table->meaning);
	for (int i = 0; i < table->column_count; i++) {
		const struct column_schema *column = &table->columns[i];

		text_table_add(&t, column->name);
		add_type(&t, column);
		text_table_add(&t, column->unit);
		text_table_add(&t, column->maybe ? "can be" : "");
		text_table_add(&t, column->meaning);
	}
	text_table_print(&t, 0, UINT32_MAX, c->color, out);
	print_values(table, c->width, out);
}

static void write_column(struct json *j, const struct table_schema *table,
			 const struct column_schema *column)
{
	json_object(j);
	json_key_string(j, "name", column->name);
	json_key_string(j, "type", schema_type_name(column->type));
	json_key_string(j, "unit", column->unit);
	json_key_string(j, "meaning", column->meaning);
	json_key_bool(j, "may_be_missing", column->maybe);
	if (column->base >= 0)
		json_key_string(j, "base", table->columns[column->base].name);
	if (column->ref)
		json_key_string(j, "refers_to", schema_table(column->ref)->name);
	if (column->value_count) {
		json_key_object(j, "values");
		for (unsigned v = 0; v < column->value_count; v++)
			json_key_u64(j, column->values[v].name, column->values[v].value);
		json_end(j);
	}
	json_end(j);
}

static void write_table(struct json *j, const struct table_schema *table)
{
	json_object(j);
	json_key_string(j, "name", table->name);
	json_key_u64(j, "id", table->id);
	json_key_string(j, "meaning", table->meaning);
	json_key_bool(j, "repeated", table->repeated);
	json_key_array(j, "columns");
	for (int i = 0; i < table->column_count; i++)
		write_column(j, table, &table->columns[i]);
	json_end(j);
	json_end(j);
}

static void print_json(const struct table_schema *only, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_array(&j, "tables");
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (!only || only == schema_table(id))
			write_table(&j, schema_table(id));
	json_finish(&j);
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const struct table_schema *table = argc > 1 ? schema_table_by_name(argv[1]) : NULL;

	if (argc > 1 && !table)
		return cli_unknown(c, "table", argv[1], schema_table_names, "pitot schema");
	if (c->json)
		print_json(table, &out);
	else if (table)
		print_table(c, table, &out);
	else
		print_tables(c, &out);
	return cli_print(c, &out);
}

const struct command cmd_schema = {
	.name = "schema",
	.group = COMMAND_LOOK_INTO,
	.summary = "list tables and columns of recordings, with units and meanings",
	.usage = "[options] [TABLE]",
	.description = "Prints all tables, or the columns of one: name, type, unit, whether a "
		       "value can be missing, and its meaning. Times are nanoseconds of "
		       "CLOCK_MONOTONIC of the recorded machine.",
	.options = no_options,
	.examples = examples,
	.operands = schema_table_names,
	.operands_max = 1,
	.run = run,
};
