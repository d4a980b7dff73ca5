/*
 * activity_rows.h: the rows of CUDA's calls and of GPU work, from events and CUPTI's records. Used
 * by the recorder, and after its process has died by recover/.
 */
#ifndef PITOT_CAPTURE_CUDA_ACTIVITY_ROWS_H
#define PITOT_CAPTURE_CUDA_ACTIVITY_ROWS_H

#include "capture/core/ring.h"
#include "capture/cuda/records.h"
#include "schema/schema.h"

/* Start and end of a row, with the mask for what is missing: bit 0 start, bit 1 end. */
struct span {
	uint64_t start, end;
	unsigned missing;
};

/* Sets a column if its value is known; otherwise it is missing. */
#define SET(row, table, column, is_known, value)                                                   \
	do {                                                                                       \
		if (is_known)                                                                      \
			(row)->column = value;                                                     \
		else                                                                               \
			ROW_MISSING(row, table, column);                                           \
	} while (0)

#define SET_SPAN(row, table, span)                                                                 \
	do {                                                                                       \
		(row)->start_ns = (span).start;                                                    \
		(row)->end_ns = (span).end;                                                        \
		ROW_MISSING_IF(row, table, start_ns, (span).missing & 1);                          \
		ROW_MISSING_IF(row, table, end_ns, (span).missing & 2);                            \
	} while (0)

/* Fields that kernels, copies and sets share; for some of them 0 means none. */
#define SET_PLACE(row, table, r)                                                                   \
	do {                                                                                       \
		(row)->correlation = call;                                                         \
		(row)->device = (r)->device;                                                       \
		(row)->context = (r)->context;                                                     \
		(row)->stream = (r)->stream;                                                       \
		(row)->channel = (r)->channel;                                                     \
		(row)->channel_type = (uint8_t)(r)->channel_type;                                  \
		(row)->graph = (r)->graph;                                                         \
		(row)->graph_node = (r)->graph_node;                                               \
		ROW_MISSING_IF(row, table, channel, (r)->channel_type == 0);                       \
		ROW_MISSING_IF(row, table, channel_type, (r)->channel_type == 0);                  \
		ROW_MISSING_IF(row, table, graph_node, (r)->graph_node == 0);                      \
		ROW_MISSING_IF(row, table, graph, (r)->graph == 0);                                \
	} while (0)

/* Flags of a RING_API_CALL: what its second slot is. A call that failed has no handles. */
enum { CALL_HAS_RESULT = 1, CALL_HAS_HANDLES = 2 };
/* Flags of that slot: a event, c stream, d context. */
enum { HANDLE_STREAM = 1, HANDLE_EVENT = 2, HANDLE_CONTEXT = 4 };

/* `second` is the second slot of an event with flags, or NULL. */
static inline struct row_api_call api_call_row(const struct ring_event *event,
					       const struct ring_event *second, uint32_t thread,
					       uint64_t correlation)
{
	const struct ring_event *result = event->flags & CALL_HAS_RESULT ? second : NULL,
				*handles = event->flags & CALL_HAS_HANDLES ? second : NULL;
	unsigned has = handles ? handles->flags : 0;
	struct row_api_call row = {
		.start_ns = event->a,
		.end_ns = event->b,
		.function = event->d,
		.thread = thread,
		.correlation = correlation,
		.result = result ? (int32_t)result->a : 0,
		.stack = event->e,
		.event = handles ? handles->a : 0,
		.stream = handles ? handles->c : 0,
		.context = handles ? handles->d : 0,
	};

	ROW_MISSING_IF(&row, api_call, result, !result);
	ROW_MISSING_IF(&row, api_call, stack, !event->e);
	ROW_MISSING_IF(&row, api_call, event, !(has & HANDLE_EVENT));
	ROW_MISSING_IF(&row, api_call, stream, !(has & HANDLE_STREAM));
	ROW_MISSING_IF(&row, api_call, context, !(has & HANDLE_CONTEXT));
	return row;
}

/* queued_ns, submitted_ns and config are left to the caller. */
static inline struct row_kernel kernel_row(const struct record_kernel *r, uint32_t version,
					   const struct span *span, uint64_t call)
{
	struct row_kernel row = { 0 };

	SET_SPAN(&row, kernel, *span);
	SET_PLACE(&row, kernel, r);
	SET(&row, kernel, device_launched, version >= CUPTI_13_0, r->device_launched);
	return row;
}

