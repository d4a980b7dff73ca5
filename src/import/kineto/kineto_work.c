/* kineto_work.c: work of GPUs, and waits for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/event_words.h"

#define NO_STREAM UINT32_MAX /* as CUPTI has it */

struct place {
	uint32_t device, context, stream;
};

static struct place place_of(struct kineto *k)
{
	struct place p = { .stream = NO_STREAM };
	uint64_t number;

	if (!kineto_u32(k, KINETO_DEVICE, &p.device) &&
	    !kineto_u32(k, KINETO_IN_DEVICE, &p.device)) {
		if (map_get(&k->gpu_pids,
			    hash_bytes(kineto_text(k, KINETO_PID),
				       strlen(kineto_text(k, KINETO_PID))),
			    &number))
			p.device = (uint32_t)number;
		else if (!kineto_u32(k, KINETO_PID, &p.device) || p.device > 63)
			p.device = 0, k->lacks_device = true;
	}
	if (!kineto_u32(k, KINETO_CONTEXT, &p.context) &&
	    !kineto_u32(k, KINETO_IN_CONTEXT, &p.context))
		k->lacks_context = true;
	if (!(k->event.has >> KINETO_STREAM & 1))
		kineto_u32(k, KINETO_TID, &p.stream);
	else
		kineto_u32(k, KINETO_STREAM, &p.stream);
	k->used_gpus |= p.device < KINETO_DEVICES ? UINT64_C(1) << p.device : 0;
	if (k->contexts.count < KINETO_KINDS_MAX && map_add(&k->contexts, p.context) > 0) {
		struct row_context row = { .id = p.context,
					   .device = p.device,
					   .time_ns = k->event.start_ns };

		ROW_MISSING(&row, context, destroyed_ns);
		ROW_MISSING(&row, context, null_stream);
		kineto_append(k, TABLE_context, &row);
	}
	return p;
}

uint64_t kineto_correlation(struct kineto *k)
{
	uint64_t id = 0;

	if (!kineto_u64(k, KINETO_CORRELATION, &id) && !kineto_u64(k, KINETO_CORRELATION_ID, &id))
		kineto_u64(k, KINETO_ARG_ID, &id);
	return id;
}

/* Two profilers may report the same work. */
static bool is_duplicate(struct kineto *k, const struct place *p, uint64_t correlation)
{
	const char *name = kineto_text(k, KINETO_NAME);
	uint64_t key[] = { k->event.start_ns, k->event.end_ns, correlation,
			   (uint64_t)p->device << 32 | p->stream, hash_bytes(name, strlen(name)) };
	int is_new = k->seen.count < KINETO_WORK_MAX
			     ? map_add(&k->seen, hash_bytes(key, sizeof(key)))
			     : 1;

	k->counts[KINETO_DUPLICATES_COUNT] += is_new == 0;
	return is_new == 0;
}

