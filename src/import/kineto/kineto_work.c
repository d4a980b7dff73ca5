/* kineto_work.c: rows of what GPUs did, by declarations: which argument becomes which column. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/event_words.h"

#define NO_STREAM UINT32_MAX /* as CUPTI has it */
#define ROW_BYTES_MAX 256

struct place {
	uint32_t device, context, stream;
	uint64_t correlation;
};

uint64_t kineto_correlation(struct kineto *k)
{
	uint64_t id = 0;

	if (!kineto_u64(k, KINETO_CORRELATION, &id) && !kineto_u64(k, KINETO_CORRELATION_ID, &id))
		kineto_u64(k, KINETO_ARG_ID, &id);
	return id;
}

static struct place place_of(struct kineto *k)
{
	const char *pid = kineto_text(k, KINETO_PID);
	struct place p = { .stream = NO_STREAM, .correlation = kineto_correlation(k) };
	uint64_t number;

	if (!kineto_u32(k, KINETO_DEVICE, &p.device) &&
	    !kineto_u32(k, KINETO_IN_DEVICE, &p.device)) {
		if (map_get(&k->gpu_pids, hash_bytes(pid, strlen(pid)), &number))
			p.device = (uint32_t)number;
		else if (!kineto_u32(k, KINETO_PID, &p.device) || p.device > 63)
			p.device = 0, k->lacks_device = true;
	}
	if (!kineto_u32(k, KINETO_CONTEXT, &p.context) &&
	    !kineto_u32(k, KINETO_IN_CONTEXT, &p.context))
		k->lacks_context = true;
	kineto_u32(k, kineto_has(k, KINETO_STREAM) ? KINETO_STREAM : KINETO_TID, &p.stream);
	k->used_gpus |= p.device < KINETO_DEVICES ? UINT64_C(1) << p.device : 0;
	if (k->contexts.count < KINETO_KINDS_MAX && map_add(&k->contexts, p.context) > 0) {
		struct row_context row = { .missing = schema_missing(TABLE_context),
					   .id = p.context,
					   .device = p.device,
					   .time_ns = k->event.start_ns };

		kineto_append(k, TABLE_context, &row);
	}
	return p;
}

/* ---- rows by declarations ---- */

struct conversion {
	enum table_id to;
	const struct kineto_argument *arguments;
	size_t count;
	void (*finish)(struct kineto *k, const struct place *p, void *row);
};

/* Fills the columns that have roles: times, the place on the GPU, the correlation id. */
static void fill_roles(const struct kineto *k, const struct table_schema *t, const struct place *p,
		       void *row)
{
	const uint64_t values[COLUMN_ROLES] = {
		[ROLE_START] = k->event.start_ns, [ROLE_END] = k->event.end_ns,
		[ROLE_DEVICE] = p->device,        [ROLE_CONTEXT] = p->context,
		[ROLE_STREAM] = p->stream,        [ROLE_CORRELATION] = p->correlation
	};

	for (int role = ROLE_START; role <= ROLE_CORRELATION; role++)
		if (t->roles[role] >= 0)
			row_set(t, row, t->roles[role], values[role]);
}

/* Two profilers may report the same work. */
static bool is_duplicate(struct kineto *k, const struct place *p)
{
	const char *name = kineto_text(k, KINETO_NAME);
	uint64_t key[] = { k->event.start_ns, k->event.end_ns, p->correlation,
			   (uint64_t)p->device << 32 | p->stream, hash_bytes(name, strlen(name)) };
	int is_new = k->seen.count < KINETO_WORK_MAX
			     ? map_add(&k->seen, hash_bytes(key, sizeof(key)))
			     : 1;

	k->counts[KINETO_DUPLICATES_COUNT] += is_new == 0;
	return is_new == 0;
}

/* Returns false if the event becomes no row. */
static bool convert(struct kineto *k, const struct conversion *c, struct place *p)
{
	const struct table_schema *t = schema_table(c->to);
	_Alignas(8) uint8_t row[ROW_BYTES_MAX];

	if (!kineto_has_times(k, true))
		return false;
	*p = place_of(k);
	if (t->gpu_work && is_duplicate(k, p))
		return false;
	kineto_fill(k, c->to, c->arguments, c->count, row);
	fill_roles(k, t, p, row);
	c->finish(k, p, row);
	kineto_append(k, c->to, row);
	return true;
}

