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

/*
 * The three slots after the event's first, which has: a start, b end, flags enum work_kind, c the
 * operation of a copy or allocation.
 */
enum work_kind { WORK_KERNEL, WORK_COPY, WORK_ALLOCATION };
struct work {
	uint64_t correlation;
	struct amd_origin origin;
	uint64_t agent;
	uint64_t queue; /* a copy's: the agent from which; an allocation's: the address */
	uint64_t kernel; /* a copy's and an allocation's: bytes */
	uint32_t private_bytes, group_bytes, workgroup[3], grid[3];
	uint64_t unused[3];
};
#define WORK_SLOTS 4u
_Static_assert(sizeof(struct work) == (WORK_SLOTS - 1) * sizeof(struct ring_event), "");

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

static void push(const struct ring_event *event, struct work *work, uint64_t external)
{
	struct ring_event slots[WORK_SLOTS] = { *event };

	memcpy(&work->origin, &external, sizeof(work->origin));
	memcpy(&slots[1], work, sizeof(*work));
	amd_work_push(slots, WORK_SLOTS);
}

static void push_dispatch(const struct amd_dispatch *d)
{
	struct work work = {
		.correlation = d->correlation.internal,
		.agent = d->agent,
		.queue = d->queue,
		.kernel = d->kernel,
		.private_bytes = d->private_bytes,
		.group_bytes = d->group_bytes,
	};

	memcpy(work.workgroup, d->workgroup, sizeof(work.workgroup));
	memcpy(work.grid, d->grid, sizeof(work.grid));
	push(&(struct ring_event){ .a = d->start, .b = d->end, .kind = RING_HIP_WORK }, &work,
	     d->correlation.external);
}

static void push_copy(const struct amd_copy *c)
{
	struct work work = { .correlation = c->correlation.internal,
			     .agent = c->to_agent,
			     .queue = c->from_agent,
			     .kernel = c->bytes };

	push(&(struct ring_event){ .a = c->start,
				   .b = c->end,
				   .c = (uint32_t)c->operation,
				   .kind = RING_HIP_WORK,
				   .flags = WORK_COPY },
	     &work, c->correlation.external);
}

static void push_allocation(const struct amd_allocation *a)
{
	struct work work = { .correlation = a->correlation.internal,
			     .agent = a->agent,
			     .queue = a->address,
			     .kernel = a->bytes };

	push(&(struct ring_event){ .a = a->start,
				   .b = a->end,
				   .c = (uint32_t)a->operation,
				   .kind = RING_HIP_WORK,
				   .flags = WORK_ALLOCATION },
	     &work, 0);
}