void kineto_await_call(struct kineto *k, uint64_t correlation, uint64_t external, uint64_t start_ns)
{
	struct kineto_work work = { correlation, external, start_ns, 1 };
	uint64_t item;

	kineto_count(k, KINETO_WORK_COUNT);
	k->counts[KINETO_UNLINKED_COUNT] += !correlation;
	if (!correlation)
		return;
	if (map_get(&k->work, correlation, &item))
		k->all_work.data[item - 1].count++;
	else if (k->all_work.count >= KINETO_WORK_MAX || vec_push(&k->all_work, work) < 0 ||
		 map_put(&k->work, correlation, k->all_work.count) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
}

static const struct kineto_launch *launch_of(const struct kineto *k, uint64_t correlation)
{
	uint64_t item;

	return map_get(&k->launches, correlation, &item) ? &k->all_launches.data[item] : NULL;
}

void kineto_read_details(const char *text, struct row_kernel_config *c)
{
	const char *grid = strstr(text, "grid:"), *block = strstr(text, "block:"),
		   *registers = strstr(text, "regs:"), *fixed = strstr(text, "static_shared:"),
		   *dynamic = strstr(text, "dynamic_shared:");

	if (grid && block &&
	    sscanf(grid, "grid:%u,%u,%u", &c->grid_x, &c->grid_y, &c->grid_z) == 3 &&
	    sscanf(block, "block:%u,%u,%u", &c->block_x, &c->block_y, &c->block_z) == 3)
		c->missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
	if (registers && sscanf(registers, "regs:%u", &c->registers) == 1)
		c->missing &= ~(UINT64_C(1) << COLUMN_kernel_config_registers);
	if (fixed && sscanf(fixed, "static_shared:%u", &c->static_shared_bytes) == 1)
		c->missing &= ~(UINT64_C(1) << COLUMN_kernel_config_static_shared_bytes);
	if (dynamic && sscanf(dynamic, "dynamic_shared:%u", &c->dynamic_shared_bytes) == 1)
		c->missing &= ~(UINT64_C(1) << COLUMN_kernel_config_dynamic_shared_bytes);
}

static uint32_t config_of(struct kineto *k, uint64_t correlation)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	const struct kineto_launch *launch = launch_of(k, correlation);
	const uint32_t(*sizes)[3] = k->event.sizes;
	const char *name = kineto_text(k, KINETO_NAME), *priority;
	bool sized = (k->event.has >> KINETO_GRID & 3) == 3;

	_Static_assert(KINETO_BLOCK == KINETO_GRID + 1, "their bits are neighbours");
	if (!sized && launch && launch->sizes[1][0]) {
		sizes = launch->sizes;
		sized = true;
	}
	c.name = writer_string(k->writer, name, strlen(name));
	if (sized) {
		memcpy(&c.grid_x, sizes, 6 * sizeof(uint32_t));
		c.missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
	}
	PRESENT(&c, kernel_config, registers, kineto_u32(k, KINETO_REGISTERS, &c.registers));
	/* Kineto adds static and dynamic memory up. */
	PRESENT(&c, kernel_config, dynamic_shared_bytes,
		kineto_u32(k, KINETO_SHARED, &c.dynamic_shared_bytes));
	if (k->event.has >> KINETO_KERNEL_DETAILS & 1)
		kineto_read_details(kineto_text(k, KINETO_KERNEL_DETAILS), &c);
	priority = kineto_text(k, KINETO_PRIORITY);
	c.priority = (int32_t)strtol(priority, NULL, 10);
	PRESENT(&c, kernel_config, priority, *priority);
	k->has_sizes |= sized;
	return writer_kernel_config(k->writer, &c);
}

/* Hardware counters that Pitot writes as further arguments of a kernel. */
static void add_metrics(struct kineto *k, uint64_t correlation)
{
	const struct kineto_event *v = &k->event;

	for (size_t i = 0; i < v->other_count && correlation; i++) {
		const char *name = v->text.data + v->others[i].key;
		double value = strtod(v->text.data + v->others[i].value, NULL);
		struct row_metric metric = { 0 };
		struct row_metric_value row = { .correlation = correlation };
		size_t known = k->metrics.count;

		if (!counter_is_hardware(name) || known >= KINETO_KINDS_MAX)
			continue;
		row.metric = metric.id =
			(uint32_t)map_number(&k->metrics, kineto_intern(k, name, strlen(name)));
		if (k->metrics.count > known) {
			metric.name = rows_text(k->writer, name);
			kineto_append(k, TABLE_metric, &metric);
		}
		memcpy(&row.value, &value, sizeof(value));
		kineto_append(k, TABLE_metric_value, &row);
	}
}

