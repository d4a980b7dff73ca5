/*
 * perfetto_counters.c: readings over time.
 *
 * A GPU counter's value covers the time before it in Perfetto, back to the one before ("backwards", the only way that all
 * readers know). Our readings hold from when they were taken, so each is written when the next one comes, and the last at
 * the end. Counters of the host are counters of their process, whose values hold from their time on.
 */
#include "export/perfetto/perfetto_writer.h"
#include "trace/columns.h"
#include "trace/counter_value.h"

#include <errno.h>

/* One counter of one GPU. */
struct reading {
	uint32_t gpu, counter; /* counter: position in names, from 1 */
	struct counter_value value;
};

/* A counter of a process. */
struct host_counter {
	uint64_t uuid;
	bool described; /* in this file */
};

struct perfetto_counters {
	struct map ids; /* string id of a name -> position in names, from 1 */
	VEC(uint32_t) rows; /* by position - 1: a row of table counter with that name */
	struct map reading_index; /* gpu << 32 | counter -> position in readings */
	VEC(struct reading) readings;
	VEC(struct host_counter) host; /* by row of table counter */
	struct map gpus; /* whose descriptors are in this file */
	struct perfetto_sequence sequence;
};

int perfetto_counters_init(struct perfetto *p)
{
	const struct trace *t = p->view.trace;
	uint64_t rows = trace_rows(t, TABLE_counter);
	const uint32_t *names = counter_columns(t)->name;
	struct perfetto_counters *c = calloc(1, sizeof(*c));

	p->counters = c;
	if (!c)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++) {
		struct host_counter host = { .uuid = hash_u64(p->tracks.uuid_seed + row) >> 1 | 1 };
		uint64_t *id = map_at(&c->ids, names[row], 0);

		if (!id || vec_push(&c->host, host) < 0)
			return -ENOMEM;
		if (*id)
			continue;
		if (vec_push(&c->rows, (uint32_t)row) < 0)
			return -ENOMEM;
		*id = c->rows.count;
	}
	return 0;
}

void perfetto_counters_release(struct perfetto *p)
{
	struct perfetto_counters *c = p->counters;

	if (!c)
		return;
	map_release(&c->ids);
	map_release(&c->reading_index);
	map_release(&c->gpus);
	vec_release(&c->rows);
	vec_release(&c->readings);
	vec_release(&c->host);
	free(c);
	p->counters = NULL;
}

void perfetto_counters_restart(struct perfetto *p)
{
	struct perfetto_counters *c = p->counters;

	c->sequence = (struct perfetto_sequence){ .id = SEQUENCE_COUNTER };
	map_clear(&c->gpus);
	for (size_t i = 0; i < c->host.count; i++)
		c->host.data[i].described = false;
}

