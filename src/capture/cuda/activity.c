#include "capture/cuda/activity.h"

#include <string.h>

#include "capture/cuda/correlation.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/kernel_configs.h"
#include "capture/cuda/records.h"
#include "format/rows.h"

#define ID_NONE UINT32_MAX /* what CUPTI writes for "no such id" */

uint64_t correlation_latest;

static struct activity_counts counts;
static uint64_t until = UINT64_MAX;

void activity_until(uint64_t correlation)
{
	until = correlation;
}

static bool is_after_window(uint32_t correlation)
{
	return unlikely(until != UINT64_MAX) && correlation_widen(correlation) > until;
}

void activity_reset(void)
{
	kernel_configs_forget();
	until = UINT64_MAX;
	memset(&counts, 0, sizeof(counts));
}

const struct activity_counts *activity_counts(void)
{
	return &counts;
}

/* Start and end of a row, with the mask for what is missing: bit 0 start, bit 1 end. */
struct span {
	uint64_t start, end;
	unsigned missing;
};

static struct span span_of(uint64_t start, uint64_t end)
{
	struct span s = { 0 };

	cupti_clock_convert_span(start, end, &s.start, &s.end);
	if (start == 0)
		s.missing |= 1;
	if (end == 0)
		s.missing |= 2;
	if (start == 0 && end == 0)
		counts.no_time++;
	else if (s.missing)
		counts.incomplete++;
	else if (s.end < s.start) {
		s.missing |= 2;
		counts.reversed_time++;
	}
	return s;
}

#define SET_SPAN(row, table, span)                                                                 \
	do {                                                                                       \
		(row)->start_ns = (span).start;                                                    \
		(row)->end_ns = (span).end;                                                        \
		if ((span).missing & 1)                                                            \
			ROW_MISSING(row, table, start_ns);                                         \
		if ((span).missing & 2)                                                            \
			ROW_MISSING(row, table, end_ns);                                           \
	} while (0)

/* Members that kernels, copies and sets share, where 0 or ~0 means that there is none. */
#define SET_PLACE(row, table, r)                                                                   \
	do {                                                                                       \
		(row)->correlation = correlation_widen((r)->correlation);                          \
		(row)->device = (r)->device;                                                       \
		(row)->context = (r)->context;                                                     \
		(row)->stream = (r)->stream;                                                       \
		(row)->channel = (r)->channel;                                                     \
		(row)->channel_type = (uint8_t)(r)->channel_type;                                  \
		(row)->graph = (r)->graph;                                                         \
		(row)->graph_node = (r)->graph_node;                                               \
		if ((r)->channel_type == 0) {                                                      \
			ROW_MISSING(row, table, channel);                                          \
			ROW_MISSING(row, table, channel_type);                                     \
		}                                                                                  \
		if ((r)->graph_node == 0)                                                          \
			ROW_MISSING(row, table, graph_node);                                       \
		if ((r)->graph == 0)                                                               \
			ROW_MISSING(row, table, graph);                                            \
	} while (0)

static void on_kernel(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_kernel *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_kernel row = { .config = kernel_config_of(w, r) };

	if (is_after_window(r->correlation))
		return;
	counts.kernels++;
	counts.launched += r->graph_node == 0;
	SET_SPAN(&row, kernel, span);
	SET_PLACE(&row, kernel, r);
	row.queued_ns = cupti_clock_convert(r->queued);
	row.submitted_ns = cupti_clock_convert(r->submitted);
	if (r->queued == 0)
		ROW_MISSING(&row, kernel, queued_ns);
	if (r->submitted == 0)
		ROW_MISSING(&row, kernel, submitted_ns);
	if (cupti->version >= CUPTI_13_0)
		row.device_launched = r->device_launched;
	else
		ROW_MISSING(&row, kernel, device_launched);
	writer_append(w, TABLE_kernel, &row);
}

static void no_peers(struct row_memcpy *row)
{
	ROW_MISSING(row, memcpy, source_device);
	ROW_MISSING(row, memcpy, source_context);
	ROW_MISSING(row, memcpy, destination_device);
	ROW_MISSING(row, memcpy, destination_context);
}

static void on_memcpy(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_memcpy *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_memcpy row = {
		.bytes = r->bytes,
		.kind = r->copy_kind,
		.source_kind = r->source_kind,
		.destination_kind = r->destination_kind,
		.async = r->flags & 1,
	};

	if (is_after_window(r->correlation))
		return;
	SET_SPAN(&row, memcpy, span);
	SET_PLACE(&row, memcpy, r);
	no_peers(&row);
	if (cupti->version >= CUPTI_12_8) {
		row.copies = r->copies;
		row.device_launched = r->device_launched;
	} else {
		ROW_MISSING(&row, memcpy, device_launched);
	}
	if (row.copies == 0)
		ROW_MISSING(&row, memcpy, copies);
	writer_append(w, TABLE_memcpy, &row);
}

