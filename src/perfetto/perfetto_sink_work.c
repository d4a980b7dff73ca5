/* perfetto_sink_work.c: GPU work and counter readings, row by row. */
#include <errno.h>
#include <unistd.h>

#include "names/demangle.h"
#include "perfetto/perfetto_sink_state.h"
#include "schema/event_words.h"

/* Reads the column with a role; returns false if the table has none or the row has no value. */
static bool read_role(const struct table_schema *table, const void *row, enum column_role role,
		      uint64_t *value)
{
	*value = row_value(table, row, table->roles[role]);
	return row_has(row, table->roles[role]);
}

const struct row_device *live_device(const struct perfetto_live *p, uint32_t gpu,
				     struct row_device *row)
{
	const struct row_device *d = NULL;

	if (p->export)
		return p->export->device(p->export->user, gpu, row) ? row : NULL;
	for (uint32_t i = 0; i < p->devices && !d; i++)
		if (p->gpu_numbers[i] == gpu)
			d = definitions_row(&p->definitions, TABLE_device, i);
	return d;
}

static void describe_gpu(struct perfetto_live *p, uint32_t number)
{
	const struct row_device *d = live_device(p, number, NULL);
	struct perfetto_gpu gpu;

	if (!d) {
		perfetto_gpu_info_add(p->out, NULL);
		return;
	}
	gpu = (struct perfetto_gpu){ .name = live_text(p, d->name),
				     .uuid = live_text(p, d->uuid),
				     .pci = live_text(p, d->pci),
				     .device = d };
	strbuf_clear(&p->text);
	strbuf_adds(&p->text, gpu.name);
	if (p->gpus > 1)
		strbuf_addf(&p->text, " #%u", number);
	gpu.display_name = strbuf_text(&p->text);
	perfetto_gpu_info_add(p->out, &gpu);
}

static void describe_gpus(struct perfetto_live *p)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC,
					p->sequence + LIVE_SEQUENCE_GLOBAL, 0 };
	size_t packet, info;

	if (p->export || p->gpus_described || !p->devices)
		return;
	p->gpus_described = true;
	packet = perfetto_gpu_info_open(p->out, &head, &info);
	for (uint32_t i = 0; i < p->gpus; i++)
		describe_gpu(p, i);
	proto_close(p->out, info);
	proto_close(p->out, packet);
}

/* --- classes of work --- */

static uint64_t other_stage(const struct table_schema *table, const void *row)
{
	const struct row_memcpy *copy = row;
	const struct row_memset *set = row;
	uint64_t label;

	switch (table->id) {
	case TABLE_kernel:
		return STAGE_UNKNOWN_KERNEL;
	case TABLE_memcpy:
		return perfetto_copy_stage(copy->kind, copy->source_kind, copy->destination_kind);
	case TABLE_memset:
		return STAGE_MEMSETS + set->memory_kind;
	case TABLE_graph_launch:
		return STAGE_GRAPH;
	case TABLE_cuda_event:
		return STAGE_EVENT;
	default:
		read_role(table, row, ROLE_LABEL, &label);
		return STAGE_LABELS + ((uint64_t)table->id << 32 | label);
	}
}

static const struct row_kernel_config *config_of(const struct perfetto_live *p,
						 const struct table_schema *table, const void *row)
{
	if (table->id != TABLE_kernel)
		return NULL;
	return definitions_row(&p->definitions, TABLE_kernel_config,
			       ((const struct row_kernel *)row)->config);
}

static void stage_name(struct perfetto_live *p, const struct table_schema *table, const void *row)
{
	const struct row_memcpy *copy = row;
	const struct row_memset *set = row;
	int column = table->roles[ROLE_LABEL];
	const char *name = NULL;
	uint64_t label;

	switch (table->id) {
	case TABLE_cuda_event:
		strbuf_adds(&p->text, "Event record");
		return;
	case TABLE_kernel:
		strbuf_adds(&p->text, "(unknown kernel)");
		return;
	case TABLE_memcpy:
		memcpy_name(&p->text, copy->kind, copy->source_kind, copy->destination_kind);
		return;
	case TABLE_memset:
		memset_name(&p->text, set->memory_kind);
		return;
	case TABLE_graph_launch:
		strbuf_adds(&p->text, "CUDA graph");
		return;
	default:
		if (p->export) {
			p->export->text(p->export->user, PERFETTO_TEXT_LABEL, 0, 0, &p->text);
			return;
		}
		if (read_role(table, row, ROLE_LABEL, &label))
			name = table->columns[column].type == COLUMN_TYPE_STRING
				       ? live_text(p, (uint32_t)label)
				       : schema_value_name(&table->columns[column], label);
		strbuf_adds(&p->text, name ? name : table->name);
	}
}

