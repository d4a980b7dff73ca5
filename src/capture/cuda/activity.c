#include "capture/cuda/activity.h"

#include <string.h>

#include "capture/core/shared_area.h"
#include "capture/cuda/activity_rows.h"
#include "capture/cuda/correlation.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/hub/hub.h"
#include "capture/cuda/kernel_configs.h"
#include "format/rows.h"

#define ID_NONE UINT32_MAX /* CUPTI's value for "no such id" */

static struct activity_counts counts;
static uint32_t version; /* of the loaded CUPTI */
/* of GPU work in this buffer, in CUPTI's time; first_start 0: none yet */
static uint64_t first_start, last_end;
static struct activity_window window = { .closed_ns = UINT64_MAX };

void activity_set_window(const struct activity_window *w)
{
	window = *w;
}

void activity_reset(void)
{
	kernel_configs_forget();
	window = (struct activity_window){ .closed_ns = UINT64_MAX };
	memset(&counts, 0, sizeof(counts));
}

const struct activity_counts *activity_counts(void)
{
	return &counts;
}

static inline struct span span_of(uint64_t start, uint64_t end)
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

static uint64_t begin_of(const struct span *s)
{
	return s->missing == 3 ? CORRELATION_NOW : s->missing & 1 ? s->end : s->start;
}

/* Returns the 64-bit correlation id of work with this span. */
static uint64_t call_of(uint32_t id, const struct span *s)
{
	return correlation_widen(id, begin_of(s));
}

static uint64_t call_at(uint32_t id, uint64_t cupti_ns)
{
	return correlation_widen(id, cupti_ns ? cupti_clock_convert(cupti_ns) : CORRELATION_NOW);
}

static bool is_after_window(uint32_t id, const struct span *s)
{
	return unlikely(window.closed_ns != UINT64_MAX) &&
	       (s->missing & 1 || s->start > window.closed_ns) && call_of(id, s) > window.last_call;
}

static bool is_before_window(uint32_t id, const struct span *s)
{
	if (likely(!window.opened_ns))
		return false;
	return window.first_call ? call_of(id, s) < window.first_call : s->start < window.opened_ns;
}

static inline struct span work_span(uint64_t start, uint64_t end)
{
	if (start && end && (!first_start || start < first_start))
		first_start = start;
	if (start && end > last_end)
		last_end = end;
	return span_of(start, end);
}

static struct span kernel_span(struct writer *w, const struct record_kernel *r)
{
	struct span s = { 0 };

	if (unlikely(!r->start && !r->end) && !r->graph_node &&
	    hub_adjust_kernel(w, r->correlation, 0, &s.start, &s.end))
		return s;
	s = work_span(r->start, r->end);
	if (!r->graph_node && hub_adjust_kernel(w, r->correlation, begin_of(&s), &s.start, &s.end))
		s.missing |= 2;
	return s;
}

static void on_kernel(struct writer *w, const void *record)
{
	const struct record_kernel *r = record;
	struct span span = kernel_span(w, r);
	struct row_kernel row;

	if (is_after_window(r->correlation, &span) || is_before_window(r->correlation, &span))
		return;
	row = kernel_row(r, version, &span, call_of(r->correlation, &span));
	row.config = kernel_config_of(w, r);
	counts.kernels++;
	counts.launched += r->graph_node == 0;
	SET(&row, kernel, queued_ns, r->queued, cupti_clock_convert(r->queued));
	SET(&row, kernel, submitted_ns, r->submitted, cupti_clock_convert(r->submitted));
	writer_append(w, TABLE_kernel, &row);
}

