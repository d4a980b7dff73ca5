/*
 * flame_calls.c: adds host time of calls to a flame graph: calls that wait for the GPU, and calls
 * that launch work.
 */
#include <errno.h>
#include <string.h>

#include "analysis/flame/flame_state.h"

/* Destination of the visited calls. */
struct adding {
	struct flame_builder *builder;
	enum flame_kind kind;
};

static int add_call(void *user, uint32_t process, uint32_t row)
{
	const struct adding *a = user;
	struct flame_builder *b = a->builder;
	struct flame_event event = flame_event_of(b, process, row);
	uint64_t ns = b->calls.end_ns[row] - b->calls.start_ns[row];
	uint32_t node;

	if (!flame_selects(b, TABLE_api_call, row, true, b->calls.start_ns[row]) ||
	    !scope_path_selected(b->scopes, event.scope))
		return 0;
	if (b->places) {
		event.device = b->places[row].device;
		event.stream = b->places[row].stream;
	}
	node = flame_call(b, flame_base(b, a->kind, &event), process, row);
	return flame_add_time(b, a->kind, node, ns);
}

int flame_add_calls(struct flame_builder *b, enum flame_kind kind)
{
	enum call_role role = kind == FLAME_WAIT ? CALLS_WAIT : CALLS_LAUNCH;
	struct adding a = { .builder = b, .kind = kind };

	return calls_visit(b->trace, NULL, &b->calls, role, add_call, &a);
}

/* Sets the device and stream of the calls that launched the rows of a table. */
static int place_calls(struct flame_builder *b, enum table_id table, struct error *e)
{
	const uint32_t *calls;
	struct event_columns c;
	int rc;

	if (!trace_rows(b->trace, table))
		return 0;
	rc = events_load(b->trace, table, 1u << ROLE_DEVICE | 1u << ROLE_STREAM, e);
	if (rc >= 0)
		rc = trace_launches(b->trace, table, &calls, e);
	if (rc < 0)
		return rc;
	c = events_of(b->trace, table);
	for (uint64_t row = 0; row < c.rows; row++) {
		if (calls[row] == TRACE_NO_ROW || !column_has(c.stream_valid, row))
			continue;
		b->places[calls[row]].stream = c.stream[row];
		if (c.device)
			b->places[calls[row]].device = c.device[row];
	}
	return 0;
}

int flame_places_init(struct flame_builder *b, struct error *e)
{
	size_t size = b->calls.rows * sizeof(*b->places);
	int rc = 0;

	b->places = malloc(size + 1);
	if (!b->places)
		return -ENOMEM;
	memset(b->places, 0xff, size);
	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		if (schema_gpu_work[i]->launching_kinds)
			rc = place_calls(b, schema_gpu_work[i]->id, e);
	return rc < 0 ? rc : place_calls(b, TABLE_synchronization, e);
}