static void on_memcpy_peer(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_memcpy_peer *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_memcpy row = {
		.bytes = r->bytes,
		.kind = r->copy_kind,
		.source_kind = r->source_kind,
		.destination_kind = r->destination_kind,
		.async = r->flags & 1,
		.source_device = r->source_device,
		.source_context = r->source_context,
		.destination_device = r->destination_device,
		.destination_context = r->destination_context,
	};

	(void)cupti;
	SET_SPAN(&row, memcpy, span);
	SET_PLACE(&row, memcpy, r);
	ROW_MISSING(&row, memcpy, copies);
	ROW_MISSING(&row, memcpy, device_launched);
	writer_append(w, TABLE_memcpy, &row);
}

static void on_memset(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_memset *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_memset row = {
		.bytes = r->bytes,
		.value = r->value,
		.memory_kind = (uint8_t)r->memory_kind,
		.async = r->flags & 1,
	};

	if (is_after_window(r->correlation))
		return;
	SET_SPAN(&row, memset, span);
	SET_PLACE(&row, memset, r);
	if (cupti->version >= CUPTI_13_0)
		row.device_launched = r->device_launched;
	else
		ROW_MISSING(&row, memset, device_launched);
	writer_append(w, TABLE_memset, &row);
}

static void on_synchronization(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_synchronization *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_synchronization row = {
		.kind = (uint8_t)r->type,
		.correlation = correlation_widen(r->correlation),
		.context = r->context,
		.stream = r->stream,
		.event = r->event,
	};

	SET_SPAN(&row, synchronization, span);
	if (r->stream == ID_NONE)
		ROW_MISSING(&row, synchronization, stream);
	if (r->event == ID_NONE)
		ROW_MISSING(&row, synchronization, event);
	if (cupti->version >= CUPTI_12_8) {
		row.event_record = r->event_record;
		row.result = (int32_t)r->result;
	} else {
		ROW_MISSING(&row, synchronization, result);
	}
	if (row.event_record == 0 || row.event_record == ID_NONE)
		ROW_MISSING(&row, synchronization, event_record);
	writer_append(w, TABLE_synchronization, &row);
}

static void on_cuda_event(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_cuda_event *r = record;
	struct row_cuda_event row = {
		.correlation = correlation_widen(r->correlation),
		.event = r->event,
		.context = r->context,
		.stream = r->stream,
	};

	if (cupti->version >= CUPTI_12_8) {
		row.device = r->device;
		row.event_record = r->event_record;
		row.time_ns = cupti_clock_convert(r->device_timestamp);
	} else {
		ROW_MISSING(&row, cuda_event, device);
		ROW_MISSING(&row, cuda_event, event_record);
	}
	if (row.time_ns == 0)
		ROW_MISSING(&row, cuda_event, time_ns);
	writer_append(w, TABLE_cuda_event, &row);
}

static void on_graph_launch(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_graph_launch *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_graph_launch row = {
		.graph = r->graph,
		.correlation = correlation_widen(r->correlation),
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
	};

	if (is_after_window(r->correlation))
		return;
	counts.launched++;
	SET_SPAN(&row, graph_launch, span);
	if (cupti->version >= CUPTI_12_3) {
		row.end_device = r->end_device;
		row.end_context = r->end_context;
	} else {
		ROW_MISSING(&row, graph_launch, end_device);
		ROW_MISSING(&row, graph_launch, end_context);
	}
	writer_append(w, TABLE_graph_launch, &row);
}

/* CUPTI's memory kinds of allocations (CUpti_ActivityMemoryKind) are those of copies. */
static void on_allocation(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_allocation *r = record;
	struct row_allocation row = {
		.time_ns = cupti_clock_convert(r->timestamp),
		.operation = (uint8_t)r->operation,
		.kind = (uint8_t)r->memory_kind,
		.address = r->address,
		.bytes = r->bytes,
		.correlation = correlation_widen(r->correlation),
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
		.async = r->is_async != 0,
		.pool_address = r->pool.address,
		.pool_bytes = r->pool.size_or_process,
		.pool_used_bytes = r->pool.used,
		.name = r->name ? rows_text(w, r->name) : 0,
	};

	(void)cupti;
	if (r->timestamp == 0)
		ROW_MISSING(&row, allocation, time_ns);
	if (r->context == ID_NONE)
		ROW_MISSING(&row, allocation, context);
	if (r->stream == ID_NONE)
		ROW_MISSING(&row, allocation, stream);
	if (!r->name)
		ROW_MISSING(&row, allocation, name);
	if (r->pool.pool_kind == 0) {
		ROW_MISSING(&row, allocation, pool_address);
		ROW_MISSING(&row, allocation, pool_bytes);
		ROW_MISSING(&row, allocation, pool_used_bytes);
	} else if (r->pool.pool_kind != pool_kind_local) {
		ROW_MISSING(&row, allocation, pool_bytes);
	}
	writer_append(w, TABLE_allocation, &row);
}