static void kernel_name(struct perfetto_live *p, const char *name, uint64_t class)
{
	const char *mangled = kernel_name_mangled(name);
	size_t from = p->text.length;

	strbuf_clear(&p->demangled);
	demangle(mangled, &p->demangled);
	kernel_name_shorten(mangled, strbuf_text(&p->demangled), &p->text);
	if (perfetto_works_reserve_name(&p->works, class, strbuf_text(&p->text) + from,
					p->text.length - from))
		return;
	p->text.length = from;
	strbuf_adds(&p->text, strbuf_text(&p->demangled));
}

/* Opens the first packet of a queue or class, which defines it. */
static void open_described(struct perfetto_live *p, const struct table_schema *table,
			   const void *row, uint32_t device, const struct perfetto_work *work,
			   struct open_work *open)
{
	const struct gpu_queue *queue = &p->works.queues.data[work->queue];
	const struct row_kernel_config *config = config_of(p, table, row);
	struct perfetto_work_texts texts = { .pid = p->pid };
	struct bytes_value name = { "", 0 };
	size_t stage;

	strbuf_clear(&p->text);
	if (p->export)
		p->export->text(p->export->user, PERFETTO_TEXT_QUEUE, queue->context, queue->stream,
				&p->text);
	else
		strbuf_addf(&p->text, "%s %u Stream %u", live_process_name(p), p->pid,
			    queue->stream);
	strbuf_addc(&p->text, '\0');
	stage = p->text.length;
	if (config) {
		name = definitions_text(&p->definitions, config->name);
		kernel_name(p, name.data, work->class);
	} else {
		stage_name(p, table, row);
	}
	texts.queue = strbuf_text(&p->text);
	texts.stage = texts.queue + stage;
	texts.stage_length = p->text.length - stage;
	texts.kernel = (struct perfetto_kernel){
		.name = name.data,
		.name_length = name.length,
		.demangled = strbuf_text(&p->demangled),
		.demangled_length = p->demangled.length,
		.config = config,
		.device = definitions_row(&p->definitions, TABLE_device, device),
		.pid = p->pid,
		.process = live_process_name(p),
	};
	perfetto_work_open(&p->works, p->out, work, &texts, open);
}

static void work_arguments(struct perfetto_live *p, const struct table_schema *table,
			   const void *row)
{
	uint64_t value;

	if (read_role(table, row, ROLE_CORRELATION, &value))
		perfetto_argument_unsigned(p->out, IN_LAUNCH, ARG_CORRELATION, value);
	if (read_role(table, row, ROLE_GRAPH, &value))
		perfetto_argument_unsigned(p->out, IN_LAUNCH, ARG_GRAPH, value);
	if (read_role(table, row, ROLE_GRAPH_NODE, &value))
		perfetto_argument_unsigned(p->out, IN_LAUNCH, ARG_GRAPH_NODE, value);
	for (uint64_t left = table->shown & ~load_u64(row); left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		perfetto_argument_unsigned(p->out, IN_LAUNCH,
					   perfetto_argument_iid(table->id, column),
					   row_value(table, row, column));
	}
	if (p->export && p->export->waited_for)
		perfetto_argument_unsigned(p->out, IN_LAUNCH, ARG_WAITED, p->export->waited_ns);
}

static uint64_t event_id(const struct perfetto_live *p, const struct table_schema *table,
			 const void *row)
{
	uint64_t correlation, node, start_ns;
	bool has_call;

	if (p->export)
		return p->export->event_id;
	has_call = read_role(table, row, ROLE_CORRELATION, &correlation);
	if (!read_role(table, row, ROLE_GRAPH_NODE, &node) && has_call &&
	    table->id != TABLE_cuda_event)
		return live_event_id(p, correlation);
	if (table->id == TABLE_cuda_event)
		node = ((const struct row_cuda_event *)row)->event;
	read_role(table, row, ROLE_START, &start_ns);
	return live_node_id(p, correlation, node, start_ns);
}

static int add_launch_node(struct perfetto_live *p, const struct table_schema *table,
			   const void *row)
{
	uint64_t node, correlation, start_ns;

	if (!read_role(table, row, ROLE_GRAPH_NODE, &node) ||
	    !read_role(table, row, ROLE_START, &start_ns) ||
	    !read_role(table, row, ROLE_CORRELATION, &correlation))
		return 0;
	return live_node(p, correlation, event_id(p, table, row));
}

