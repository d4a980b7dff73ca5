/*
 * records.h: the layouts of CUPTI's activity records that Pitot reads, as prefixes that are valid
 * for CUPTI 12.0 to 13.x.
 *
 * Each family of records only grows at the end, so one declaration serves all versions; fields that
 * were added later may be read only from the version in their comment on (cuptiGetVersion: 26 =
 * 12.8, 130000 = 13.0). Offsets are those of the headers of CUDA 13.0; records_check.c checks them
 * against the installed headers.
 */
#ifndef PITOT_CAPTURE_CUDA_RECORDS_H
#define PITOT_CAPTURE_CUDA_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_12_3 21u
#define CUPTI_12_4 22u
#define CUPTI_12_8 26u
#define CUPTI_13_0 130000u
#define CUPTI_13_1 130100u /* records are longer from here on; their beginning is read */

enum record_kind {
	RECORD_MEMCPY = 1,
	RECORD_MEMSET = 2,
	RECORD_KERNEL = 3,
	RECORD_DRIVER = 4,
	RECORD_RUNTIME = 5,
	RECORD_DEVICE = 8,
	RECORD_CONTEXT = 9,
	RECORD_CONCURRENT_KERNEL = 10,
	RECORD_NAME = 11,
	RECORD_MARKER = 12,
	RECORD_MARKER_DATA = 13,
	RECORD_OVERHEAD = 17,
	RECORD_MEMCPY_PEER = 22,
	RECORD_CUDA_EVENT = 36,
	RECORD_STREAM = 37,
	RECORD_SYNCHRONIZATION = 38,
	RECORD_EXTERNAL_CORRELATION = 39,
	RECORD_ALLOCATION = 49,
	RECORD_MEMORY_POOL = 50,
	RECORD_GRAPH_LAUNCH = 51,
	RECORD_JIT = 52,
	RECORD_DEVICE_GRAPH = 53,
};

struct record_kernel {
	uint32_t kind;
	uint8_t cache_config;	/* low 4 bits requested, high 4 bits executed */
	uint8_t shared_config;
	uint16_t registers;
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total_v1;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	uint64_t reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_is_requested, carveout, padding;
	uint32_t executed_shared;
	uint64_t graph_node;
	uint32_t shared_limit_config, graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster_x, cluster_y, cluster_z, cluster_scheduling;
	uint64_t local_total;
	uint32_t max_cluster, max_active_clusters;	/* CUDA 12.0 */
	uint8_t device_launched;			/* CUDA 13.0 */
};

struct record_memcpy {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, padding;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched;	/* 12.8 (Memcpy6) */
	uint64_t copies;		/* 12.8 */
};

struct record_memcpy_peer {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, source_device, source_context, destination_device,
		destination_context;
	uint32_t correlation;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
};

struct record_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t padding;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched;	/* 13.0 */
};

struct record_synchronization {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
	uint64_t event_record;	/* 12.8 */
	uint32_t result;	/* 12.8 */
};

struct record_cuda_event {
	uint32_t kind, correlation, context, stream, event, padding;
	uint32_t device, padding2;	/* 12.8 from here on */
	void *reserved;
	uint64_t device_timestamp, event_record;
};

struct record_graph_launch {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
	uint32_t end_device, end_context;	/* 12.3 */
};

struct record_allocation {
	uint32_t kind, operation, memory_kind, correlation;
	uint64_t address, bytes, timestamp, pc;
	uint32_t process, device, context, stream;
	const char *name;
	uint32_t is_async;
	uint32_t padding;
	struct {
		uint32_t pool_kind, padding;
		uint64_t address, release_threshold, size_or_process, used;
	} pool;
};

struct record_memory_pool {
	uint32_t kind, operation, pool_kind, correlation, process, device;
	uint64_t minimum_kept, address, size, release_threshold, timestamp, used;
};

struct record_context {
	uint32_t kind, context, device;
	uint16_t api, null_stream;
};

struct record_stream {
	uint32_t kind, context, stream, priority, flag, correlation;
};

struct record_external_correlation {
	uint32_t kind, external_kind;
	uint64_t external_id;
	uint32_t correlation, reserved;
};

struct record_overhead {
	uint32_t kind, overhead_kind, object_kind;
	uint32_t object[3];	/* a thread: process id, thread id */
	uint64_t start, end;
	uint32_t correlation, padding;	/* 12.4 */
};

#endif
