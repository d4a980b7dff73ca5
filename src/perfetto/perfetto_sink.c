/*
 * perfetto_sink.c: converts rows to packets immediately, on the writer's thread. A packet begins
 * with its time and its sequence. perfetto_packets.h writes the sequence for files; here the
 * connection assigns it, so it is removed.
 */
#include "perfetto/perfetto_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "format/writer.h"
#include "perfetto/perfetto_sink_state.h"

#define BIT(table) (UINT64_C(1) << TABLE_##table)
#define DEFINITIONS                                                                                \
	(BIT(process) | BIT(thread) | BIT(device) | BIT(kernel_config) | BIT(api_function) |       \
	 BIT(nvtx_domain) | BIT(counter) | BIT(metric) | BIT(context))
#define DEFINITIONS_OF_STACKS (BIT(stack) | BIT(stack_node))

static struct perfetto_live *live_of(struct sink *s)
{
	return (struct perfetto_live *)s;
}

const char *live_text(const struct perfetto_live *p, uint32_t id)
{
	return definitions_text(&p->definitions, id).data;
}

const struct row_process *live_process(const struct perfetto_live *p)
{
	static const struct row_process unknown;
	const struct row_process *row = definitions_row(&p->definitions, TABLE_process, p->pid);

	return row ? row : &unknown;
}

const char *live_process_name(const struct perfetto_live *p)
{
	return p->export ? p->options.name : base_name(live_text(p, live_process(p)->executable));
}

static struct perfetto_track_descriptor process_track(const struct perfetto_live *p)
{
	const struct row_process *process = live_process(p);
	struct perfetto_track_descriptor d = {
		.uuid = live_uuid(p, LIVE_UUID_PROCESS, 0),
		.name = p->export ? p->options.title : live_process_name(p),
		.pid = process->pid,
		.tid = -1,
		.command = live_text(p, process->command),
	};

	d.name_length = strlen(d.name);
	return d;
}

void live_process_descriptor(struct perfetto_live *p, uint32_t sequence)
{
	struct perfetto_track_descriptor d = process_track(p);

	perfetto_track_descriptor(p->out, sequence, &d);
}

void live_describe_process(struct perfetto_live *p)
{
	const struct row_process *process = live_process(p);
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC,
					p->sequence + LIVE_SEQUENCE_GLOBAL, 0 };
	struct perfetto_track_descriptor d = process_track(p);

	if (p->process_described || !process->pid)
		return;
	p->process_described = true;
	perfetto_track_descriptor(p->out, p->sequence + LIVE_SEQUENCE_GLOBAL, &d);
	perfetto_process_tree(p->out, &head, &d, process->parent_pid);
}

/* --- packets --- */

/*
 * Removes the sequence field by moving the shorter fields before it up to its end. Returns the new
 * beginning of the packet.
 */
static const uint8_t *cut_sequence(uint8_t *packet, size_t length, uint32_t *sequence)
{
	struct cursor c = cursor_of(packet, length);

	*sequence = 0;
	while (cursor_left(&c)) {
		uint8_t *field = packet + (length - cursor_left(&c));
		uint64_t tag = cursor_varint(&c), value = cursor_varint(&c);

		if (tag >> 3 != 10)
			continue;
		*sequence = (uint32_t)value;
		memmove(packet + (c.p - field), packet, (size_t)(field - packet));
		return packet + (c.p - field);
	}
	return packet;
}

static void restart(struct perfetto_live *p)
{
	p->process_described = p->gpus_described = false;
	perfetto_works_restart(&p->works, p->sequence + LIVE_SEQUENCE_GPU);
	perfetto_readings_restart(&p->readings, p->sequence + LIVE_SEQUENCE_COUNTERS);
	map_clear(&p->metrics.gpus);
	map_clear(&p->host_counters);
	for (size_t i = 0; i < p->tracks.count; i++) {
		perfetto_slices_restart(&p->tracks.data[i]->slices);
		perfetto_defined_clear(&p->tracks.data[i]->defined);
		p->tracks.data[i]->described = 0;
	}
}

void live_discard(struct perfetto_live *p)
{
	p->lost++;
	p->out->failed = p->text.failed = p->demangled.failed = false;
	p->out->length = 0;
	restart(p);
}

/* After a rejected packet the rest is dropped: it may need what that packet defines. */
static bool emit(struct perfetto_live *p, bool is_end)
{
	struct cursor c = cursor_of(p->out->data, p->out->length);
	uint64_t dropped = 0;

	/* A failed buffer begins in the middle of a packet (raw_buffer.h). */
	if (unlikely(p->out->failed || p->text.failed || p->demangled.failed)) {
		live_discard(p);
		return false;
	}
	if (p->export)
		return true;
	while (cursor_left(&c)) {
		uint64_t tag = cursor_varint(&c), length = cursor_varint(&c);
		const uint8_t *packet = cursor_bytes(&c, length), *rest;
		uint32_t sequence;

		(void)tag;
		if (!packet)
			break;
		rest = cut_sequence((uint8_t *)p->out->data + (packet - (uint8_t *)p->out->data),
				    length, &sequence);
		if (dropped || !p->options.write(p->options.user, sequence, rest,
						 length - (size_t)(rest - packet), is_end))
			dropped++;
	}
	p->out->length = 0;
	p->dropped += dropped;
	if (dropped)
		restart(p);
	return !dropped;
}

