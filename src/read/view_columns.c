#include "read/view_columns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/path.h"
#include "report/text_table.h"
#include "names/demangle.h"
#include "trace/columns.h"

void view_columns_release(struct view_columns *v)
{
	for (size_t i = 0; i < v->items.count; i++)
		free(v->items.data[i].label);
	vec_release(&v->items);
}

/* Returns the unit that the column's name has and the user's label may lack. */
static const char *missing_unit(const struct view_column *c, const char *label)
{
	const char *name = c->kind == VIEW_DURATION ? "duration_ns"
			   : c->schema              ? c->schema->name
						    : "";
	static const char *const units[] = { "_ns", "_bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (has_suffix(name, units[i]) && !has_suffix(label, units[i]))
			return units[i];
	return "";
}

static int add(struct view_columns *v, struct view_column column, const char *label)
{
	size_t length;

	column.label = strdup(label);
	snprintf(column.head, sizeof(column.head), "%s%s", label, missing_unit(&column, label));
	length = strlen(column.head);
	if (view_is_time(&column) && has_suffix(column.head, "_ns"))
		memcpy(column.head + length - 3, "_s", sizeof("_s"));
	if (!column.label || vec_push(&v->items, column) < 0) {
		free(column.label);
		return -ENOMEM;
	}
	return 0;
}

static const struct table_schema *referred(const struct column_schema *column)
{
	return column->ref ? schema_table(column->ref) : NULL;
}

/* Finds a column of a table by name, with or without its unit. */
static int find_column(const struct table_schema *table, const char *name)
{
	int column = schema_column_by_name(table, name);
	char with_unit[64];

	for (size_t i = 0; i < 2 && column < 0; i++) {
		int length =
			snprintf(with_unit, sizeof(with_unit), "%s_%s", name, i ? "bytes" : "ns");

		if (length > 0 && (size_t)length < sizeof(with_unit))
			column = schema_column_by_name(table, with_unit);
	}
	return column;
}

static bool resolve_duration(const struct table_schema *table, struct view_column *c)
{
	*c = (struct view_column){ .kind = VIEW_DURATION };
	c->column = schema_column_by_name(table, "start_ns");
	c->end_column = schema_column_by_name(table, "end_ns");
	return c->column >= 0 && c->end_column >= 0;
}

static bool resolve_referred(const struct table_schema *table, int column, const char *name,
			     struct view_column *c)
{
	const struct table_schema *other = column >= 0 ? referred(&table->columns[column]) : NULL;
	int sub = other ? find_column(other, name) : -1;

	if (sub < 0)
		return false;
	*c = (struct view_column){ .kind = VIEW_REFERRED,
				   .column = column,
				   .sub_column = sub,
				   .schema = &other->columns[sub] };
	return true;
}

static bool resolve(const struct table_schema *table, const char *name, struct view_column *c)
{
	const char *dot = strchr(name, '.');
	int column = find_column(table, name);

	/* A reference to a row with a name is shown as that name. */
	if (resolve_referred(table, column, "name", c))
		return true;
	*c = (struct view_column){ .kind = VIEW_STORED, .column = column };
	if (column >= 0) {
		c->schema = &table->columns[column];
		return true;
	}
	if (dot && dot - name < 32) {
		char first[33] = { 0 };

		memcpy(first, name, (size_t)(dot - name));
		return resolve_referred(table, find_column(table, first), dot + 1, c);
	}
	if (!strcmp(name, "duration") || !strcmp(name, "duration_ns"))
		return resolve_duration(table, c);
	if (!strcmp(name, "pid")) {
		c->kind = VIEW_PID;
		return true;
	}
	for (int i = 0; i < table->column_count; i++)
		if (resolve_referred(table, i, name, c))
			return true;
	return false;
}

#define NAMES_MAX 256u

/* Stores the name of a column, and those of the rows that it refers to. Returns their number. */
static size_t add_names(const struct column_schema *column, const char **names, size_t room)
{
	const struct table_schema *other = column->ref ? schema_table(column->ref) : NULL;
	size_t count = 0;

	if (room)
		names[count++] = column->name;
	for (int i = 0; other && i < other->column_count && count < room; i++)
		names[count++] = other->columns[i].name;
	return count;
}

int view_columns_add(const struct view_table *t, const char *name, struct view_columns *v,
		     struct error *e)
{
	const char *names[NAMES_MAX + 4];
	struct view_column column = { .kind = VIEW_SCOPE };
	bool scopes = t->scopes && row_scopes_available(t->schema);
	size_t count = 0;
	char list[100];

	/* Takes precedence over the stored column api_call.scope, which has no writer. */
	if ((scopes && !strcmp(name, "scope")) || resolve(t->schema, name, &column))
		return add(v, column, name) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
	for (int i = 0; i < t->schema->column_count; i++)
		count += add_names(&t->schema->columns[i], names + count, NAMES_MAX - count);
	names[count++] = "duration";
	names[count++] = "pid";
	if (scopes)
		names[count++] = "scope";
	names[count] = NULL;
	snprintf(list, sizeof(list), "; `pitot schema %s` lists them", t->schema->name);
	error_set(e, E_USAGE, "table %s has no column '%s'", t->schema->name, name);
	return error_suggest(e, name, names, list);
}

int view_columns_default(const struct view_table *t, struct view_columns *v)
{
	const struct table_schema *table = t->schema;
	struct view_column c;
	int rc = 0;

	if ((t->always_pid || trace_process_count(t->trace) > 1) &&
	    schema_column_by_name(table, "pid") < 0)
		rc = add(v, (struct view_column){ .kind = VIEW_PID }, "pid");
	for (int i = 0; i < table->column_count && rc >= 0; i++) {
		const char *name = table->columns[i].name;

		if (resolve(table, name, &c))
			rc = add(v, c, name);
		if (rc >= 0 && !strcmp(name, "end_ns") && resolve_duration(table, &c))
			rc = add(v, c, "duration_ns");
	}
	return rc;
}

int view_columns_load(const struct view_table *t, const struct view_columns *v, struct error *e)
{
	uint64_t own = 0, referred_columns[TABLE_MAX + 1] = { 0 };
	int rc = 0;

	for (size_t i = 0; i < v->items.count; i++) {
		const struct view_column *c = &v->items.data[i];

		if (c->kind == VIEW_SCOPE)
			rc = row_scopes_load(t->scopes, t->trace, t->schema, e);
		if (rc < 0)
			return rc;
		if (c->kind == VIEW_PID || c->kind == VIEW_SCOPE)
			continue;
		own |= UINT64_C(1) << c->column;
		if (c->kind == VIEW_DURATION)
			own |= UINT64_C(1) << c->end_column;
		if (view_is_counter_value(t, c) && t->schema->id == TABLE_counter_sample) {
			own |= COLUMN_BITS(counter_sample, counter);
			referred_columns[TABLE_counter] |= COUNTER_VALUE_COLUMNS;
		}
		if (c->kind == VIEW_REFERRED)
			referred_columns[t->schema->columns[c->column].ref] |= UINT64_C(1)
									       << c->sub_column;
	}
	/* Loading any column makes the processes of the rows available. */
	if (own || trace_rows(t->trace, t->schema->id))
		rc = trace_load(t->trace, t->schema->id, own ? own : 1, e);
	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0; id++)
		if (referred_columns[id])
			rc = trace_load(t->trace, (enum table_id)id, referred_columns[id], e);
	return rc < 0 ? rc : 0;
}