/* ---- work ---- */

#define ARGUMENT KINETO_ARGUMENT
#define WORK_ARGUMENTS(table)                                                                      \
	ARGUMENT(table, graph, GRAPH, true), ARGUMENT(table, graph_node, GRAPH_NODE, true),        \
		ARGUMENT(table, channel, CHANNEL, false),                                          \
		ARGUMENT(table, channel_type, CHANNEL_TYPE, false)

static const struct kineto_argument kernel_arguments[] = { WORK_ARGUMENTS(kernel) };
static const struct kineto_argument memset_arguments[] = { WORK_ARGUMENTS(memset) };
static const struct kineto_argument memcpy_arguments[] = {
	WORK_ARGUMENTS(memcpy),
	ARGUMENT(memcpy, source_device, FROM_DEVICE, false),
	ARGUMENT(memcpy, destination_device, TO_DEVICE, false),
	ARGUMENT(memcpy, source_context, FROM_CONTEXT, false),
	ARGUMENT(memcpy, destination_context, TO_CONTEXT, false),
};
static const struct kineto_argument config_arguments[] = {
	ARGUMENT(kernel_config, registers, REGISTERS, false),
	/* Kineto adds static and dynamic memory up. */
	ARGUMENT(kernel_config, dynamic_shared_bytes, SHARED, false),
	ARGUMENT(kernel_config, priority, PRIORITY, false),
};

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
	PRESENT(c, kernel_config, registers,
		registers && sscanf(registers, "regs:%u", &c->registers) == 1);
	PRESENT(c, kernel_config, static_shared_bytes,
		fixed && sscanf(fixed, "static_shared:%u", &c->static_shared_bytes) == 1);
	PRESENT(c, kernel_config, dynamic_shared_bytes,
		dynamic && sscanf(dynamic, "dynamic_shared:%u", &c->dynamic_shared_bytes) == 1);
}

/* Hardware counters that Pitot writes as further arguments of a kernel. */
static void add_metrics(struct kineto *k, uint64_t correlation)
{
	const struct kineto_event *v = &k->event;

	for (size_t i = 0; i < v->other_count && correlation; i++) {
		const char *name = v->text.data + v->others[i].key;
		struct row_metric metric = { 0 };
		struct row_metric_value row = { .correlation = correlation };
		size_t known = k->metrics.count;
		double value;

		if (!counter_is_hardware(name) || known >= KINETO_KINDS_MAX)
			continue;
		row.metric = metric.id =
			(uint32_t)map_number(&k->metrics, kineto_intern(k, name, strlen(name)));
		if (k->metrics.count > known) {
			metric.name = rows_text(k->writer, name);
			kineto_append(k, TABLE_metric, &metric);
		}
		value = strtod(v->text.data + v->others[i].value, NULL);
		memcpy(&row.value, &value, sizeof(value));
		kineto_append(k, TABLE_metric_value, &row);
	}
}

