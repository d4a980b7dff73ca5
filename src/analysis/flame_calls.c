/*
 * flame_calls.c: host time of calls in a flame graph: of those that wait for the GPU, and of those that launch.
 *
 * A runtime function calls driver functions; where both are recorded, only the outermost counts.
 */
#include <errno.h>
#include <string.h>

#include "analysis/flame_build.h"

static bool is_launch(enum api_kind kind)
{
	return kind == api_kind_launch || kind == api_kind_graph_launch;
}

/* Copies wait unless they are asked for as asynchronous; memory sets do not wait. */
static bool waits(const struct flame_builder *b, uint32_t row)
{
	enum api_kind kind = calls_kind(&b->calls, row);
	size_t length;
	const char *name;

	if (kind == api_kind_synchronize)
		return true;
	if (kind != api_kind_memcpy)
		return false;
	name = calls_function_name(b->trace, b->calls.functions[row], &length);
	return !memmem(name, length, "Async", 5);
}

/* One byte a row of api_function, and one more for unknown ones: whether its calls belong to a kind of time. */
static uint8_t *choose_functions(const struct flame_builder *b, enum flame_kind kind)
{
	const struct calls *c = &b->calls;
	uint8_t *chosen = calloc(c->function_count + 1, 1), *known;

	known = calloc(c->function_count + 1, 1);
	for (uint64_t row = 0; chosen && known && row < c->rows; row++) {
		uint64_t function = MIN(c->functions[row], c->function_count);

		if (known[function])
			continue;
		known[function] = 1;
		chosen[function] = kind == FLAME_LAUNCHES ? is_launch(calls_kind(c, row))
							  : waits(b, (uint32_t)row);
	}
	if (!known) {
		free(chosen);
		chosen = NULL;
	}
	free(known);
	return chosen;
}

static int add_call(struct flame_builder *b, enum flame_kind kind, size_t process, uint32_t row)
{
	struct flame_section *section = &b->flame->sections[kind];
	struct flame_event event = flame_event_of(b, process, row);
	uint64_t ns = b->calls.end_ns[row] - b->calls.start_ns[row];
	uint32_t node;

	if (b->places) {
		event.device = b->places[row].device;
		event.stream = b->places[row].stream;
	}
	node = flame_base(b, kind, &event);
	if (node != FLAME_NONE)
		node = flame_call(b, node, process, row);
	if (node == FLAME_NONE)
		return -ENOMEM;
	flame_tree_add(&b->flame->tree, node, ns, 1);
	section->total_ns += ns;
	section->count++;
	return 0;
}

static int add_process(struct flame_builder *b, enum flame_kind kind, const uint8_t *chosen,
		       struct map *busy, size_t process)
{
	const struct calls *c = &b->calls;
	uint64_t row = trace_first_row(b->trace, TABLE_api_call, process);
	uint64_t end = trace_first_row(b->trace, TABLE_api_call, process + 1);

	map_clear(busy);
	for (; row < end; row++) {
		uint64_t *until;

		if (!chosen[MIN(c->functions[row], c->function_count)] ||
		    c->end_ns[row] < c->start_ns[row])
			continue;
		until = map_at(busy, c->threads[row], 0);
		if (!until)
			return -ENOMEM;
		if (c->start_ns[row] < *until && c->end_ns[row] <= *until)
			continue;
		*until = c->end_ns[row];
		if (flame_wants(b, TABLE_api_call, row, true, c->start_ns[row]) &&
		    add_call(b, kind, process, (uint32_t)row) < 0)
			return -ENOMEM;
	}
	return 0;
}

int flame_add_calls(struct flame_builder *b, enum flame_kind kind)
{
	_cleanup_free_ uint8_t *chosen = choose_functions(b, kind);
	struct map busy = MAP_INIT; /* thread -> end of its last call */
	int r = chosen ? 0 : -ENOMEM;

	for (size_t p = 0; p < trace_process_count(b->trace) && r >= 0; p++)
		r = add_process(b, kind, chosen, &busy, p);
	map_release(&busy);
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
