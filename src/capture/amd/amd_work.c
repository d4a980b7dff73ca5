#include "capture/amd/amd_work.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/map.h"
#include "capture/amd/amd_boottime.h"
#include "capture/amd/amd_calls.h"
#include "capture/amd/amd_devices.h"
#include "capture/amd/amd_kernels.h"
#include "capture/core/collector.h"
#include "format/rows.h"

/* RING_HIP_WORK: a record of the SDK, in the slots after the event's. */
union record {
	struct {
		uint64_t size;
		uint32_t kind;
		int32_t operation;
	};
	struct amd_dispatch dispatch;
	struct amd_copy copy;
	struct amd_allocation allocation;
	struct ring_event slots[RING_HIP_WORK_SLOTS - 1];
};
_Static_assert(sizeof(union record) == sizeof(struct ring_event[RING_HIP_WORK_SLOTS - 1]), "");

/* Bytes that are read of records, by kind; others are unknown. */
static const uint8_t record_bytes[] = {
	[AMD_BUFFER_KERNEL_DISPATCH] = sizeof(struct amd_dispatch),
	[AMD_BUFFER_MEMORY_COPY] = sizeof(struct amd_copy),
	[AMD_BUFFER_MEMORY_ALLOCATION] = sizeof(struct amd_allocation),
};

/* A queue stands for an unknown stream; streams' own ids are small. */
#define STREAM_OF_QUEUE (1u << 30)

#define ROOM_WAIT_NS NS_PER_MS
#define CLOCKS_DIFFER_NS NS_PER_S /* at most, the GPU's and ours */
#define ROOM_TRIES 2000u /* two seconds: then the collector hangs */

static struct {
	atomic_uint_fast64_t unknown, dropped;
	/* the collector's */
	uint64_t work, no_time, reversed_time, no_stream;
} counts;

/* The collector's: what is allocated, by address: bytes << 8 | place. */
static struct map live = MAP_INIT;
enum { PLACE_UNKNOWN, PLACE_HOST, PLACE_GPU }; /* PLACE_GPU + device */

/* --- on the SDK's thread --- */

/* Its own thread's ring, so only the tail moves. The program's GPU waits behind this thread. */
static bool wait_for_room(const struct ring *r, unsigned slots)
{
	static __thread uint64_t given_up =
		UINT64_MAX; /* the tail of a collector that did not come */
	struct timespec t = { .tv_nsec = ROOM_WAIT_NS };

	for (unsigned i = 0; i < ROOM_TRIES; i++) {
		uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);

		if (atomic_load(&r->head) - tail + slots <= RING_SLOTS)
			return true;
		if (tail == given_up || !collector_running())
			return false;
		collector_wake();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	given_up = atomic_load(&r->tail);
	return false;
}

void amd_work_push(const struct ring_event *events, unsigned slots)
{
	struct ring *r = ring_get();

	if (r && wait_for_room(r, slots))
		ring_push(r, events, slots);
	else if (r)
		counter_add(&r->lost, 1);
}

static void read_record(const struct amd_record_header *header)
{
	struct ring_event slots[RING_HIP_WORK_SLOTS] = { { .kind = RING_HIP_WORK } };
	uint32_t kind = header->category == AMD_CATEGORY_TRACING ? header->kind : 0;
	size_t known = kind < ARRAY_SIZE(record_bytes) ? record_bytes[kind] : 0;
	union record record;
	uint64_t size;

	memcpy(&size, header->payload, sizeof(size));
	if (!known || size < known) {
		atomic_fetch_add(&counts.unknown, 1);
		return;
	}
	memcpy(&record, header->payload, known);
	record.kind = kind;
	memcpy(&slots[1], &record, known);
	amd_work_push(slots, RING_HIP_WORK_SLOTS);
}

/* The SDK's count of drops is of the buffer's whole life. */
void amd_work_on_buffer(uint64_t context, uint64_t buffer, struct amd_record_header **headers,
			size_t count, void *data, uint64_t dropped)
{
	(void)context;
	(void)buffer;
	(void)data;
	for (size_t i = 0; i < count; i++)
		read_record(headers[i]);
	atomic_store(&counts.dropped, dropped);
}

/* --- the collector's thread --- */

/*
 * Converts times. Those of another clock than that of the machine, before its start or after now,
 * are none.
 */