static void finish_kernel(struct kineto *k, const struct place *p, void *row)
{
	const struct kineto_launch *launch = launch_of(k, p->correlation);
	const uint32_t(*sizes)[3] = NULL;
	struct row_kernel_config c;

	kineto_fill(k, TABLE_kernel_config, config_arguments, ARRAY_SIZE(config_arguments), &c);
	if (kineto_has(k, KINETO_GRID) && kineto_has(k, KINETO_BLOCK))
		sizes = k->event.sizes;
	else if (launch && launch->sizes[1][0])
		sizes = launch->sizes;
	if (sizes) {
		memcpy(&c.grid_x, sizes, 6 * sizeof(uint32_t));
		c.missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
	}
	k->has_sizes |= sizes != NULL;
	kineto_read_details(kineto_text(k, KINETO_KERNEL_DETAILS), &c);
	c.name = rows_text(k->writer, kineto_text(k, KINETO_NAME));
	((struct row_kernel *)row)->config = writer_kernel_config(k->writer, &c);
	add_metrics(k, p->correlation);
	if (kineto_has(k, KINETO_COLLECTIVE) && p->correlation)
		kineto_keep_collective(k, p->correlation);
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

static void finish_memcpy(struct kineto *k, const struct place *p, void *row)
{
	struct row_memcpy *copy = row;

	memcpy_read_name(kineto_text(k, KINETO_NAME), &copy->kind, &copy->source_kind,
			 &copy->destination_kind);
	if (!copy->kind)
		copy->kind = copy_kind_in(kineto_text(k, KINETO_KIND));
	PRESENT(copy, memcpy, bytes, bytes_of(k, p->correlation, &copy->bytes));
}

static void finish_memset(struct kineto *k, const struct place *p, void *row)
{
	struct row_memset *set = row;

	set->memory_kind = memset_read_name(kineto_text(k, KINETO_NAME));
	PRESENT(set, memset, bytes, bytes_of(k, p->correlation, &set->bytes));
}

/* The table of a row of the GPU of which the category says no more. */
static enum table_id table_of(const char *name)
{
	if (strcasestr(name, "memcpy") || strcasestr(name, "MemoryCopy"))
		return TABLE_memcpy;
	return strcasestr(name, "memset") || strcasestr(name, "MemoryFill") ? TABLE_memset
									    : TABLE_kernel;
}

#define CONVERSION(table, arguments, finish)                                                       \
	{                                                                                          \
		TABLE_##table, arguments, ARRAY_SIZE(arguments), finish                            \
	}

void kineto_add_work(struct kineto *k, unsigned table)
{
	static const struct conversion conversions[] = {
		CONVERSION(kernel, kernel_arguments, finish_kernel),
		CONVERSION(memcpy, memcpy_arguments, finish_memcpy),
		CONVERSION(memset, memset_arguments, finish_memset),
	};
	const struct conversion *c = conversions;
	uint64_t external = 0;
	struct place p;

	table = table ? table : table_of(kineto_text(k, KINETO_NAME));
	while (c->to != table)
		c++;
	if (!convert(k, c, &p))
		return;
	kineto_u64(k, KINETO_EXTERNAL, &external);
	kineto_await_call(k, p.correlation, external, k->event.start_ns);
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

/* ---- synchronization ---- */

static const struct kineto_argument synchronization_arguments[] = {
	ARGUMENT(synchronization, event, WAIT_EVENT, false),
	ARGUMENT(synchronization, event_record, WAIT_RECORD, false),
};

/* Kineto names the record of an event by its call's correlation id, which serves as its number. */
static void add_record(struct kineto *k, const struct place *p, uint64_t correlation,
		       uint32_t event, uint64_t time_ns)
{
	struct row_cuda_event row = { .correlation = correlation,
				      .event = event,
				      .context = p->context,
				      .stream = p->stream,
				      .device = p->device,
				      .event_record = correlation,
				      .time_ns = time_ns };

	ROW_MISSING_IF(&row, cuda_event, time_ns, !time_ns);
	if (map_add(&k->event_records, correlation) > 0)
		kineto_append(k, TABLE_cuda_event, &row);
}

static void finish_synchronization(struct kineto *k, const struct place *p, void *row)
{
	struct row_synchronization *wait = row;
	struct place waited = *p;

	for (uint8_t kind = 0; kind <= synchronization_kind_context; kind++)
		if (!strcmp(kineto_text(k, KINETO_NAME), synchronization_name(kind)))
			wait->kind = kind;
	ROW_MISSING_IF(wait, synchronization, stream,
		       wait->kind == synchronization_kind_context || p->stream == NO_STREAM);
	if (row_has(wait, COLUMN_synchronization_event_record) &&
	    row_has(wait, COLUMN_synchronization_event) &&
	    kineto_u32(k, KINETO_WAIT_STREAM, &waited.stream))
		add_record(k, &waited, wait->event_record, wait->event, 0);
}

void kineto_add_synchronization(struct kineto *k, unsigned unused)
{
	static const struct conversion c =
		CONVERSION(synchronization, synchronization_arguments, finish_synchronization);
	struct place p;

	(void)unused;
	convert(k, &c, &p);
}

void kineto_add_cuda_event(struct kineto *k, unsigned unused)
{
	struct place p;
	uint32_t event;

	(void)unused;
	if (!kineto_has_times(k, false))
		return;
	p = place_of(k);
	if (kineto_u32(k, KINETO_EVENT, &event))
		add_record(k, &p, p.correlation, event, k->event.start_ns);
	else
		kineto_count(k, KINETO_DAMAGED_COUNT);
}