static int measure_unit(const char *unit)
{
	static const struct {
		const char *name;
		int unit;
	} units[] = {
		{ "bytes", 7 }, { "KiB", 8 }, { "Hz", 13 }, { "kHz", 14 },
		{ "MHz", 15 },  { "ns", 19 }, { "us", 20 }, { "ms", 21 },
		{ "s", 22 },    { "mW", 28 }, { "W", 29 },  { "J", 31 },
		{ "V", 32 },    { "A", 33 },  { "C", 34 },  { "%", 37 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(unit, units[i].name))
			return units[i].unit;
	return 0;
}

static void counter_specification(struct perfetto *p, uint32_t id)
{
	const struct export_view *v = &p->view;
	struct strbuf *s = &p->out;
	uint64_t row = p->counters->rows.data[id - 1];
	size_t token, length;
	const char *text = export_text(v, TABLE_counter, COLUMN_counter_name, row, &length);
	int unit;

	token = proto_open(s, 1);
	proto_uint(s, 1, id);
	proto_text(s, 2, text, length);
	text = export_text(v, TABLE_counter, COLUMN_counter_description, row, &length);
	proto_text(s, 3, text, length);
	unit = measure_unit(export_text(v, TABLE_counter, COLUMN_counter_unit, row, &length));
	if (unit)
		proto_uint(s, 7, (uint64_t)unit);
	proto_uint(s, 10, 1); /* group SYSTEM */
	proto_close(s, token);
}

/* Descriptor of all counters for a GPU, whose iid is gpu + 1. */
static void define_counters(struct perfetto *p, uint32_t gpu)
{
	struct strbuf *s = &p->out;
	size_t interned = proto_open(s, PACKET_INTERNED_DATA), entry = proto_open(s, 47),
	       descriptor;

	proto_uint(s, 1, gpu + 1);
	descriptor = proto_open(s, 2);
	for (uint32_t id = 1; id <= p->counters->rows.count; id++)
		counter_specification(p, id);
	proto_close(s, descriptor);
	proto_uint(s, 3, gpu);
	proto_close(s, entry);
	proto_close(s, interned);
}

static void write_value(struct strbuf *s, uint32_t integer_field, uint32_t double_field,
			const struct counter_value *value)
{
	if (value->is_real || value->decimals)
		proto_double(s, double_field, counter_value_double(value));
	else
		proto_int(s, integer_field, value->integer);
}

static int write_reading(struct perfetto *p, const struct reading *r, uint64_t time_ns)
{
	struct strbuf *s = &p->out;
	size_t packet, event, counter, defaults;
	int is_new = map_add(&p->counters->gpus, r->gpu);

	if (is_new < 0)
		return is_new;
	packet = perfetto_sequence_open(s, &p->counters->sequence, time_ns, &defaults);
	if (defaults)
		proto_close(s, defaults);
	if (is_new)
		define_counters(p, r->gpu);
	event = proto_open(s, PACKET_GPU_COUNTER_EVENT);
	proto_uint(s, 4, r->gpu + 1);
	counter = proto_open(s, 2);
	proto_uint(s, 1, r->counter);
	write_value(s, 2, 3, &r->value);
	proto_close(s, counter);
	proto_close(s, event);
	proto_close(s, packet);
	return 0;
}

static int gpu_sample(struct perfetto *p, const struct reading *now, uint64_t time_ns)
{
	struct perfetto_counters *c = p->counters;
	uint64_t *position =
		map_at(&c->reading_index, (uint64_t)now->gpu << 32 | now->counter, UINT64_MAX);
	struct reading anchor = *now;
	int r;

	if (!position)
		return -ENOMEM;
	if (*position == UINT64_MAX) {
		anchor.value = (struct counter_value){ .decimals = now->value.decimals };
		if (vec_push(&c->readings, *now) < 0)
			return -ENOMEM;
		*position = c->readings.count - 1;
		return write_reading(p, &anchor, time_ns);
	}
	r = write_reading(p, &c->readings.data[*position], time_ns);
	c->readings.data[*position] = *now;
	return r;
}

static void describe_host_counter(struct perfetto *p, uint32_t row, uint32_t process)
{
	struct host_counter *host = &p->counters->host.data[row];
	struct perfetto_track_descriptor d = {
		.uuid = host->uuid,
		.parent_uuid = p->tracks.process_uuids[process],
		.pid = -1,
		.tid = -1,
	};
	size_t length;

	if (host->described)
		return;
	host->described = true;
	perfetto_describe_process(p, process);
	d.name = export_text(&p->view, TABLE_counter, COLUMN_counter_name, row, &d.name_length);
	d.counter_unit = export_text(&p->view, TABLE_counter, COLUMN_counter_unit, row, &length);
	perfetto_track_descriptor(&p->out, SEQUENCE_GLOBAL, &d);
}

static void host_sample(struct perfetto *p, const struct export_event *e, uint32_t row,
			const struct counter_value *value)
{
	struct strbuf *s = &p->out;
	struct perfetto_packet head = { e->start_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	size_t packet, event;

	describe_host_counter(p, row, e->process);
	packet = perfetto_packet_open(s, &head);
	event = proto_open(s, PACKET_TRACK_EVENT);
	proto_uint(s, 9, 4);
	proto_uint(s, 11, p->counters->host.data[row].uuid);
	write_value(s, 30, 44, value);
	proto_close(s, event);
	proto_close(s, packet);
}

int perfetto_counter_sample(void *exporter, const struct export_event *e)
{
	struct perfetto *p = exporter;
	const struct trace *t = p->view.trace;
	const struct counter_sample_columns *c = counter_sample_columns(t);
	uint32_t row = c->counter[e->row], device;
	struct reading now = { .value = counter_value(t, e->row) };
	uint64_t id = 0;

	if (row == TRACE_NO_ROW)
		return EXPORT_UNCOUNTED;
	if (!column_has(c->valid.device, e->row)) {
		host_sample(p, e, row, &now.value);
		return 0;
	}
	map_get(&p->counters->ids, counter_columns(t)->name[row], &id);
	now.counter = (uint32_t)id;
	device = c->device[e->row];
	now.gpu = (uint32_t)gpus_find(&p->view.gpus, e->process, device);
	return gpu_sample(p, &now, e->start_ns);
}

int perfetto_counters_finish(struct perfetto *p, uint64_t time_ns)
{
	struct perfetto_counters *c = p->counters;
	int r = 0;

	for (size_t i = 0; i < c->readings.count && r >= 0; i++)
		r = write_reading(p, &c->readings.data[i], time_ns);
	c->readings.count = 0;
	map_clear(&c->reading_index);
	return r;
}
