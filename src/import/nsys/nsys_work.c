/* nsys_work.c: what GPUs did. */
#include <string.h>

#include "import/nsys/nsys.h"

uint8_t nsys_enums[NSYS_ENUMS][ENUM_ENTRIES];

/* ---- enumerations ---- */

/* The names of the export's values, in the order of their numbers in 3.25. */
static const struct {
	const char *table;
	const char *prefix;
	const struct {
		const char *name;
		uint8_t value;
	} values[15];
} enums[NSYS_ENUMS] = {
	[NSYS_COPY_KIND] = { "ENUM_CUDA_MEMCPY_OPER",
			     "CUDA_MEMCPY_KIND_",
			     { { "UNKNOWN", copy_kind_unknown },
			       { "HTOD", copy_kind_HtoD },
			       { "DTOH", copy_kind_DtoH },
			       { "HTOA", copy_kind_HtoA },
			       { "ATOH", copy_kind_AtoH },
			       { "ATOA", copy_kind_AtoA },
			       { "ATOD", copy_kind_AtoD },
			       { "DTOA", copy_kind_DtoA },
			       { "DTOD", copy_kind_DtoD },
			       { "HTOH", copy_kind_HtoH },
			       { "PTOP", copy_kind_PtoP },
			       { "UVM_HTOD", copy_kind_HtoD },
			       { "UVM_DTOH", copy_kind_DtoH },
			       { "UVM_DTOD", copy_kind_DtoD } } },
	[NSYS_MEMORY_KIND] = { "ENUM_CUDA_MEM_KIND",
			       "CUDA_MEMOPR_MEMORY_KIND_",
			       { { "PAGEABLE", memory_kind_pageable },
				 { "PINNED", memory_kind_pinned },
				 { "DEVICE", memory_kind_device },
				 { "ARRAY", memory_kind_array },
				 { "MANAGED", memory_kind_managed },
				 { "DEVICE_STATIC", memory_kind_device_static },
				 { "MANAGED_STATIC", memory_kind_managed_static },
				 { "UNKNOWN", memory_kind_unknown } } },
	[NSYS_LAUNCH_TYPE] = { "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
			       "CUDA_KERNEL_LAUNCH_TYPE_",
			       { { "UNKNOWN", launch_type_regular },
				 { "REGULAR", launch_type_regular },
				 { "COOPERATIVE_SINGLE_DEVICE", launch_type_cooperative },
				 { "COOPERATIVE_MULTI_DEVICE",
				   launch_type_cooperative_multi_device } } },
	[NSYS_SYNC_KIND] = { "ENUM_CUPTI_SYNC_TYPE",
			     "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_",
			     { { "UNKNOWN", synchronization_kind_unknown },
			       { "EVENT_SYNCHRONIZE", synchronization_kind_event },
			       { "STREAM_WAIT_EVENT", synchronization_kind_stream_wait_event },
			       { "STREAM_SYNCHRONIZE", synchronization_kind_stream },
			       { "CONTEXT_SYNCHRONIZE", synchronization_kind_context } } },
	[NSYS_OVERHEAD] = { "ENUM_CUPTI_OVERHEAD_TYPE",
			    "OVERHEAD_",
			    { { "UNDEFINED", overhead_kind_unknown },
			      { "UNKNOWN", overhead_kind_unknown },
			      { "DRIVER_COMPILER", overhead_kind_compiler },
			      { "CUPTI_BUFFER_FLUSH", overhead_kind_buffer_flush },
			      { "CUPTI_INSTRUMENTATION", overhead_kind_instrumentation },
			      { "CUPTI_RESOURCE", overhead_kind_resource },
			      { "RUNTIME_TRIGGERED_MODULE_LOADING", overhead_kind_module_loading },
			      { "LAZY_FUNCTION_LOADING", overhead_kind_lazy_function_loading },
			      { "COMMAND_BUFFER_FULL", overhead_kind_command_buffer_full } } },
};

static void read_value(size_t i, int64_t number, const char *name)
{
	size_t prefix = strlen(enums[i].prefix);

	if (number < 0 || number >= ENUM_ENTRIES || !name ||
	    strncmp(name, enums[i].prefix, prefix) != 0)
		return;
	nsys_enums[i][number] = 0;
	for (size_t v = 0; v < ARRAY_SIZE(enums[i].values) && enums[i].values[v].name; v++)
		if (!strcmp(enums[i].values[v].name, name + prefix))
			nsys_enums[i][number] = enums[i].values[v].value;
}