/* Fills in where work was, and returns the device's ordinal. */
static uint32_t read_place(const struct perfetto_live *p, const struct table_schema *table,
			   const void *row, struct gpu_queue *queue)
{
	const struct row_cuda_event *event = row;
	const struct row_context *of;
	uint64_t device = 0, context, stream;

	if (table->id == TABLE_cuda_event) {
		of = definitions_row(&p->definitions, TABLE_context, event->context);
		device = of ? of->device : 0;
		context = event->context;
		stream = event->stream;
	} else {
		read_role(table, row, ROLE_DEVICE, &device);
		read_role(table, row, ROLE_CONTEXT, &context);
		read_role(table, row, ROLE_STREAM, &stream);
	}
	queue->gpu = live_gpu(p, device);
	queue->context = (uint32_t)context;
	queue->stream = (uint32_t)stream;
	return (uint32_t)device;
}

/* Writes the packet of some work, with its metrics as arguments. */
static int write_work(struct perfetto_live *p, const struct table_schema *table, const void *row,
		      struct perfetto_work *work, const struct perfetto_metric *metrics,
		      size_t count)
{
	const struct row_kernel_config *config = config_of(p, table, row);
	struct gpu_queue queue = { 0 };
	struct open_work open;
	uint32_t device = read_place(p, table, row, &queue);

	work->event_id = event_id(p, table, row);
	work->waited_for = p->export ? p->export->waited_for : 0;
	work->queue = perfetto_works_queue(&p->works, &queue, device);
	work->class = config ? perfetto_works_kernel(&p->works, (uint64_t)device << 32 | config->id,
						     config)
			     : perfetto_works_class(&p->works, other_stage(table, row));
	if (work->queue == UINT64_MAX || work->class == UINT64_MAX)
		return -ENOMEM;
	if (likely(perfetto_works_defined(&p->works, work->queue, work->class)))
		perfetto_work_open(&p->works, p->out, work, NULL, &open);
	else
		open_described(p, table, row, device, work, &open);
	work_arguments(p, table, row);
	for (size_t i = 0; i < count; i++)
		perfetto_argument_named(p->out, IN_LAUNCH, live_metric_name(p, metrics[i].number),
					metrics[i].value);
	perfetto_work_close(p->out, &open);
	return 0;
}

static int write_with_metrics(struct perfetto_live *p, const struct table_schema *table,
			      const void *row, unsigned rows)
{
	const struct perfetto_metric *metrics = NULL;
	uint64_t times_ns[2], correlation, device;
	struct perfetto_work work;
	size_t count = 0;

	if (!read_role(table, row, ROLE_START, &times_ns[0]) ||
	    !read_role(table, row, ROLE_END, &times_ns[1]) || times_ns[1] < times_ns[0])
		return 0; /* a row of table loss counts it */
	p->time_ns = times_ns[1];
	live_describe_process(p);
	describe_gpus(p);
	if (rows & LIVE_MEASURED && table->id == TABLE_kernel &&
	    read_role(table, row, ROLE_CORRELATION, &correlation))
		metrics = live_metrics_remove(p, correlation, &count);
	work.start_ns = times_ns[0];
	work.duration_ns = times_ns[1] - times_ns[0];
	if (rows & PERFETTO_WORK && write_work(p, table, row, &work, metrics, count) < 0)
		return -ENOMEM;
	if (!(rows & PERFETTO_METRICS) || !count)
		return 0;
	read_role(table, row, ROLE_DEVICE, &device);
	return perfetto_metrics_add(&p->metrics, &p->readings.sequence, p->out, live_gpu(p, device),
				    times_ns, metrics, count);
}

int live_cuda_event(struct perfetto_live *p, const struct row_cuda_event *row)
{
	struct perfetto_work work = { .start_ns = row->time_ns, .duration_ns = PERFETTO_NO_TIME };

	if (row->missing >> COLUMN_cuda_event_time_ns & 1)
		return 0;
	p->time_ns = row->time_ns;
	live_describe_process(p);
	describe_gpus(p);
	return write_work(p, schema_table(TABLE_cuda_event), row, &work, NULL, 0);
}

/* If metrics are enabled, a kernel waits for its values, which may arrive after it. */
int live_work(struct perfetto_live *p, const struct table_schema *table, const void *row,
	      unsigned rows)
{
	if (!p->export && rows & PERFETTO_CALLS && add_launch_node(p, table, row) < 0)
		return -ENOMEM;
	if (!(rows & (PERFETTO_WORK | PERFETTO_METRICS)))
		return 0;
	if (p->export || !(rows & LIVE_MEASURED) || table->id != TABLE_kernel ||
	    p->pending_kernels.count == LIVE_PENDING_KERNELS)
		return write_with_metrics(p, table, row, rows);
	return vec_push(&p->pending_kernels, *(const struct row_kernel *)row);
}

static bool has_values(const struct perfetto_live *p, uint64_t correlation)
{
	uint64_t index;

	return map_get(&p->value_index, correlation, &index) && index;
}