static bool read_times(uint64_t *start, uint64_t *end)
{
	uint64_t now = clock_monotonic_ns(), told_start = *start, told_end = *end;

	*start = amd_boottime_convert(told_start);
	*end = amd_boottime_convert(told_end);
	if (told_end && told_end < told_start) {
		counts.reversed_time++;
		return false;
	}
	if (!told_start || !told_end || !*start || *end > now + CLOCKS_DIFFER_NS) {
		counts.no_time++;
		return false;
	}
	return true;
}

/* Grids are in work items, of which the last group of a dimension may have fewer. */
static uint32_t blocks(const struct amd_dispatch *work, unsigned axis)
{
	uint32_t group = work->workgroup[axis];

	return (uint32_t)(((uint64_t)work->grid[axis] + group - 1) / group);
}

static uint32_t config_of(struct writer *w, const struct amd_dispatch *work)
{
	const struct amd_kernel *kernel = amd_kernel_find(work->kernel);
	struct row_kernel_config row = {
		.missing = schema_missing(TABLE_kernel_config),
		.name = rows_text(w, kernel ? kernel->name : "unknown kernel"),
	};

	if (work->workgroup[0] && work->workgroup[1] && work->workgroup[2]) {
		ROW_SET(&row, kernel_config, grid_x, blocks(work, 0));
		ROW_SET(&row, kernel_config, grid_y, blocks(work, 1));
		ROW_SET(&row, kernel_config, grid_z, blocks(work, 2));
		ROW_SET(&row, kernel_config, block_x, work->workgroup[0]);
		ROW_SET(&row, kernel_config, block_y, work->workgroup[1]);
		ROW_SET(&row, kernel_config, block_z, work->workgroup[2]);
	}
	ROW_SET(&row, kernel_config, local_bytes_per_thread, work->private_bytes);
	if (kernel) {
		ROW_SET(&row, kernel_config, registers, kernel->vgprs + kernel->agprs);
		ROW_SET(&row, kernel_config, static_shared_bytes, kernel->group_bytes);
		ROW_SET(&row, kernel_config, dynamic_shared_bytes,
			work->group_bytes - MIN(work->group_bytes, kernel->group_bytes));
	}
	return writer_kernel_config(w, &row);
}

/* Copies have no queue: without a stream they are in one of their own for each GPU. */
static uint32_t stream_of(struct amd_origin origin, uint64_t queue)
{
	if (origin.stream)
		return origin.stream - 1u;
	counts.no_stream++;
	return STREAM_OF_QUEUE | ((uint32_t)queue & (STREAM_OF_QUEUE - 1));
}

static struct amd_origin origin_of(uint64_t external)
{
	struct amd_origin origin;

	memcpy(&origin, &external, sizeof(origin));
	return origin;
}

/* What kernels and copies have: the node of a graph, and times, which may be none. */
#define SET_WORK(row, table, origin, start, end)                                                   \
	do {                                                                                       \
		if ((origin).graph && (origin).node) {                                             \
			ROW_SET(row, table, graph, (origin).graph);                                \
			ROW_SET(row, table, graph_node,                                            \
				(uint64_t)(origin).graph << 32 | (origin).node);                   \
		}                                                                                  \
		if (read_times(&(start), &(end))) {                                                \
			ROW_SET(row, table, start_ns, start);                                      \
			ROW_SET(row, table, end_ns, end);                                          \
		}                                                                                  \
	} while (0)

static void write_kernel(struct writer *w, struct amd_dispatch *work)
{
	struct amd_origin origin = origin_of(work->correlation.external);
	struct row_kernel row = { .missing = schema_missing(TABLE_kernel),
				  .config = config_of(w, work),
				  .correlation = work->correlation.internal,
				  .device = amd_device_of(work->agent),
				  .stream = stream_of(origin, work->queue) };

	ROW_SET(&row, kernel, channel, (uint32_t)work->queue);
	SET_WORK(&row, kernel, origin, work->start, work->end);
	writer_append(w, TABLE_kernel, &row);
}