int nsys_enums_read(struct database_import *m, struct error *e)
{
	static const char *const columns[] = { "id", "name" };
	int rc = 0;

	memset(nsys_enums, 0, sizeof(nsys_enums));
	for (size_t i = 0; i < NSYS_ENUMS && rc >= 0; i++) {
		struct query q;
		size_t length;
		int64_t number;

		for (size_t v = 0; v < ARRAY_SIZE(enums[i].values) && enums[i].values[v].name; v++)
			nsys_enums[i][v] = enums[i].values[v].value;
		rc = query_open(&q, &m->db, enums[i].table, columns, 2, NULL, e);
		while (rc >= 0 && (rc = query_next(&q)) > 0)
			if (query_value(&q, 0, &number) == QUERY_INTEGER)
				read_value(i, number, query_text(&q, 1, &length));
		database_query_end(m, &q, enums[i].table);
	}
	return rc;
}

/* ---- kernels ---- */

#define GPU_FIELDS(table)                                                                          \
	FIELD(table, start_ns, TIME, "start"), FIELD(table, end_ns, TIME, "end"),                  \
		FIELD(table, device, NUMBER, "deviceId"),                                          \
		FIELD(table, context, NUMBER, "contextId"),                                        \
		FIELD(table, stream, NUMBER, "streamId"),                                          \
		FIELD(table, correlation, NUMBER, "correlationId")

static const struct field kernel_fields[] = {
	GPU_FIELDS(kernel),
	FIELD(kernel, graph, NUMBER_OR_0, "graphId"),
	FIELD(kernel, graph_node, NUMBER_OR_0, "graphNodeId"),
};

#define CONFIG(column, kind, from) FIELD(kernel_config, column, kind, from)
static const struct field config_fields[] = {
	FIELD_MAPPED(kernel_config, launch_type, "launchType", nsys_enums[NSYS_LAUNCH_TYPE]),
	CONFIG(registers, NUMBER, "registersPerThread"),
	CONFIG(grid_x, NUMBER, "gridX"),
	CONFIG(grid_y, NUMBER, "gridY"),
	CONFIG(grid_z, NUMBER, "gridZ"),
	CONFIG(block_x, NUMBER, "blockX"),
	CONFIG(block_y, NUMBER, "blockY"),
	CONFIG(block_z, NUMBER, "blockZ"),
	CONFIG(static_shared_bytes, NUMBER, "staticSharedMemory"),
	CONFIG(dynamic_shared_bytes, NUMBER, "dynamicSharedMemory"),
	CONFIG(local_bytes_per_thread, NUMBER, "localMemoryPerThread"),
	CONFIG(local_bytes_total, NUMBER, "localMemoryTotal"),
	CONFIG(executed_shared_bytes, NUMBER, "sharedMemoryExecuted"),
	CONFIG(cluster_x, NUMBER_OR_0, "clusterX"),
	CONFIG(cluster_y, NUMBER_OR_0, "clusterY"),
	CONFIG(cluster_z, NUMBER_OR_0, "clusterZ"),
	CONFIG(max_cluster_blocks, NUMBER_OR_0, "maxPotentialClusterSize"),
	CONFIG(max_active_clusters, NUMBER_OR_0, "maxActiveClusters"),
	CONFIG(carveout_percent, NUMBER, "sharedMemoryRequestedPercentage"),
	/* read by finish_kernel: */
	{ .from = "cacheConfig" },
	{ .from = "mangledName" },
	{ .from = "demangledName|shortName|name" },
};
#define CONFIG_FIELDS (ARRAY_SIZE(config_fields) - 3)

static bool finish_kernel(struct database_import *m, struct database_process *p, void *row,
			  const struct query *q, int at)
{
	struct row_kernel *kernel = row;
	struct row_kernel_config config;
	int last = at + (int)CONFIG_FIELDS;
	int64_t number = query_number(q, last, -1);

	database_fill(m, p, q, at, TABLE_kernel_config, config_fields, CONFIG_FIELDS, &config);
	if (number >= 0 && number < cache_config_prefer_equal)
		config.cache_config_executed = (uint8_t)(number + 1);
	/* Nsight's demangled names are not those of other tools. */
	if (query_value(q, last + 1, &number) != QUERY_INTEGER)
		number = query_number(q, last + 2, -1);
	config.name = database_string(m, p, (uint64_t)number);
	kernel->config = writer_kernel_config(p->writer, &config);
	kernel->missing &= ~(UINT64_C(1) << COLUMN_kernel_config);
	return true;
}

/* ---- other work ---- */

static const struct field memcpy_fields[] = {
	GPU_FIELDS(memcpy),
	FIELD(memcpy, bytes, NUMBER, "bytes"),
	FIELD_MAPPED(memcpy, kind, "copyKind", nsys_enums[NSYS_COPY_KIND]),
	FIELD_MAPPED(memcpy, source_kind, "srcKind", nsys_enums[NSYS_MEMORY_KIND]),
	FIELD_MAPPED(memcpy, destination_kind, "dstKind", nsys_enums[NSYS_MEMORY_KIND]),
	FIELD(memcpy, source_device, ID, "srcDeviceId"),
	FIELD(memcpy, source_context, ID, "srcContextId"),
	FIELD(memcpy, destination_device, ID, "dstDeviceId"),
	FIELD(memcpy, destination_context, ID, "dstContextId"),
	FIELD(memcpy, graph_node, NUMBER_OR_0, "graphNodeId"),
	FIELD(memcpy, copies, NUMBER, "copyCount"),
};