bool live_emit(struct perfetto_live *p)
{
	return emit(p, false);
}

void live_end_slice(struct perfetto_live *p, const struct live_track *track, size_t lane,
		    uint64_t time_ns)
{
	perfetto_slice_end(&track->slices, p->out, lane, time_ns);
	emit(p, true);
}

/* --- the operations --- */

static void number_gpu(struct perfetto_live *p, const struct row_device *row)
{
	const struct perfetto_sink_options *o = &p->options;
	int number = -1;

	if (row->id >= LIVE_DEVICES)
		return;
	if (o->gpu_number)
		number = o->gpu_number(o->user, live_text(p, row->pci));
	if (number >= 0 && number < (int)LIVE_DEVICES)
		p->gpu_numbers[row->id] = (uint32_t)number;
	p->devices = MAX(p->devices, row->id + 1);
	p->gpus = MAX(p->gpus, p->gpu_numbers[row->id] + 1);
	p->gpus_described = false;
	p->readings.generation++; /* the device has the peaks of its counters */
	p->metrics.generation++;
}

static void add_definition(struct perfetto_live *p, enum table_id table, const void *row)
{
	if (table == TABLE_process &&
	    ((const struct row_process *)row)->source == process_source_inside)
		p->pid = ((const struct row_process *)row)->pid;
	if (table == TABLE_device)
		number_gpu(p, row);
	/* A live trace specifies only metrics with values: others may be of a session before. */
	if (table == TABLE_metric && p->export &&
	    !live_metric_number(p, ((const struct row_metric *)row)->id))
		p->lost++;
}

static int write_row(struct perfetto_live *p, enum table_id table, const void *row)
{
	const struct table_schema *schema = schema_table(table);
	unsigned rows = atomic_load_explicit(p->options.rows, memory_order_relaxed);

	if (schema->gpu_work)
		return live_work(p, schema, row, rows);
	if (table == TABLE_metric_value && rows & LIVE_MEASURED)
		return live_metric_value(p, row);
	if (table == TABLE_range_value && rows & PERFETTO_RANGE_METRICS)
		return live_range_value(p, row);
	if (table == TABLE_api_call && rows & PERFETTO_CALLS)
		return live_call(p, row);
	if (table == TABLE_cpu_sample && rows & PERFETTO_SAMPLES)
		return live_sample(p, row);
	if (table == TABLE_off_cpu && rows & PERFETTO_SAMPLES)
		return live_off_cpu(p, row);
	if (table == TABLE_cuda_event && rows & PERFETTO_WORK)
		return live_cuda_event(p, row);
	if (table == TABLE_allocation && rows & PERFETTO_CALLS)
		return live_allocation(p, row);
	if (table == TABLE_synchronization && p->export)
		return live_sync(p, row);
	if (table == TABLE_overhead && p->export)
		return live_overhead(p, row);
	if (table == TABLE_module)
		return vec_push(&p->modules, *(const struct row_module *)row);
	if (table == TABLE_nvtx && rows & PERFETTO_RANGES)
		return live_nvtx(p, row);
	if (table == TABLE_counter_sample && rows & PERFETTO_COUNTERS)
		return live_counter_sample(p, row);
	if (table == TABLE_loss)
		return live_loss(p, row);
	if (table == TABLE_capability)
		return live_capability(p, row, rows);
	return 0;
}

static void append(struct sink *sink, enum table_id table, const void *row)
{
	struct perfetto_live *p = live_of(sink);
	int err;

	if (definitions_add(&p->definitions, table, row)) {
		add_definition(p, table, row);
		return;
	}
	if (p->options.restart &&
	    atomic_exchange_explicit(p->options.restart, false, memory_order_relaxed))
		restart(p);
	raw_reserve(p->out, 0);
	if (p->dropped && live_dropped(p) < 0)
		err = -ENOMEM;
	else
		err = write_row(p, table, row);
	if (p->export)
		p->export->rc = err;
	if (err < 0 && err != -E2BIG)
		live_discard(p);
	else
		live_emit(p);
}

static int seal(struct sink *sink)
{
	struct perfetto_live *p = live_of(sink);

	live_pending_kernels_flush(p, false);
	live_launches_flush(p, false);
	live_ranges_flush(p, false);
	live_samples_flush(p);
	return 0;
}