static void write_copy(struct writer *w, struct amd_copy *work)
{
	static const uint8_t kinds[] = { [AMD_COPY_HTOH] = copy_kind_HtoH,
					 [AMD_COPY_HTOD] = copy_kind_HtoD,
					 [AMD_COPY_DTOH] = copy_kind_DtoH,
					 [AMD_COPY_DTOD] = copy_kind_DtoD };
	struct amd_origin origin = origin_of(work->correlation.external);
	uint32_t to = amd_device_of(work->to_agent), from = amd_device_of(work->from_agent);
	bool to_gpu = to != AMD_NO_DEVICE, from_gpu = from != AMD_NO_DEVICE;
	struct row_memcpy row = {
		.missing = schema_missing(TABLE_memcpy),
		.kind = (uint32_t)work->operation < ARRAY_SIZE(kinds) ? kinds[work->operation]
								      : copy_kind_unknown,
		/* Memory of the host may be pageable or pinned. */
		.source_kind = from_gpu ? memory_kind_device : memory_kind_unknown,
		.destination_kind = to_gpu ? memory_kind_device : memory_kind_unknown,
		.correlation = work->correlation.internal,
		.device = to_gpu     ? to
			  : from_gpu ? from
				     : 0,
		.stream = stream_of(origin, 0),
	};

	ROW_SET(&row, memcpy, bytes, work->bytes);
	SET_WORK(&row, memcpy, origin, work->start, work->end);
	if (to_gpu && from_gpu && to != from) {
		row.kind = copy_kind_PtoP;
		ROW_SET(&row, memcpy, source_device, from);
		ROW_SET(&row, memcpy, destination_device, to);
	}
	writer_append(w, TABLE_memcpy, &row);
}

/* Returns what is known of memory that is released, and forgets it; or notes what is allocated. */
static uint64_t follow(const struct amd_allocation *work, bool is_release)
{
	uint32_t device = amd_device_of(work->agent);
	uint64_t place = !work->agent              ? PLACE_UNKNOWN
			 : device == AMD_NO_DEVICE ? PLACE_HOST
						   : PLACE_GPU + device,
		 memory = work->bytes << 8 | place;

	if (is_release) {
		memory = 0;
		map_remove(&live, work->address, &memory);
	} else {
		/* If that fails, the release is of unknown size. */
		(void)!map_put(&live, work->address, memory);
	}
	return memory;
}

/* An address of 0 is of an allocation that failed. */
static void write_allocation(struct writer *w, struct amd_allocation *work)
{
	bool is_release = work->operation == AMD_FREE || work->operation == AMD_VMEM_FREE;
	uint64_t memory = work->address ? follow(work, is_release) : 0, place = memory & 0xff;
	struct row_allocation row = {
		.missing = schema_missing(TABLE_allocation),
		.operation = is_release ? memory_operation_release : memory_operation_allocation,
		.kind = place >= PLACE_GPU    ? memory_kind_device
			: place == PLACE_HOST ? memory_kind_pinned
					      : memory_kind_unknown,
		.address = work->address,
		.correlation = work->correlation.internal,
		.device = place >= PLACE_GPU ? (uint32_t)place - PLACE_GPU : 0,
	};

	if (!work->address)
		return;
	ROW_SET_IF(&row, allocation, bytes, memory >> 8);
	if (read_times(&work->start, &work->end))
		ROW_SET(&row, allocation, time_ns, is_release ? work->start : work->end);
	writer_append(w, TABLE_allocation, &row);
}

void amd_work_begin(void)
{
	map_clear(&live);
}

uint64_t amd_work_event(struct writer *w, const struct ring *r, uint64_t position)
{
	union record record;

	for (unsigned i = 1; i < RING_HIP_WORK_SLOTS; i++)
		record.slots[i - 1] = *ring_slot(r, position + i);
	counts.work += record.kind != AMD_BUFFER_MEMORY_ALLOCATION;
	if (record.kind == AMD_BUFFER_MEMORY_ALLOCATION)
		write_allocation(w, &record.allocation);
	else if (record.kind == AMD_BUFFER_MEMORY_COPY)
		write_copy(w, &record.copy);
	else
		write_kernel(w, &record.dispatch);
	return RING_HIP_WORK_SLOTS;
}

struct amd_work_counts amd_work_counts(void)
{
	return (struct amd_work_counts){
		.work = counts.work,
		.no_time = counts.no_time,
		.reversed_time = counts.reversed_time,
		.unknown = atomic_load(&counts.unknown),
		.dropped = atomic_load(&counts.dropped),
		.no_stream = counts.no_stream,
	};
}