static void on_memory_pool(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_memory_pool *r = record;
	struct row_memory_pool row = {
		.time_ns = cupti_clock_convert(r->timestamp),
		.operation = (uint8_t)r->operation,
		.kind = (uint8_t)r->pool_kind,
		.address = r->address,
		.bytes = r->size,
		.release_threshold_bytes = r->release_threshold,
		.kept_bytes = r->minimum_kept,
		.used_bytes = r->used,
		.correlation = correlation_widen(r->correlation),
		.device = r->device,
	};

	(void)cupti;
	if (r->timestamp == 0)
		ROW_MISSING(&row, memory_pool, time_ns);
	if (r->operation != pool_operation_trimmed)
		ROW_MISSING(&row, memory_pool, kept_bytes);
	writer_append(w, TABLE_memory_pool, &row);
}

static void on_context(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_context *r = record;
	struct row_context row = {
		.id = r->context,
		.device = r->device,
		.time_ns = cupti_clock_convert(cupti_clock_last()),
	};
	struct row_stream null_stream = {
		.id = r->null_stream,
		.context = r->context,
		.time_ns = row.time_ns,
	};

	(void)cupti;
	devices_in_use(r->device);
	ROW_MISSING(&row, context, destroyed_ns);
	ROW_MISSING(&null_stream, stream, priority);
	ROW_MISSING(&null_stream, stream, non_blocking);
	writer_append(w, TABLE_context, &row);
	writer_append(w, TABLE_stream, &null_stream);
}

static void on_stream(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_stream *r = record;
	struct row_stream row = {
		.id = r->stream,
		.context = r->context,
		.time_ns = cupti_clock_convert(cupti_clock_last()),
		.priority = (int32_t)r->priority,
		.non_blocking = r->flag == CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING,
	};

	(void)cupti;
	writer_append(w, TABLE_stream, &row);
}

static uint8_t overhead_kind_of(uint32_t kind)
{
	if (kind == 1)
		return overhead_kind_compiler;
	if (kind & 0xffff || kind >> 16 > 8)
		return overhead_kind_unknown;
	return (uint8_t)(overhead_kind_compiler + (kind >> 16));
}

static void on_overhead(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_overhead *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_overhead row = {
		.kind = overhead_kind_of(r->overhead_kind),
		.thread = r->object[1],
	};

	SET_SPAN(&row, overhead, span);
	if (r->object_kind != CUPTI_ACTIVITY_OBJECT_THREAD)
		ROW_MISSING(&row, overhead, thread);
	if (cupti->version >= CUPTI_12_4)
		row.correlation = correlation_widen(r->correlation);
	if (!row.correlation)
		ROW_MISSING(&row, overhead, correlation);
	writer_append(w, TABLE_overhead, &row);
}

static void on_external_correlation(const struct cupti *cupti, struct writer *w, const void *record)
{
	const struct record_external_correlation *r = record;
	struct row_external_correlation row = {
		.kind = r->external_kind,
		.id = r->external_id,
		.correlation = correlation_widen(r->correlation),
	};

	(void)cupti;
	writer_append(w, TABLE_external_correlation, &row);
}

typedef void decode_function(const struct cupti *cupti, struct writer *w, const void *record);

static decode_function *const decoders[] = {
	[RECORD_MEMCPY] = on_memcpy,
	[RECORD_MEMSET] = on_memset,
	[RECORD_KERNEL] = on_kernel,
	[RECORD_CONTEXT] = on_context,
	[RECORD_CONCURRENT_KERNEL] = on_kernel,
	[RECORD_OVERHEAD] = on_overhead,
	[RECORD_MEMCPY_PEER] = on_memcpy_peer,
	[RECORD_CUDA_EVENT] = on_cuda_event,
	[RECORD_STREAM] = on_stream,
	[RECORD_SYNCHRONIZATION] = on_synchronization,
	[RECORD_EXTERNAL_CORRELATION] = on_external_correlation,
	[RECORD_ALLOCATION] = on_allocation,
	[RECORD_MEMORY_POOL] = on_memory_pool,
	[RECORD_GRAPH_LAUNCH] = on_graph_launch,
};

void activity_decode(const struct cupti *cupti, struct writer *w, uint8_t *bytes, size_t valid)
{
	const uint8_t *from = bytes;
	CUpti_Activity *record = NULL;
	CUptiResult result;

	while ((result = cupti->ActivityGetNextRecord(bytes, valid, &record)) == CUPTI_SUCCESS) {
		uint32_t kind;

		/* A success without a further record in the buffer would be read for ever. */
		if ((uint8_t *)record < from || (uint8_t *)record >= bytes + valid)
			break;
		from = (uint8_t *)record + 1;
		kind = (uint32_t)record->kind;
		counts.records++;
		if (kind < ARRAY_SIZE(decoders) && decoders[kind])
			decoders[kind](cupti, w, record);
		else
			counts.unknown++;
	}
	if (valid && result != CUPTI_ERROR_MAX_LIMIT_REACHED)
		counts.unreadable++;
}