struct view_value view_value(const struct view_table *t, const struct view_column *c, uint64_t row)
{
	enum table_id id = t->schema->id;
	struct view_value v = { 0 };
	uint64_t end;
	bool end_missing;

	switch (c->kind) {
	case VIEW_PID:
		v.number = trace_process(t->trace, trace_row_process(t->trace, id, row))->pid;
		break;
	case VIEW_SCOPE:
		v.number = t->scopes->paths[row];
		v.missing = v.number == SCOPE_NONE;
		break;
	case VIEW_STORED:
		v.number = trace_value(t->trace, id, c->column, row, &v.missing);
		break;
	case VIEW_DURATION:
		v.number = trace_value(t->trace, id, c->column, row, &v.missing);
		end = trace_value(t->trace, id, c->end_column, row, &end_missing);
		v.missing |= end_missing || end < v.number;
		v.number = end - v.number;
		break;
	case VIEW_REFERRED:
		v.number = trace_value(t->trace, id, c->column, row, &v.missing);
		if (!v.missing)
			v.number = trace_value(t->trace,
					       (enum table_id)t->schema->columns[c->column].ref,
					       c->sub_column, v.number, &v.missing);
		break;
	}
	return v;
}

bool view_is_time(const struct view_column *c)
{
	return c->schema && c->schema->type == COLUMN_TYPE_TIME;
}

bool view_is_duration(const struct view_column *c)
{
	return c->kind == VIEW_DURATION ||
	       (c->schema && c->schema->type != COLUMN_TYPE_TIME && !strcmp(c->schema->unit, "ns"));
}

bool view_is_text(const struct view_column *c)
{
	return c->kind == VIEW_SCOPE || (c->schema && (c->schema->type == COLUMN_TYPE_STRING ||
						       c->schema->type == COLUMN_TYPE_BYTES));
}