static inline struct row_memcpy memcpy_row(const struct record_memcpy *r, uint32_t version,
					   const struct span *span, uint64_t call)
{
	bool is_new = version >= CUPTI_12_8;
	struct row_memcpy row = {
		.bytes = r->bytes,
		.kind = r->copy_kind,
		.source_kind = r->source_kind,
		.destination_kind = r->destination_kind,
		.async = r->flags & 1,
	};

	SET_SPAN(&row, memcpy, *span);
	SET_PLACE(&row, memcpy, r);
	ROW_MISSING(&row, memcpy, source_device);
	ROW_MISSING(&row, memcpy, source_context);
	ROW_MISSING(&row, memcpy, destination_device);
	ROW_MISSING(&row, memcpy, destination_context);
	SET(&row, memcpy, device_launched, is_new, r->device_launched);
	SET(&row, memcpy, copies, is_new && r->copies, r->copies);
	return row;
}

static inline struct row_memcpy memcpy_peer_row(const struct record_memcpy_peer *r,
						uint32_t version, const struct span *span,
						uint64_t call)
{
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

	(void)version;
	SET_SPAN(&row, memcpy, *span);
	SET_PLACE(&row, memcpy, r);
	ROW_MISSING(&row, memcpy, copies);
	ROW_MISSING(&row, memcpy, device_launched);
	return row;
}

static inline struct row_memset memset_row(const struct record_memset *r, uint32_t version,
					   const struct span *span, uint64_t call)
{
	struct row_memset row = {
		.bytes = r->bytes,
		.value = r->value,
		.memory_kind = (uint8_t)r->memory_kind,
		.async = r->flags & 1,
	};

	SET_SPAN(&row, memset, *span);
	SET_PLACE(&row, memset, r);
	SET(&row, memset, device_launched, version >= CUPTI_13_0, r->device_launched);
	return row;
}

static inline struct row_graph_launch graph_launch_row(const struct record_graph_launch *r,
						       uint32_t version, const struct span *span,
						       uint64_t call)
{
	struct row_graph_launch row = {
		.graph = r->graph,
		.correlation = call,
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
	};

	SET_SPAN(&row, graph_launch, *span);
	SET(&row, graph_launch, end_device, version >= CUPTI_12_3, r->end_device);
	SET(&row, graph_launch, end_context, version >= CUPTI_12_3, r->end_context);
	return row;
}

/* CUPTI numbers cache preferences from 0 = none; here 0 is unknown. */
static inline uint8_t cache_config_of(unsigned cupti_value)
{
	return cupti_value <= 3 ? (uint8_t)(cupti_value + 1) : cache_config_unknown;
}

/* The id is left to the caller. */
static inline struct row_kernel_config kernel_config_row(const struct record_kernel *r,
							 uint32_t name)
{
	struct row_kernel_config row = {
		.name = name,
		.grid_x = (uint32_t)r->grid_x,
		.grid_y = (uint32_t)r->grid_y,
		.grid_z = (uint32_t)r->grid_z,
		.block_x = (uint32_t)r->block_x,
		.block_y = (uint32_t)r->block_y,
		.block_z = (uint32_t)r->block_z,
		.cluster_x = r->cluster_x,
		.cluster_y = r->cluster_y,
		.cluster_z = r->cluster_z,
		.cluster_scheduling = (uint8_t)r->cluster_scheduling,
		.registers = r->registers,
		.static_shared_bytes = (uint32_t)r->static_shared,
		.dynamic_shared_bytes = (uint32_t)r->dynamic_shared,
		.executed_shared_bytes = r->executed_shared,
		.local_bytes_per_thread = r->local_per_thread,
		.local_bytes_total = r->local_total,
		.cache_config_requested = cache_config_of(r->cache_config & 15),
		.cache_config_executed = cache_config_of(r->cache_config >> 4),
		.carveout_percent = r->carveout,
		.launch_type = r->launch_type,
		.max_cluster_blocks = r->max_cluster,
		.max_active_clusters = r->max_active_clusters,
	};

	if (r->cluster_x == 0) {
		ROW_MISSING(&row, kernel_config, cluster_x);
		ROW_MISSING(&row, kernel_config, cluster_y);
		ROW_MISSING(&row, kernel_config, cluster_z);
		ROW_MISSING(&row, kernel_config, cluster_scheduling);
		ROW_MISSING(&row, kernel_config, max_cluster_blocks);
		ROW_MISSING(&row, kernel_config, max_active_clusters);
	}
	ROW_MISSING_IF(&row, kernel_config, carveout_percent, !r->carveout_is_requested);
	ROW_MISSING(&row, kernel_config, priority);
	return row;
}

#endif