static void release_tracks(struct perfetto_live *p)
{
	for (size_t i = 0; i < p->tracks.count; i++) {
		perfetto_slices_release(&p->tracks.data[i]->slices);
		perfetto_defined_release(&p->tracks.data[i]->defined);
		lanes_release(&p->tracks.data[i]->lanes);
		free(p->tracks.data[i]);
	}
	vec_release(&p->tracks);
	map_release(&p->track_index);
}

static void finish_readings(struct perfetto_live *p)
{
	live_pending_kernels_flush(p, true);
	live_launches_flush(p, true);
	live_ranges_flush(p, true);
	live_samples_flush(p);
	if (perfetto_readings_finish(&p->readings, p->out, p->time_ns) < 0)
		live_discard(p);
	else
		live_emit(p);
}

/*
 * String and configuration ids start anew, so names and kernels are interned again. Open slices
 * remain open.
 */
static void begin_epoch(struct sink *sink)
{
	struct perfetto_live *p = live_of(sink);

	finish_readings(p);
	perfetto_works_release(&p->works);
	p->works = (struct perfetto_works){ .context_base = p->works.context_base,
					    .shared = p->works.shared };
	p->counters.count = 0;
	map_clear(&p->counter_numbers);
	p->readings.generation++;
	p->metric_ids.count = 0;
	map_clear(&p->metric_numbers);
	live_metrics_clear(p);
	p->metrics.generation++;
	p->modules.count = 0;
	definitions_clear(&p->definitions);
	restart(p);
}

static void free_sink(struct perfetto_live *p)
{
	struct perfetto_sink_options options = p->options;

	release_tracks(p);
	perfetto_works_release(&p->works);
	perfetto_readings_release(&p->readings);
	vec_release(&p->counters);
	map_release(&p->counter_numbers);
	map_release(&p->host_counters);
	map_release(&p->metrics.gpus);
	vec_release(&p->metric_ids);
	map_release(&p->metric_numbers);
	vec_release(&p->values);
	vec_release(&p->range_values);
	vec_release(&p->ends);
	live_launches_release(p);
	vec_release(&p->samples);
	vec_release(&p->modules);
	vec_release(&p->frames.items);
	vec_release(&p->pending_kernels);
	map_release(&p->value_index);
	map_release(&p->reported);
	definitions_release(&p->definitions);
	strbuf_release(&p->own_out);
	strbuf_release(&p->text);
	strbuf_release(&p->demangled);
	free(p);
	if (options.released)
		options.released(options.user);
}

static int close_sink(struct sink *sink)
{
	struct perfetto_live *p = live_of(sink);

	finish_readings(p);
	seal(sink);
	if (p->dropped)
		(void)!live_dropped(p);
	free_sink(p);
	return 0;
}

static void abandon(struct sink *sink)
{
	struct perfetto_live *p = live_of(sink);

	if (p->owner == getpid()) /* in a fork's child the memory may be inconsistent */
		free_sink(p);
}

static void add_stats(struct sink *sink, struct writer_stats *stats)
{
	const struct perfetto_live *p = live_of(sink);

	stats->lost_rows += p->lost + p->definitions.lost;
}

void perfetto_sink_begin(struct sink *sink, uint64_t time_ns)
{
	struct perfetto_live *p = live_of(sink);

	p->time_ns = time_ns;
	restart(p);
	live_describe_process(p);
}

void perfetto_sink_end(struct sink *sink, uint64_t time_ns)
{
	struct perfetto_live *p = live_of(sink);

	p->time_ns = time_ns;
	finish_readings(p);
}

static const struct sink_ops perfetto_ops = {
	.name = "perfetto",
	.epoch = begin_epoch,
	.append = append,
	.seal = seal,
	.close = close_sink,
	.abandon = abandon,
	.stats = add_stats,
};

struct sink *perfetto_sink_new(const struct perfetto_sink_options *options)
{
	struct perfetto_live *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->export = options->export;
	p->out = p->export ? p->export->out : &p->own_out;
	if (!raw_init(p->out)) {
		free(p);
		return NULL;
	}
	p->sink.ops = &perfetto_ops;
	p->options = *options;
	p->sequences = p->export ? &p->export->sequences : &p->own_sequences;
	p->sequence = *p->sequences;
	*p->sequences += LIVE_SEQUENCE_COUNTERS;
	p->owner = getpid();
	p->begun_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < LIVE_DEVICES; i++)
		p->gpu_numbers[i] = i;
	p->definitions.tables = DEFINITIONS;
	if (!p->export && atomic_load(options->rows) & (PERFETTO_CALLS | PERFETTO_SAMPLES))
		p->definitions.tables |= DEFINITIONS_OF_STACKS;
	p->works.context_base = p->export ? options->context_base
					  : (uint32_t)hash_u64(options->seed ^ 1) & 0x7fffff00u;
	p->works.shared = p->export ? &p->export->shared : &p->works.own;
	p->readings.specify = live_specify_counters;
	p->metrics.specify = live_specify_metrics;
	p->readings.user = p->metrics.user = p;
	restart(p);
	return &p->sink;
}