bool view_is_counter_value(const struct view_table *t, const struct view_column *c)
{
	return c->kind == VIEW_STORED &&
	       ((t->schema->id == TABLE_counter_sample &&
		 c->column == COLUMN_counter_sample_value) ||
		(t->schema->id == TABLE_metric_value && c->column == COLUMN_metric_value_value) ||
		(t->schema->id == TABLE_range_value && c->column == COLUMN_range_value_value));
}

struct counter_value view_counter_value(const struct view_table *t, uint64_t row)
{
	if (t->schema->id == TABLE_metric_value)
		return counter_value_real(metric_value_columns(t->trace)->value[row]);
	if (t->schema->id == TABLE_range_value)
		return counter_value_real(range_value_columns(t->trace)->value[row]);
	return counter_value(t->trace, row);
}

bool view_is_kernel_name(const struct view_table *t, const struct view_column *c)
{
	enum table_id id = t->schema->id;
	int column = c->column;

	if (c->kind == VIEW_REFERRED) {
		id = (enum table_id)t->schema->columns[column].ref;
		column = c->sub_column;
	}
	return c->schema && id == TABLE_kernel_config && column == COLUMN_kernel_config_name;
}

static void add_string(const struct view_table *t, const struct view_column *c, uint32_t id,
		       struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	if (!view_is_kernel_name(t, c)) {
		text_safe(out, trace_string(t->trace, id), trace_string_length(t->trace, id));
		return;
	}
	kernel_name_text(trace_string(t->trace, id), t->full_names, &name);
	text_safe(out, strbuf_text(&name), name.length);
}

/* Appends seconds from the origin with nine decimals. */
static void add_time(uint64_t time_ns, uint64_t origin_ns, struct strbuf *out)
{
	uint64_t ns = time_ns < origin_ns ? origin_ns - time_ns : time_ns - origin_ns;

	strbuf_addf(out, "%s%llu.%09llu", time_ns < origin_ns ? "-" : "",
		    (unsigned long long)(ns / NS_PER_S), (unsigned long long)(ns % NS_PER_S));
}

/* Integer counters are written as stored, real ones as numbers. */
static void add_signed(const struct view_table *t, const struct view_column *c, uint64_t row,
		       struct json *j)
{
	struct counter_value value = { .integer = (int64_t)view_value(t, c, row).number };

	if (view_is_counter_value(t, c))
		value = view_counter_value(t, row);
	value.decimals = 0;
	counter_value_json(&value, j);
}

void view_text(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct view_value v = view_value(t, c, row);
	struct json j = JSON_INIT(out);
	const char *name;

	if (v.missing) {
		strbuf_addc(out, '-');
	} else if (c->kind == VIEW_SCOPE) {
		scope_path_text(&t->scopes->ranges, t->trace, (uint32_t)v.number, &path);
		text_safe(out, strbuf_text(&path), path.length);
		out->failed |= path.failed;
	} else if (!c->schema) {
		strbuf_addu(out, v.number);
	} else {
		switch (c->schema->type) {
		case COLUMN_TYPE_TIME:
			add_time(v.number, t->origin_ns, out);
			break;
		case COLUMN_TYPE_STRING:
		case COLUMN_TYPE_BYTES:
			add_string(t, c, (uint32_t)v.number, out);
			break;
		case COLUMN_TYPE_ENUM:
			name = schema_value_name(c->schema, v.number);
			if (name)
				strbuf_adds(out, name);
			else
				strbuf_addu(out, v.number);
			break;
		case COLUMN_TYPE_I32:
		case COLUMN_TYPE_I64:
			add_signed(t, c, row, &j);
			break;
		default:
			strbuf_addu(out, v.number);
		}
	}
}

void view_json(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct json *j)
{
	struct view_value v = view_value(t, c, row);
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	enum column_type type = c->schema ? c->schema->type : COLUMN_TYPE_U64;
	const char *name;

	if (v.missing) {
		json_null(j);
		return;
	}
	if (c->kind == VIEW_SCOPE) {
		scope_path_text(&t->scopes->ranges, t->trace, (uint32_t)v.number, &path);
		json_bytes(j, strbuf_text(&path), path.length);
		j->out->failed |= path.failed;
		return;
	}
	switch (type) {
	case COLUMN_TYPE_TIME:
		json_i64(j, (int64_t)(v.number - t->origin_ns));
		break;
	case COLUMN_TYPE_STRING:
	case COLUMN_TYPE_BYTES:
		json_bytes(j, trace_string(t->trace, (uint32_t)v.number),
			   trace_string_length(t->trace, (uint32_t)v.number));
		break;
	case COLUMN_TYPE_ENUM:
		name = schema_value_name(c->schema, v.number);
		if (name)
			json_string(j, name);
		else
			json_u64(j, v.number);
		break;
	case COLUMN_TYPE_I32:
	case COLUMN_TYPE_I64:
		add_signed(t, c, row, j);
		break;
	default:
		json_u64(j, v.number);
	}
}
