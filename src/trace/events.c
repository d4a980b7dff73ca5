#include "trace/events.h"

#include "trace/trace_state.h"

uint64_t events_columns(enum table_id table, unsigned roles)
{
	const struct table_schema *schema = schema_table(table);
	uint64_t columns = 0;

	for (int role = 0; role < COLUMN_ROLES; role++)
		if (roles >> role & 1 && schema->roles[role] >= 0)
			columns |= UINT64_C(1) << schema->roles[role];
	return columns;
}

int events_load(struct trace *t, enum table_id table, unsigned roles, struct error *e)
{
	uint64_t columns = events_columns(table, roles);

	return columns ? trace_load(t, table, columns, e) : 0;
}

static const uint64_t *wide(const struct trace *t, const struct table_schema *s, enum column_role r)
{
	return s->roles[r] < 0 ? NULL : trace_u64(t, s->id, s->roles[r]);
}

static const uint32_t *narrow(const struct trace *t, const struct table_schema *s,
			      enum column_role r)
{
	return s->roles[r] < 0 ? NULL : trace_u32(t, s->id, s->roles[r]);
}

static const uint8_t *valid(const struct trace *t, const struct table_schema *s, enum column_role r)
{
	return s->roles[r] < 0 ? NULL : trace_valid(t, s->id, s->roles[r]);
}

struct event_columns events_of(const struct trace *t, enum table_id table)
{
	const struct table_schema *s = schema_table(table);
	enum column_role end = s->roles[ROLE_END] < 0 ? ROLE_START : ROLE_END;

	return (struct event_columns){
		.table = table,
		.rows = trace_rows(t, table),
		.start_ns = wide(t, s, ROLE_START),
		.end_ns = wide(t, s, end),
		.correlation = wide(t, s, ROLE_CORRELATION),
		.graph_node = wide(t, s, ROLE_GRAPH_NODE),
		.device = narrow(t, s, ROLE_DEVICE),
		.context = narrow(t, s, ROLE_CONTEXT),
		.stream = narrow(t, s, ROLE_STREAM),
		.graph = narrow(t, s, ROLE_GRAPH),
		.start_valid = valid(t, s, ROLE_START),
		.end_valid = valid(t, s, end),
		.stream_valid = valid(t, s, ROLE_STREAM),
		.graph_valid = valid(t, s, ROLE_GRAPH),
		.graph_node_valid = valid(t, s, ROLE_GRAPH_NODE),
		.launches = t->tables[table].launches,
	};
}

uint32_t event_label_key(const struct trace *t, enum table_id table, uint64_t row)
{
	int column = schema_table(table)->roles[ROLE_LABEL];
	bool missing = true;
	uint64_t value = column < 0 ? 0 : trace_value(t, table, column, row, &missing);

	return missing ? TRACE_NO_ROW : (uint32_t)value;
}

const char *event_label(const struct trace *t, enum table_id table, uint64_t row)
{
	const struct table_schema *s = schema_table(table);
	uint32_t key = event_label_key(t, table, row);
	const struct column_schema *label;
	const char *name;

	if (key == TRACE_NO_ROW)
		return s->name;
	label = &s->columns[s->roles[ROLE_LABEL]];
	if (label->type == COLUMN_TYPE_REF)
		return event_label(t, (enum table_id)label->ref, key);
	if (label->type == COLUMN_TYPE_STRING)
		return trace_string(t, key);
	name = schema_value_name(label, key);
	return name ? name : "unknown";
}