void live_pending_kernels_flush(struct perfetto_live *p, bool all)
{
	unsigned rows = atomic_load_explicit(p->options.rows, memory_order_relaxed);
	const struct table_schema *table = schema_table(TABLE_kernel);
	size_t kept = 0;

	for (size_t i = 0; i < p->pending_kernels.count; i++) {
		const struct row_kernel *row = &p->pending_kernels.data[i];

		if (!all && i >= p->pending_before_seal && !has_values(p, row->correlation)) {
			p->pending_kernels.data[kept++] = *row;
			continue;
		}
		raw_reserve(p->out, 0);
		if (write_with_metrics(p, table, row, rows) < 0)
			live_discard(p);
		else
			live_emit(p);
	}
	p->pending_kernels.count = p->pending_before_seal = kept;
}

/* --- counters --- */

static struct perfetto_counter describe_counter(const struct perfetto_live *p, uint32_t id)
{
	const struct row_counter *c = definitions_row(&p->definitions, TABLE_counter, id);

	return (struct perfetto_counter){ .name = c ? live_text(p, c->name) : "",
					  .description = c ? live_text(p, c->description) : "",
					  .unit = c ? live_text(p, c->unit) : "" };
}

void live_specify_counters(void *user, uint32_t gpu, struct strbuf *s)
{
	const struct perfetto_live *p = user;
	struct row_device device;

	for (size_t i = 0; i < p->counters.count; i++) {
		struct perfetto_counter counter = describe_counter(p, p->counters.data[i]);

		counter.number = (uint32_t)i + 1;
		counter.device = live_device(p, gpu, &device);
		perfetto_counter_specify(s, &counter, PERFETTO_GROUP_SYSTEM);
	}
}

static struct perfetto_value value_of(const struct row_counter *c, int64_t reading)
{
	struct perfetto_value v = { .integer = reading, .real = (double)reading };

	v.is_real = c->decimals != 0;
	for (uint32_t i = 0; i < MIN(c->decimals, 18u); i++)
		v.real /= 10;
	if (!(c->missing >> COLUMN_counter_reading & 1) && c->reading == counter_reading_real) {
		v.is_real = true;
		memcpy(&v.real, &reading, sizeof(v.real));
	}
	return v;
}

/* A new counter changes the iids of the descriptors, which are written again. */
static int counter_number(struct perfetto_live *p, uint32_t id, uint32_t name, uint32_t *number)
{
	uint64_t *known = map_at(&p->counter_numbers, name, 0);

	if (!known)
		return -ENOMEM;
	if (!*known) {
		if (vec_push(&p->counters, id) < 0)
			return -ENOMEM;
		*known = p->counters.count;
		p->readings.generation++;
	}
	*number = (uint32_t)*known;
	return 0;
}

static int host_sample(struct perfetto_live *p, const struct row_counter_sample *row,
		       const struct perfetto_value *value)
{
	struct perfetto_packet head = { row->time_ns, PERFETTO_MONOTONIC,
					p->sequence + LIVE_SEQUENCE_GLOBAL, 0 };
	struct perfetto_counter counter = describe_counter(p, row->counter);
	struct perfetto_track_descriptor d = {
		.uuid = live_uuid(p, LIVE_UUID_COUNTER, row->counter),
		.parent_uuid = live_uuid(p, LIVE_UUID_PROCESS, 0),
		.pid = -1,
		.tid = -1,
		.name = counter.name,
		.name_length = strlen(counter.name),
		.counter_unit = counter.unit,
	};
	int is_new = map_add(&p->host_counters, row->counter);

	if (is_new < 0)
		return is_new;
	if (is_new)
		perfetto_track_descriptor(p->out, p->sequence + LIVE_SEQUENCE_GLOBAL, &d);
	perfetto_counter_event(p->out, &head, d.uuid, value);
	return 0;
}

int live_counter_sample(struct perfetto_live *p, const struct row_counter_sample *row)
{
	const struct row_counter *c = definitions_row(&p->definitions, TABLE_counter, row->counter);
	struct perfetto_reading now = { .gpu = live_gpu(p, row->device) };

	if (!c)
		return 0;
	p->time_ns = row->time_ns;
	live_describe_process(p);
	describe_gpus(p);
	now.value = value_of(c, row->value);
	if (row->missing >> COLUMN_counter_sample_device & 1)
		return host_sample(p, row, &now.value);
	if (counter_number(p, row->counter, c->name, &now.counter) < 0)
		return -ENOMEM;
	perfetto_gpu_reading(&p->readings, p->out, live_text(p, c->name), &now, row->time_ns);
	return perfetto_readings_add(&p->readings, p->out, &now, row->time_ns);
}
