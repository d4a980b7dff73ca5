#include "analysis/gpus.h"

#include <errno.h>
#include <string.h>

#include "analysis/filter.h"
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
	const struct device_columns *c = device_columns(t);

	for (struct row_walk w = all_rows(t, TABLE_device); row_walk_next(&w);) {
		struct gpu gpu = { (uint32_t)w.row, c->id[w.row], trace_string(t, c->name[w.row]),
				   trace_string(t, c->uuid[w.row]), c->vendor[w.row] };

		if (!is_known(g, w.process, gpu.ordinal) && add(g, w.process, gpu) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Adds ordinals that occur only in rows of work. */
static int add_seen(struct gpus *g, const struct trace *t, enum table_id table)
{
	const uint32_t *devices = events_of(t, table).device;

	uint64_t last = UINT64_MAX;

	for (struct row_walk w = all_rows(t, table); devices && row_walk_next(&w);) {
		struct gpu gpu = { TRACE_NO_ROW, devices[w.row], "", "", gpu_vendor_unknown };

		if (key_of(w.process, gpu.ordinal) == last)
			continue;
		last = key_of(w.process, gpu.ordinal);
		if (!is_known(g, w.process, gpu.ordinal) && add(g, w.process, gpu) < 0)
			return -ENOMEM;
	}
	return 0;
}

int gpus_init(struct gpus *g, struct trace *t, struct error *e)
{
	int rc;

	*g = (struct gpus){ .items = calloc(GPUS_MAX, sizeof(*g->items)), .index = MAP_INIT };
	if (!g->items)
		return error_set(e, -ENOMEM, "out of memory");
	rc = trace_load(t, TABLE_device, 0, e);
	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		rc = events_load(t, schema_gpu_work[i]->id, 1u << ROLE_DEVICE, e);
	if (rc >= 0 && (rc = add_described(g, t)) < 0)
		error_set(e, rc, "out of memory");
	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		if ((rc = add_seen(g, t, schema_gpu_work[i]->id)) < 0)
			error_set(e, rc, "out of memory");
	if (rc < 0)
		gpus_release(g);
	return rc < 0 ? rc : 0;
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

bool gpus_are_amd(const struct gpus *g)
{
	size_t i = 0;

	while (i < g->count && g->items[i].vendor == gpu_vendor_amd)
		i++;
	return i && i == g->count;
}

int occupancy_of_rows(const struct trace *t, uint32_t device_row, uint32_t config_row,
		      struct occupancy *out)
{
	struct row_device device;
	struct row_kernel_config config;

	if (device_row == TRACE_NO_ROW || config_row == TRACE_NO_ROW)
		return E_UNSUPPORTED;
	trace_row(t, TABLE_device, device_row, &device);
	trace_row(t, TABLE_kernel_config, config_row, &config);
	return occupancy_of(&device, &config, out);
}
