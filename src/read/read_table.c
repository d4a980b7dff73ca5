#include "read/read_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

void read_table_release(struct read_table *r)
{
	view_where_release(&r->where);
	view_columns_release(&r->columns);
	row_scopes_release(&r->scopes);
	read_stacks_release(&r->stacks);
}

/* Adds "config.row" of a column that refers to rows of another table. */
static int add_row_number(struct read_table *r, const char *name)
{
	const struct table_schema *table = r->view.schema;
	size_t length = strlen(name);
	struct view_column column = { .kind = VIEW_STORED };

	if (length < 4 || strcmp(name + length - 4, ".row"))
		return 0;
	for (int i = 0; i < table->column_count; i++) {
		column.schema = &table->columns[i];
		column.column = i;
		if (!column.schema->ref || strlen(column.schema->name) != length - 4 ||
		    strncmp(column.schema->name, name, length - 4))
			continue;
		column.label = strdup(name);
		if (column.label && vec_push(&r->columns.items, column) == 0)
			return 1;
		free(column.label);
		return -ENOMEM;
	}
	return 0;
}

/* Adds "stack.frames". */
static int add_frames(struct read_table *r, const char *name)
{
	struct view_column column = { .kind = VIEW_PID };

	if (strcmp(name, "stack.frames") || !read_stacks_available(r->view.schema))
		return 0;
	column.label = strdup(name);
	if (column.label && vec_push(&r->columns.items, column) == 0)
		return 1;
	free(column.label);
	return -ENOMEM;
}

static int add_column(struct read_table *r, const char *name, struct error *e)
{
	static const struct {
		const char *name;
		enum read_form form;
	} names[] = { { "full_name", READ_FULL }, { "mangled_name", READ_AS_STORED } };
	size_t at = r->columns.items.count;
	struct view_column *column;
	int result;

	if (at == READ_COLUMNS_MAX)
		return error_set(e, E_LIMIT, "more than %u columns", READ_COLUMNS_MAX);
	result = add_row_number(r, name);
	r->forms[at] = READ_ROW;
	if (!result) {
		result = add_frames(r, name);
		r->forms[at] = result > 0 ? READ_FRAMES : READ_AS_STORED;
	}
	if (result) {
		return result < 0 ? error_set(e, result, "out of memory") : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i].name) ||
		    view_columns_add(&r->view, "name", &r->columns, NULL) < 0)
			continue;
		column = &r->columns.items.data[at];
		if (view_is_kernel_name(&r->view, column)) {
			free(column->label);
			column->label = strdup(name);
			r->forms[at] = (uint8_t)names[i].form;
			return column->label ? 0 : error_set(e, -ENOMEM, "out of memory");
		}
		free(column->label);
		r->columns.items.count = at;
	}
	result = view_columns_add(&r->view, name, &r->columns, e);
	if (result >= 0 && view_is_kernel_name(&r->view, &r->columns.items.data[at]))
		r->forms[at] = READ_SHORT;
	return result;
}

/* The default: all columns as in `pitot view`, and the numbers of the rows that they refer to. */
static int add_all(struct read_table *r, struct error *e)
{
	const struct table_schema *table = r->view.schema;
	char name[72];
	int result = view_columns_default(&r->view, &r->columns);

	if (result < 0)
		return error_set(e, result, "out of memory");
	for (size_t i = 0; i < r->columns.items.count; i++)
		if (view_is_kernel_name(&r->view, &r->columns.items.data[i]))
			r->forms[i] = READ_SHORT;
	for (int i = 0; i < table->column_count && result >= 0; i++) {
		if (!table->columns[i].ref)
			continue;
		snprintf(name, sizeof(name), "%s.row", table->columns[i].name);
		result = add_column(r, name, e);
	}
	return result;
}

int read_table_unknown(const char *name, struct error *e)
{
	name = name ? name : "";
	error_set(e, E_USAGE, "unknown table '%s'", name);
	return error_suggest(e, name, schema_table_names, "; `pitot schema` lists them");
}

static int add_conditions(struct read_table *r, const struct pitot_read_query *query,
			  struct error *e)
{
	int result = 0;

	for (size_t i = 0; query->conditions && query->conditions[i] && result >= 0; i++)
		result = view_where_add(&r->view, query->conditions[i], &r->where, e);
	if (result < 0 || !(query->since_ns || query->until_ns))
		return result;
	if (r->view.schema->time_column < 0)
		return error_set(e, E_USAGE, "table %s has no times to select by",
				 r->view.schema->name);
	r->windowed = true;
	if (__builtin_add_overflow(r->view.origin_ns, query->since_ns, &r->since_ns))
		r->since_ns = UINT64_MAX;
	if (!query->until_ns ||
	    __builtin_add_overflow(r->view.origin_ns, query->until_ns, &r->until_ns))
		r->until_ns = UINT64_MAX;
	return result;
}

int read_table_init(struct read_table *r, struct trace *t, const struct pitot_read_query *query,
		    struct error *e)
{
	uint64_t end_ns;
	int result;

	r->view.trace = t;
	r->view.always_pid = true;
	r->view.scopes = r->without_scopes ? NULL : &r->scopes;
	trace_span(t, &r->view.origin_ns, &end_ns);
	r->view.schema = query->table ? schema_table_by_name(query->table) : NULL;
	result = r->view.schema ? 0 : read_table_unknown(query->table, e);
	if (result >= 0 && !query->columns)
		result = add_all(r, e);
	for (size_t i = 0; query->columns && query->columns[i] && result >= 0; i++)
		result = add_column(r, query->columns[i], e);
	return result < 0 ? result : add_conditions(r, query, e);
}
