/*
 * flame_calls.c: host time of calls in a flame graph: of those that wait for the GPU, and of those
 * that launch.
 */
#include <errno.h>
#include <string.h>

#include "analysis/flame/flame_build.h"

/* Where the visited calls go. */
struct adding {
	struct flame_builder *builder;
	enum flame_kind kind;
	size_t process;
};

static int add_call(void *user, uint32_t row)
{
	const struct adding *a = user;
	struct flame_builder *b = a->builder;
	struct flame_event event = flame_event_of(b, a->process, row);
	uint64_t ns = b->calls.end_ns[row] - b->calls.start_ns[row];
	uint32_t node;

	if (!flame_wants(b, TABLE_api_call, row, true, b->calls.start_ns[row]))
		return 0;
	if (b->places) {
		event.device = b->places[row].device;
		event.stream = b->places[row].stream;
	}
	node = flame_base(b, a->kind, &event);
	if (node != FLAME_NONE)
		node = flame_call(b, node, a->process, row);
	return flame_book(b, a->kind, node, ns);
}

int flame_add_calls(struct flame_builder *b, enum flame_kind kind)
{
	_cleanup_free_ uint8_t *functions = calls_with_role(
		b->trace, &b->calls, kind == FLAME_WAIT ? CALLS_WAIT : CALLS_LAUNCH);
	struct adding a = { .builder = b, .kind = kind };
	int r = functions ? 0 : -ENOMEM;

	for (; a.process < trace_process_count(b->trace) && r >= 0; a.process++)
		r = calls_outermost(b->trace, &b->calls, a.process, functions, add_call, &a);
	return r;
}

static int place_rows(struct flame_builder *b, enum table_id table, int device, int stream,
		      struct error *e)
{
	uint64_t mask = (device < 0 ? 0 : UINT64_C(1) << device) | UINT64_C(1) << stream;
	const uint32_t *calls, *devices = NULL, *streams;
	const uint8_t *valid;
	int r;

	if (!trace_rows(b->trace, table))
		return 0;
	r = trace_load(b->trace, table, mask, e);
	if (r >= 0)
		r = trace_launches(b->trace, table, &calls, e);
	if (r < 0)
		return r;
	if (device >= 0)
		devices = trace_u32(b->trace, table, device);
	streams = trace_u32(b->trace, table, stream);
	valid = trace_valid(b->trace, table, stream);
	for (uint64_t row = 0; row < trace_rows(b->trace, table); row++) {
		if (calls[row] == TRACE_NO_ROW || (valid && !valid[row]))
			continue;
		b->places[calls[row]].stream = streams[row];
		if (devices)
			b->places[calls[row]].device = devices[row];
	}
	return 0;
}

int flame_places_init(struct flame_builder *b, struct error *e)
{
	size_t size = b->calls.rows * sizeof(*b->places);
	int r;

	b->places = malloc(size + 1);
	if (!b->places)
		return -ENOMEM;
	memset(b->places, 0xff, size);
	r = place_rows(b, TABLE_kernel, COLUMN_kernel_device, COLUMN_kernel_stream, e);
	if (r >= 0)
		r = place_rows(b, TABLE_memcpy, COLUMN_memcpy_device, COLUMN_memcpy_stream, e);
	if (r >= 0)
		r = place_rows(b, TABLE_memset, COLUMN_memset_device, COLUMN_memset_stream, e);
	if (r >= 0)
		r = place_rows(b, TABLE_graph_launch, COLUMN_graph_launch_device,
			       COLUMN_graph_launch_stream, e);
	if (r >= 0)
		r = place_rows(b, TABLE_synchronization, -1, COLUMN_synchronization_stream, e);
	return r;
}