static void read_record(const struct amd_record_header *header)
{
	uint32_t kind = header->category == AMD_CATEGORY_TRACING ? header->kind : 0;
	uint64_t size;

	memcpy(&size, header->payload, sizeof(size));
	if (kind == AMD_BUFFER_KERNEL_DISPATCH && size >= sizeof(struct amd_dispatch))
		push_dispatch(header->payload);
	else if (kind == AMD_BUFFER_MEMORY_COPY && size >= sizeof(struct amd_copy))
		push_copy(header->payload);
	else if (kind == AMD_BUFFER_MEMORY_ALLOCATION && size >= sizeof(struct amd_allocation))
		push_allocation(header->payload);
	else
		atomic_fetch_add(&counts.unknown, 1);
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

/* Times of another clock than that of the machine, before its start or after now, are none. */
static bool read_times(const struct ring_event *event, uint64_t *start, uint64_t *end)
{
	uint64_t now = clock_monotonic_ns();

	*start = amd_boottime_convert(event->a);
	*end = amd_boottime_convert(event->b);
	if (event->b && event->b < event->a) {
		counts.reversed_time++;
		return false;
	}
	if (!event->a || !event->b || !*start || *end > now + CLOCKS_DIFFER_NS) {
		counts.no_time++;
		return false;
	}
	return true;
}

/* Grids are in work items, of which the last group of a dimension may have fewer. */
static uint32_t blocks(const struct work *work, unsigned axis)
{
	uint32_t group = work->workgroup[axis];

	return (uint32_t)(((uint64_t)work->grid[axis] + group - 1) / group);
}

static uint32_t config_of(struct writer *w, const struct work *work)
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
static uint32_t stream_of(const struct work *work, bool is_kernel)
{
	if (work->origin.stream)
		return work->origin.stream - 1u;
	counts.no_stream++;
	return STREAM_OF_QUEUE | (is_kernel ? (uint32_t)work->queue & (STREAM_OF_QUEUE - 1) : 0);
}

/* What kernels and copies have: the node of a graph, and times, which may be none. */
#define SET_WORK(row, table, event, work)                                                          \
	do {                                                                                       \
		const struct amd_origin *origin = &(work)->origin;                                 \
		uint64_t start, end;                                                               \
                                                                                                   \
		if (origin->graph && origin->node) {                                               \
			ROW_SET(row, table, graph, origin->graph);                                 \
			ROW_SET(row, table, graph_node,                                            \
				(uint64_t)origin->graph << 32 | origin->node);                     \
		}                                                                                  \
		if (read_times(event, &start, &end)) {                                             \
			ROW_SET(row, table, start_ns, start);                                      \
			ROW_SET(row, table, end_ns, end);                                          \
		}                                                                                  \
	} while (0)

static void write_kernel(struct writer *w, const struct ring_event *event, const struct work *work)
{
	struct row_kernel row = { .missing = schema_missing(TABLE_kernel),
				  .config = config_of(w, work),
				  .correlation = work->correlation,
				  .device = amd_device_of(work->agent),
				  .stream = stream_of(work, true) };

	ROW_SET(&row, kernel, channel, (uint32_t)work->queue);
	SET_WORK(&row, kernel, event, work);
	writer_append(w, TABLE_kernel, &row);
}

static void write_copy(struct writer *w, const struct ring_event *event, const struct work *work)
{
	static const uint8_t kinds[] = { [AMD_COPY_HTOH] = copy_kind_HtoH,
					 [AMD_COPY_HTOD] = copy_kind_HtoD,
					 [AMD_COPY_DTOH] = copy_kind_DtoH,
					 [AMD_COPY_DTOD] = copy_kind_DtoD };
	uint32_t to = amd_device_of(work->agent), from = amd_device_of(work->queue);
	bool to_gpu = to != AMD_NO_DEVICE, from_gpu = from != AMD_NO_DEVICE;
	struct row_memcpy row = {
		.missing = schema_missing(TABLE_memcpy),
		.kind = event->c < ARRAY_SIZE(kinds) ? kinds[event->c] : copy_kind_unknown,
		/* Memory of the host may be pageable or pinned. */
		.source_kind = from_gpu ? memory_kind_device : memory_kind_unknown,
		.destination_kind = to_gpu ? memory_kind_device : memory_kind_unknown,
		.correlation = work->correlation,
		.device = to_gpu     ? to
			  : from_gpu ? from
				     : 0,
		.stream = stream_of(work, false),
	};

	ROW_SET(&row, memcpy, bytes, work->kernel);
	SET_WORK(&row, memcpy, event, work);
	if (to_gpu && from_gpu && to != from) {
		row.kind = copy_kind_PtoP;
		ROW_SET(&row, memcpy, source_device, from);
		ROW_SET(&row, memcpy, destination_device, to);
	}
	writer_append(w, TABLE_memcpy, &row);
}

/* Returns what is known of memory that is released, and forgets it; or notes what is allocated. */
static uint64_t follow(const struct work *work, bool is_release)
{
	uint32_t device = amd_device_of(work->agent);
	uint64_t place = !work->agent              ? PLACE_UNKNOWN
			 : device == AMD_NO_DEVICE ? PLACE_HOST
						   : PLACE_GPU + device,
		 memory = work->kernel << 8 | place;

	if (is_release) {
		memory = 0;
		map_remove(&live, work->queue, &memory);
	} else {
		(void)!map_put(&live, work->queue,
			       memory); /* else the release is of unknown size */
	}
	return memory;
}

/* An address of 0 is of an allocation that failed. */
static void write_allocation(struct writer *w, const struct ring_event *event,
			     const struct work *work)
{
	bool is_release = event->c == AMD_FREE || event->c == AMD_VMEM_FREE;
	uint64_t memory = work->queue ? follow(work, is_release) : 0, place = memory & 0xff, start,
		 end;
	struct row_allocation row = {
		.missing = schema_missing(TABLE_allocation),
		.operation = is_release ? memory_operation_release : memory_operation_allocation,
		.kind = place >= PLACE_GPU    ? memory_kind_device
			: place == PLACE_HOST ? memory_kind_pinned
					      : memory_kind_unknown,
		.address = work->queue,
		.correlation = work->correlation,
		.device = place >= PLACE_GPU ? (uint32_t)place - PLACE_GPU : 0,
	};

	if (!work->queue)
		return;
	ROW_SET_IF(&row, allocation, bytes, memory >> 8);
	if (read_times(event, &start, &end))
		ROW_SET(&row, allocation, time_ns, is_release ? start : end);
	writer_append(w, TABLE_allocation, &row);
}

void amd_work_begin(void)
{
	map_clear(&live);
}

uint64_t amd_work_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct work work;

	for (unsigned i = 1; i < WORK_SLOTS; i++)
		memcpy((char *)&work + (i - 1) * sizeof(*event), ring_slot(r, position + i),
		       sizeof(*event));
	counts.work += event->flags != WORK_ALLOCATION;
	if (event->flags == WORK_ALLOCATION)
		write_allocation(w, event, &work);
	else if (event->flags == WORK_COPY)
		write_copy(w, event, &work);
	else
		write_kernel(w, event, &work);
	return WORK_SLOTS;
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
