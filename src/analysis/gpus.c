#include "analysis/gpus.h"

#include <errno.h>
#include <string.h>

#include "trace/events.h"

static uint64_t key_of(size_t process, uint32_t ordinal)
{
	return (uint64_t)process << 32 | ordinal;
}

static bool is_known(const struct gpus *g, size_t process, uint32_t ordinal)
{
	uint64_t item;

	return map_get(&g->index, key_of(process, ordinal), &item);
}

static int add(struct gpus *g, size_t process, struct gpu gpu)
{
	size_t item = g->count;

	for (size_t i = 0; i < g->count && gpu.uuid[0]; i++)
		if (!strcmp(g->items[i].uuid, gpu.uuid))
			item = i;
	if (item == GPUS_MAX)
		item = GPUS_MAX - 1;
	if (item == g->count)
		g->items[g->count++] = gpu;
	return map_put(&g->index, key_of(process, gpu.ordinal), item);
}

/* Adds the GPUs of table device. */
static int add_described(struct gpus *g, const struct trace *t)
{
	uint64_t rows = trace_rows(t, TABLE_device);
	const uint32_t *ids = device_columns(t)->id;
	const uint32_t *names = device_columns(t)->name;
	const uint32_t *uuids = device_columns(t)->uuid;

	for (uint64_t row = 0; row < rows; row++) {
		size_t process = trace_row_process(t, TABLE_device, row);
		struct gpu gpu = { (uint32_t)row, ids[row], trace_string(t, names[row]),
				   trace_string(t, uuids[row]) };

		if (!is_known(g, process, gpu.ordinal) && add(g, process, gpu) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Adds ordinals that occur only in rows of work. */
static int add_seen(struct gpus *g, const struct trace *t, enum table_id table)
{
	const uint32_t *devices = events_of(t, table).device;

	for (size_t process = 0; devices && process < trace_process_count(t); process++) {
		uint64_t row = trace_first_row(t, table, process),
			 end = trace_first_row(t, table, process + 1);
		bool any = false;
		uint32_t last = 0;

		for (; row < end; row++) {
			struct gpu gpu = { TRACE_NO_ROW, devices[row], "", "" };

			if (any && gpu.ordinal == last)
				continue;
			any = true;
			last = gpu.ordinal;
			if (!is_known(g, process, last) && add(g, process, gpu) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

int gpus_init(struct gpus *g, struct trace *t, struct error *e)
{
	int r;

	*g = (struct gpus){ .items = calloc(GPUS_MAX, sizeof(*g->items)), .index = MAP_INIT };
	if (!g->items)
		return error_set(e, -ENOMEM, "out of memory");
	r = trace_load(t, TABLE_device, 0, e);
	for (size_t i = 0; i < GPU_WORK_KINDS && r >= 0; i++)
		r = events_load(t, schema_gpu_work[i]->id, 1u << ROLE_DEVICE, e);
	if (r >= 0 && (r = add_described(g, t)) < 0)
		error_set(e, r, "out of memory");
	for (size_t i = 0; i < GPU_WORK_KINDS && r >= 0; i++)
		if ((r = add_seen(g, t, schema_gpu_work[i]->id)) < 0)
			error_set(e, r, "out of memory");
	if (r < 0)
		gpus_release(g);
	return r < 0 ? r : 0;
}

void gpus_release(struct gpus *g)
{
	free(g->items);
	map_release(&g->index);
	*g = (struct gpus){ 0 };
}

size_t gpus_find(const struct gpus *g, size_t process, uint32_t ordinal)
{
	uint64_t item = 0;

	map_get(&g->index, key_of(process, ordinal), &item);
	return item;
}