/* Defines the function for records of a kind of work whose rows need nothing but the record. */
#define ON_WORK(name, table)                                                                       \
	static void on_##name(struct writer *w, const void *record)                                \
	{                                                                                          \
		const struct record_##name *r = record;                                            \
		struct span span = work_span(r->start, r->end);                                    \
		struct row_##table row;                                                            \
                                                                                                   \
		if (is_after_window(r->correlation, &span))                                        \
			return;                                                                    \
		row = name##_row(r, version, &span, call_of(r->correlation, &span));               \
		counts.graph_launches += TABLE_##table == TABLE_graph_launch;                      \
		writer_append(w, TABLE_##table, &row);                                             \
	}
ON_WORK(memcpy, memcpy)
ON_WORK(memcpy_peer, memcpy)
ON_WORK(memset, memset)
ON_WORK(graph_launch, graph_launch)

static bool is_id(uint64_t id)
{
	return id != 0 && id != ID_NONE;
}

static void on_synchronization(struct writer *w, const void *record)
{
	const struct record_synchronization *r = record;
	bool is_new = version >= CUPTI_12_8;
	struct span span = span_of(r->start, r->end);
	struct row_synchronization row = {
		.kind = (uint8_t)r->type,
		.correlation = call_of(r->correlation, &span),
		.context = r->context,
	};

	SET_SPAN(&row, synchronization, span);
	SET(&row, synchronization, stream, r->stream != ID_NONE, r->stream);
	SET(&row, synchronization, event, r->event != ID_NONE, r->event);
	SET(&row, synchronization, result, is_new, (int32_t)r->result);
	SET(&row, synchronization, event_record, is_new && is_id(r->event_record), r->event_record);
	writer_append(w, TABLE_synchronization, &row);
}

static void on_cuda_event(struct writer *w, const void *record)
{
	const struct record_cuda_event *r = record;
	bool is_new = version >= CUPTI_12_8;
	uint64_t time_ns = is_new ? cupti_clock_convert(r->device_timestamp) : 0;
	struct row_cuda_event row = {
		.event = r->event,
		.context = r->context,
		.stream = r->stream,
		.correlation =
			correlation_widen(r->correlation, time_ns ? time_ns : CORRELATION_NOW),
	};

	SET(&row, cuda_event, device, is_new, r->device);
	SET(&row, cuda_event, event_record, is_new, r->event_record);
	SET(&row, cuda_event, time_ns, time_ns, time_ns);
	writer_append(w, TABLE_cuda_event, &row);
}

/* CUPTI's memory kinds of allocations (CUpti_ActivityMemoryKind) equal those of copies. */
static void on_allocation(struct writer *w, const void *record)
{
	const struct record_allocation *r = record;
	bool has_pool = r->pool.pool_kind != 0;
	struct row_allocation row = {
		.operation = (uint8_t)r->operation,
		.kind = (uint8_t)r->memory_kind,
		.address = r->address,
		.bytes = r->bytes,
		.correlation = call_at(r->correlation, r->timestamp),
		.device = r->device,
		.async = r->is_async != 0,
	};

	SET(&row, allocation, time_ns, r->timestamp, cupti_clock_convert(r->timestamp));
	SET(&row, allocation, context, r->context != ID_NONE, r->context);
	SET(&row, allocation, stream, r->stream != ID_NONE, r->stream);
	SET(&row, allocation, name, r->name, rows_text(w, r->name));
	SET(&row, allocation, pool_address, has_pool, r->pool.address);
	SET(&row, allocation, pool_used_bytes, has_pool, r->pool.used);
	SET(&row, allocation, pool_bytes, r->pool.pool_kind == pool_kind_local,
	    r->pool.size_or_process);
	writer_append(w, TABLE_allocation, &row);
}

static void on_memory_pool(struct writer *w, const void *record)
{
	const struct record_memory_pool *r = record;
	struct row_memory_pool row = {
		.operation = (uint8_t)r->operation,
		.kind = (uint8_t)r->pool_kind,
		.address = r->address,
		.bytes = r->size,
		.release_threshold_bytes = r->release_threshold,
		.used_bytes = r->used,
		.correlation = call_at(r->correlation, r->timestamp),
		.device = r->device,
	};

	SET(&row, memory_pool, time_ns, r->timestamp, cupti_clock_convert(r->timestamp));
	SET(&row, memory_pool, kept_bytes, r->operation == pool_operation_trimmed, r->minimum_kept);
	writer_append(w, TABLE_memory_pool, &row);
}

static void on_context(struct writer *w, const void *record)
{
	const struct record_context *r = record;
	struct row_context row = {
		.id = r->context,
		.device = r->device,
		.time_ns = cupti_clock_convert(cupti_clock_last()),
		.null_stream = r->null_stream,
	};
	struct row_stream null_stream = {
		.id = r->null_stream,
		.context = r->context,
		.time_ns = row.time_ns,
	};

	devices_note_use(r->device);
	ROW_MISSING(&row, context, destroyed_ns);
	ROW_MISSING(&null_stream, stream, priority);
	ROW_MISSING(&null_stream, stream, non_blocking);
	writer_append(w, TABLE_context, &row);
	writer_append(w, TABLE_stream, &null_stream);
}

static void on_stream(struct writer *w, const void *record)
{
	const struct record_stream *r = record;
	struct row_stream row = {
		.id = r->stream,
		.context = r->context,
		.time_ns = cupti_clock_convert(cupti_clock_last()),
		.priority = (int32_t)r->priority,
		.non_blocking = r->flag == CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING,
	};

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

static void on_overhead(struct writer *w, const void *record)
{
	const struct record_overhead *r = record;
	struct span span = span_of(r->start, r->end);
	struct row_overhead row = { .kind = overhead_kind_of(r->overhead_kind) };

	SET_SPAN(&row, overhead, span);
	SET(&row, overhead, thread, r->object_kind == CUPTI_ACTIVITY_OBJECT_THREAD, r->object[1]);
	SET(&row, overhead, correlation, version >= CUPTI_12_4 && r->correlation,
	    call_of(r->correlation, &span));
	writer_append(w, TABLE_overhead, &row);
}

static void on_external_correlation(struct writer *w, const void *record)
{
	const struct record_external_correlation *r = record;
	struct row_external_correlation row = {
		.kind = r->external_kind,
		.id = r->external_id,
		.correlation = correlation_widen(r->correlation, CORRELATION_NOW),
	};

	writer_append(w, TABLE_external_correlation, &row);
}

typedef void decode_function(struct writer *w, const void *record);

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

/* Notes the size of a record, which the next one follows, for recover/. */
static void share_size(uint32_t kind, size_t bytes)
{
	if (kind && kind < AREA_RECORD_KINDS && bytes < UINT16_MAX)
		atomic_store_explicit(&shared_area_head->record_bytes[kind], (uint16_t)bytes,
				      memory_order_relaxed);
}

void activity_share(uint32_t cupti_version)
{
	const struct {
		uint32_t kind, since;
		size_t bytes;
	} sizes[] = {
		{ RECORD_MEMCPY, 0, 88 },
		{ RECORD_MEMCPY, CUPTI_12_8, 96 },
		{ RECORD_MEMSET, 0, 88 },
		{ RECORD_MEMCPY_PEER, 0, 96 },
		{ RECORD_CONCURRENT_KERNEL, 0, 208 },
		{ RECORD_CONCURRENT_KERNEL, CUPTI_13_0, 216 },
		{ RECORD_KERNEL, 0, 208 },
		{ RECORD_KERNEL, CUPTI_13_0, 216 },
		{ RECORD_GRAPH_LAUNCH, 0, 48 },
		{ RECORD_GRAPH_LAUNCH, CUPTI_12_3, 56 },
		{ RECORD_DRIVER, 0, 40 },
		{ RECORD_RUNTIME, 0, 40 },
		{ RECORD_DEVICE, CUPTI_13_0, 184 },
		{ RECORD_CONTEXT, 0, 16 },
		{ RECORD_NAME, 0, 32 },
		{ RECORD_MARKER, 0, 56 },
		{ RECORD_MARKER_DATA, 0, 32 },
		{ RECORD_STREAM, 0, 24 },
		{ RECORD_EXTERNAL_CORRELATION, 0, 24 },
		{ RECORD_OVERHEAD, CUPTI_12_4, 56 },
		{ RECORD_SYNCHRONIZATION, 0, 40 },
		{ RECORD_SYNCHRONIZATION, CUPTI_12_8, 56 },
		{ RECORD_CUDA_EVENT, 0, 24 },
		{ RECORD_CUDA_EVENT, CUPTI_12_8, 56 },
		{ RECORD_ALLOCATION, CUPTI_12_8, 128 },
		{ RECORD_MEMORY_POOL, CUPTI_12_8, 72 },
		{ RECORD_JIT, CUPTI_12_4, 72 },
		{ RECORD_DEVICE_GRAPH, CUPTI_12_8, 56 },
	};

	atomic_store(&shared_area_head->cupti_version, cupti_version);
	for (size_t i = 0; i < ARRAY_SIZE(sizes) && cupti_version < CUPTI_13_1; i++)
		if (cupti_version >= sizes[i].since)
			share_size(sizes[i].kind, sizes[i].bytes);
}

struct activity_decoded activity_decode(const struct cupti *cupti, struct writer *w, uint8_t *bytes,
					size_t valid, unsigned slot)
{
	struct journal *journal = shared_area_marks();
	uint32_t kind_before = 0;
	const uint8_t *from = bytes;
	CUpti_Activity *record = NULL;
	CUptiResult result;
	uint64_t before = counts.records, left_out = hub_left_out();

	atomic_store(&shared_area_head->left_out, left_out);
	version = cupti->version;
	first_start = last_end = 0;
	while ((result = cupti->ActivityGetNextRecord(bytes, valid, &record)) == CUPTI_SUCCESS) {
		uint32_t kind;

		/* If CUPTI returned success without advancing, this loop would never end. */
		if ((uint8_t *)record < from || (uint8_t *)record >= bytes + valid)
			break;
		if (journal) {
			journal_mark(journal, AREA_SOURCE_BUFFER + slot, counts.records - before);
			share_size(kind_before, (size_t)((uint8_t *)record - from + 1));
		}
		from = (uint8_t *)record + 1;
		kind = kind_before = (uint32_t)record->kind;
		counts.records++;
		if (kind < 64 && left_out >> kind & 1)
			continue;
		if (kind < ARRAY_SIZE(decoders) && decoders[kind])
			decoders[kind](w, record);
		else
			counts.unknown++;
	}
	if (journal)
		journal_mark(journal, AREA_SOURCE_BUFFER + slot, counts.records - before);
	if (valid && result != CUPTI_ERROR_MAX_LIMIT_REACHED)
		counts.unreadable++;
	return (struct activity_decoded){
		.records = counts.records - before,
		.work_ns = last_end > first_start ? last_end - first_start : 0,
	};
}