/* The columns that all GPU work has. */
#define WORK(row, table)                                                                           \
	do {                                                                                       \
		(row)->missing = schema_missing(TABLE_##table);                                    \
		(row)->start_ns = k->event.start_ns;                                               \
		(row)->end_ns = k->event.end_ns;                                                   \
		(row)->device = p.device;                                                          \
		(row)->context = p.context;                                                        \
		(row)->stream = p.stream;                                                          \
		(row)->correlation = correlation;                                                  \
		PRESENT(row, table, start_ns, 1);                                                  \
		PRESENT(row, table, end_ns, 1);                                                    \
		PRESENT(row, table, graph,                                                         \
			kineto_u32(k, KINETO_GRAPH, &(row)->graph) && (row)->graph);               \
		PRESENT(row, table, graph_node,                                                    \
			kineto_u64(k, KINETO_GRAPH_NODE, &(row)->graph_node) &&                    \
				(row)->graph_node);                                                \
		PRESENT(row, table, channel, kineto_u32(k, KINETO_CHANNEL, &(row)->channel));      \
		PRESENT(row, table, channel_type,                                                  \
			kineto_u32(k, KINETO_CHANNEL_TYPE, &type) && type <= 3);                   \
		(row)->channel_type = (uint8_t)type;                                               \
	} while (0)

static void add_kernel(struct kineto *k, struct place p, uint64_t correlation)
{
	struct row_kernel row = { 0 };
	uint32_t type = 0;

	WORK(&row, kernel);
	row.config = config_of(k, correlation);
	kineto_append(k, TABLE_kernel, &row);
	add_metrics(k, correlation);
	if (k->event.has >> KINETO_COLLECTIVE & 1 && correlation)
		kineto_keep_collective(k, correlation);
}

uint8_t kineto_copy_kind(const char *text)
{
	static const struct {
		const char *text;
		enum copy_kind kind;
	} spellings[] = {
		{ "HostToDevice", copy_kind_HtoD }, { "DeviceToHost", copy_kind_DtoH },
		{ "HtoD", copy_kind_HtoD },         { "DtoH", copy_kind_DtoH },
		{ "HtoA", copy_kind_HtoA },         { "AtoH", copy_kind_AtoH },
		{ "AtoA", copy_kind_AtoA },         { "AtoD", copy_kind_AtoD },
		{ "DtoA", copy_kind_DtoA },         { "DtoD", copy_kind_DtoD },
		{ "HtoH", copy_kind_HtoH },         { "PtoP", copy_kind_PtoP },
		{ "H2D", copy_kind_HtoD },          { "D2H", copy_kind_DtoH },
		{ "D2D", copy_kind_DtoD },          { "M2D", copy_kind_HtoD },
		{ "D2M", copy_kind_DtoH },          { "DeviceToDevice", copy_kind_DtoD }
	};

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		if (strstr(text, spellings[i].text))
			return (uint8_t)spellings[i].kind;
	return copy_kind_unknown;
}

/* Returns the kind of memory whose name begins the text: "Pinned -> …", "Device Static)". */
static uint8_t memory_kind(const char *text)
{
	static const struct {
		const char *name;
		enum memory_kind kind;
	} kinds[] = { { "Managed Static", memory_kind_managed_static },
		      { "Device Static", memory_kind_device_static },
		      { "Pageable", memory_kind_pageable },
		      { "Pinned", memory_kind_pinned },
		      { "Device", memory_kind_device },
		      { "Array", memory_kind_array },
		      { "Managed", memory_kind_managed } };

	for (size_t i = 0; text && i < ARRAY_SIZE(kinds); i++)
		if (starts_with(text, kinds[i].name))
			return (uint8_t)kinds[i].kind;
	return memory_kind_unknown;
}

/* "bytes", "[1024 bytes]" at the end of a name, or what the call says. */
static bool bytes_of(struct kineto *k, uint64_t correlation, uint64_t *bytes)
{
	const struct kineto_launch *launch = launch_of(k, correlation);
	const char *bracket = strrchr(kineto_text(k, KINETO_NAME), '[');
	char *end = NULL;
	uint64_t n = bracket ? strtoull(bracket + 1, &end, 10) : 0;

	if (kineto_u64(k, KINETO_BYTES, bytes))
		return true;
	if (bracket && !strcmp(end, " bytes]"))
		*bytes = n;
	else if (launch && launch->bytes != UINT64_MAX)
		*bytes = launch->bytes;
	else
		return false;
	return true;
}

static void add_memcpy(struct kineto *k, struct place p, uint64_t correlation)
{
	const char *name = kineto_text(k, KINETO_NAME), *from = strchr(name, '('),
		   *to = strstr(name, "-> ");
	struct row_memcpy row = { 0 };
	uint32_t type = 0;

	WORK(&row, memcpy);
	row.kind = kineto_copy_kind(name);
	if (!row.kind)
		row.kind = kineto_copy_kind(kineto_text(k, KINETO_KIND));
	row.source_kind = memory_kind(from ? from + 1 : NULL);
	row.destination_kind = memory_kind(to ? to + 3 : NULL);
	PRESENT(&row, memcpy, bytes, bytes_of(k, correlation, &row.bytes));
	PRESENT(&row, memcpy, source_device, kineto_u32(k, KINETO_FROM_DEVICE, &row.source_device));
	PRESENT(&row, memcpy, destination_device,
		kineto_u32(k, KINETO_TO_DEVICE, &row.destination_device));
	PRESENT(&row, memcpy, source_context,
		kineto_u32(k, KINETO_FROM_CONTEXT, &row.source_context));
	PRESENT(&row, memcpy, destination_context,
		kineto_u32(k, KINETO_TO_CONTEXT, &row.destination_context));
	kineto_append(k, TABLE_memcpy, &row);
}

static void add_memset(struct kineto *k, struct place p, uint64_t correlation)
{
	const char *memory = strchr(kineto_text(k, KINETO_NAME), '(');
	struct row_memset row = { 0 };
	uint32_t type = 0;

	WORK(&row, memset);
	row.memory_kind = memory_kind(memory ? memory + 1 : NULL);
	PRESENT(&row, memset, bytes, bytes_of(k, correlation, &row.bytes));
	kineto_append(k, TABLE_memset, &row);
}

/* Rows of the GPU of which the category says no more. */
enum table_id kineto_work_table(const char *name)
{
	if (strcasestr(name, "memcpy") || strcasestr(name, "MemoryCopy"))
		return TABLE_memcpy;
	return strcasestr(name, "memset") || strcasestr(name, "MemoryFill") ? TABLE_memset
									    : TABLE_kernel;
}

void kineto_add_work(struct kineto *k, enum table_id table)
{
	uint64_t correlation = kineto_correlation(k), external = 0;
	struct place p;

	if (!kineto_has_times(k, true))
		return;
	p = place_of(k);
	if (is_duplicate(k, &p, correlation))
		return;
	if (table == TABLE_kernel)
		add_kernel(k, p, correlation);
	else if (table == TABLE_memcpy)
		add_memcpy(k, p, correlation);
	else
		add_memset(k, p, correlation);
	kineto_u64(k, KINETO_EXTERNAL, &external);
	kineto_await_call(k, correlation, external, k->event.start_ns);
}

/* ---- synchronization ---- */

/* Kineto names the record of an event by its call's correlation id, which serves as its number. */
static void add_record(struct kineto *k, uint64_t correlation, uint32_t event, struct place p,
		       uint64_t time_ns)
{
	struct row_cuda_event row = { .correlation = correlation,
				      .event = event,
				      .context = p.context,
				      .stream = p.stream,
				      .device = p.device,
				      .event_record = correlation,
				      .time_ns = time_ns };

	ROW_MISSING_IF(&row, cuda_event, time_ns, !time_ns);
	if (map_add(&k->event_records, correlation) > 0)
		kineto_append(k, TABLE_cuda_event, &row);
}

void kineto_add_synchronization(struct kineto *k)
{
	struct row_synchronization row = { .start_ns = k->event.start_ns,
					   .end_ns = k->event.end_ns,
					   .missing = schema_missing(TABLE_synchronization) };
	const char *name = kineto_text(k, KINETO_NAME);
	struct place p, waited;

	if (!kineto_has_times(k, true))
		return;
	waited = p = place_of(k);
	for (uint8_t kind = 0; kind <= synchronization_kind_context; kind++)
		if (!strcmp(name, synchronization_name(kind)))
			row.kind = kind;
	row.correlation = kineto_correlation(k);
	row.context = p.context;
	row.stream = p.stream;
	PRESENT(&row, synchronization, start_ns, 1);
	PRESENT(&row, synchronization, end_ns, 1);
	PRESENT(&row, synchronization, stream,
		row.kind != synchronization_kind_context && p.stream != NO_STREAM);
	PRESENT(&row, synchronization, event, kineto_u32(k, KINETO_WAIT_EVENT, &row.event));
	PRESENT(&row, synchronization, event_record,
		kineto_u64(k, KINETO_WAIT_RECORD, &row.event_record));
	kineto_append(k, TABLE_synchronization, &row);
	if (row_has(&row, COLUMN_synchronization_event_record) &&
	    row_has(&row, COLUMN_synchronization_event) &&
	    kineto_u32(k, KINETO_WAIT_STREAM, &waited.stream))
		add_record(k, row.event_record, row.event, waited, 0);
}

void kineto_add_cuda_event(struct kineto *k)
{
	struct place p;
	uint32_t event;

	if (!kineto_has_times(k, false))
		return;
	p = place_of(k);
	if (kineto_u32(k, KINETO_EVENT, &event))
		add_record(k, kineto_correlation(k), event, p, k->event.start_ns);
	else
		kineto_count(k, KINETO_DAMAGED_COUNT);
}
