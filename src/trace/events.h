/*
 * events.h: access to the columns that event tables have in common, by their roles in the schema.
 * A pointer is NULL if the table has no such column, or while the column is not loaded.
 */
#ifndef PITOT_TRACE_EVENTS_H
#define PITOT_TRACE_EVENTS_H

#include "trace/columns.h"

struct event_columns {
	enum table_id table;
	uint64_t rows;
	const uint64_t *start_ns, *end_ns; /* the same array for events without a duration */
	const uint64_t *correlation, *graph_node;
	const uint32_t *device, *context, *stream, *graph;
	/* one byte per row, or NULL: see columns.h */
	const uint8_t *start_valid, *end_valid, *stream_valid, *graph_valid, *graph_node_valid;
	const uint32_t *launches; /* result of trace_launches; NULL before that was called */
};

/* Sets of roles, as bits, for events_load. */
#define ROLES_TIMES (1u << ROLE_START | 1u << ROLE_END)
#define ROLES_PLACE (1u << ROLE_DEVICE | 1u << ROLE_CONTEXT | 1u << ROLE_STREAM)
#define ROLES_GRAPH (1u << ROLE_GRAPH | 1u << ROLE_GRAPH_NODE)

/* The table's columns that have one of these roles, as bits. */
uint64_t events_columns(enum table_id table, unsigned roles);
/* Loads these columns. 0 or a negative code. */
int events_load(struct trace *t, enum table_id table, unsigned roles, struct error *e) MUST_USE;
struct event_columns events_of(const struct trace *t, enum table_id table);

/* Display name of a row: its label (ROLE_LABEL must be loaded), or the name of the table. */
const char *event_label(const struct trace *t, enum table_id table, uint64_t row);
/* Equal for two rows of a table if and only if their labels are equal. */
uint32_t event_label_key(const struct trace *t, enum table_id table, uint64_t row);

/* Whether both times of a row are known, and in order. */
static inline bool event_is_timed(const struct event_columns *c, uint64_t row)
{
	return column_has(c->start_valid, row) && column_has(c->end_valid, row) &&
	       c->end_ns[row] >= c->start_ns[row];
}

#endif
