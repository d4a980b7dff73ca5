/*
 * events.h: columns that tables of events have in common, whatever the table: the roles of the
 * schema. NULL where a table has no such column, or it is not loaded.
 */
#ifndef PITOT_TRACE_EVENTS_H
#define PITOT_TRACE_EVENTS_H

#include "trace/columns.h"

struct event_columns {
	enum table_id table;
	uint64_t rows;
	const uint64_t *start_ns, *end_ns; /* of what does not last: the same array */
	const uint64_t *correlation, *graph_node;
	const uint32_t *device, *context, *stream, *graph;
	/* as columns.h: one byte a row, or NULL */
	const uint8_t *start_valid, *end_valid, *stream_valid, *graph_valid, *graph_node_valid;
	const uint32_t *launches; /* of trace_launches, once it was called */
};

/* Roles as bits, for events_load. */
#define ROLES_TIMES (1u << ROLE_START | 1u << ROLE_END)
#define ROLES_PLACE (1u << ROLE_DEVICE | 1u << ROLE_CONTEXT | 1u << ROLE_STREAM)
#define ROLES_GRAPH (1u << ROLE_GRAPH | 1u << ROLE_GRAPH_NODE)

/* The columns that the table has with these roles, as bits. */
uint64_t events_columns(enum table_id table, unsigned roles);
/* Loads them. 0 or a negative code. */
int events_load(struct trace *t, enum table_id table, unsigned roles, struct error *e) MUST_USE;
struct event_columns events_of(const struct trace *t, enum table_id table);

/*
 * What a row is called: its label (ROLE_LABEL is loaded), of a table without labels the table's
 * name.
 */
const char *event_label(const struct trace *t, enum table_id table, uint64_t row);
/* What tells rows with different labels apart. */
uint32_t event_label_key(const struct trace *t, enum table_id table, uint64_t row);

/* Whether both times of a row are known, and in order. */
static inline bool event_is_timed(const struct event_columns *c, uint64_t row)
{
	return column_has(c->start_valid, row) && column_has(c->end_valid, row) &&
	       c->end_ns[row] >= c->start_ns[row];
}

#endif