static const struct field memset_fields[] = {
	GPU_FIELDS(memset),
	FIELD(memset, bytes, NUMBER, "bytes"),
	FIELD(memset, value, NUMBER, "value"),
	FIELD_MAPPED(memset, memory_kind, "memKind", nsys_enums[NSYS_MEMORY_KIND]),
	FIELD(memset, graph_node, NUMBER_OR_0, "graphNodeId"),
};

static const struct field graph_fields[] = {
	GPU_FIELDS(graph_launch),
	FIELD(graph_launch, graph, NUMBER, "graphId"),
	FIELD(graph_launch, end_device, ID, "endDeviceId"),
	FIELD(graph_launch, end_context, ID, "endContextId"),
};

static const struct field sync_fields[] = {
	FIELD(synchronization, start_ns, TIME, "start"),
	FIELD(synchronization, end_ns, TIME, "end"),
	FIELD_MAPPED(synchronization, kind, "syncType", nsys_enums[NSYS_SYNC_KIND]),
	FIELD(synchronization, correlation, NUMBER, "correlationId"),
	FIELD(synchronization, context, NUMBER, "contextId"),
	FIELD(synchronization, stream, ID, "streamId"),
	FIELD(synchronization, event, ID, "eventId"),
	FIELD(synchronization, event_record, ID, "eventSyncId"),
};

static const struct field event_fields[] = {
	FIELD(cuda_event, time_ns, TIME_OR_0, "timestamp"),
	FIELD(cuda_event, correlation, NUMBER, "correlationId"),
	FIELD(cuda_event, event, NUMBER, "eventId"),
	FIELD(cuda_event, context, NUMBER, "contextId"),
	FIELD(cuda_event, stream, NUMBER, "streamId"),
	FIELD(cuda_event, device, NUMBER, "deviceId"),
	FIELD(cuda_event, event_record, ID, "eventSyncId"),
};

static const uint8_t memory_operations[ENUM_ENTRIES] = { memory_operation_allocation,
							 memory_operation_release };
static const struct field allocation_fields[] = {
	FIELD(allocation, time_ns, TIME, "start|timestamp"),
	FIELD_MAPPED(allocation, operation, "memoryOperationType", memory_operations),
	FIELD_MAPPED(allocation, kind, "memKind", nsys_enums[NSYS_MEMORY_KIND]),
	FIELD(allocation, address, NUMBER, "virtualAddress|address"),
	FIELD(allocation, bytes, NUMBER, "bytes"),
	FIELD(allocation, correlation, NUMBER, "correlationId"),
	FIELD(allocation, device, NUMBER, "deviceId"),
	FIELD(allocation, context, ID, "contextId"),
	FIELD(allocation, stream, ID, "streamId"),
	FIELD(allocation, pool_address, NUMBER_OR_0, "localMemoryPoolAddress"),
	FIELD(allocation, pool_bytes, NUMBER_OR_0, "localMemoryPoolSize"),
	FIELD(allocation, pool_used_bytes, NUMBER_OR_0, "localMemoryPoolUtilizedSize"),
};

#define CONVERSION(name, table_to, columns, ...)                                                   \
	{                                                                                          \
		.from.table = name, .process = "globalPid", .process_mask = NSYS_PROCESS_MASK,     \
		.to = TABLE_##table_to, .fields = columns, .field_count = ARRAY_SIZE(columns),     \
		__VA_ARGS__                                                                        \
	}
static const struct conversion conversions[] = {
	CONVERSION("CUPTI_ACTIVITY_KIND_KERNEL", kernel, kernel_fields, .more = config_fields,
		   .more_count = ARRAY_SIZE(config_fields), .finish = finish_kernel),
	CONVERSION("CUPTI_ACTIVITY_KIND_MEMCPY", memcpy, memcpy_fields),
	CONVERSION("CUPTI_ACTIVITY_KIND_MEMSET", memset, memset_fields),
	CONVERSION("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graph_launch, graph_fields),
	CONVERSION("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", synchronization, sync_fields),
	CONVERSION("CUPTI_ACTIVITY_KIND_CUDA_EVENT", cuda_event, event_fields),
	CONVERSION("CUDA_GPU_MEMORY_USAGE_EVENTS", allocation, allocation_fields),
};

int nsys_convert_work(struct nsys *n, struct error *e)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(conversions) && rc >= 0; i++)
		rc = database_convert(&n->import, &conversions[i], e);
	return rc;
}
