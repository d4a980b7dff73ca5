/* records_check.c: checks records.h against the CUPTI headers of this build. No code. */
#include <cuda.h>
#include <cupti.h>

#include "capture/cuda/records.h"

#define SAME(ours, member, theirs, field)                                                          \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, field), #ours "." #member)

#if CUPTI_API_VERSION >= 130000
SAME(record_kernel, registers, CUpti_ActivityKernel10, registersPerThread);
SAME(record_kernel, start, CUpti_ActivityKernel10, start);
SAME(record_kernel, grid_x, CUpti_ActivityKernel10, gridX);
SAME(record_kernel, correlation, CUpti_ActivityKernel10, correlationId);
SAME(record_kernel, name, CUpti_ActivityKernel10, name);
SAME(record_kernel, queued, CUpti_ActivityKernel10, queued);
SAME(record_kernel, launch_type, CUpti_ActivityKernel10, launchType);
SAME(record_kernel, carveout, CUpti_ActivityKernel10, sharedMemoryCarveoutRequested);
SAME(record_kernel, executed_shared, CUpti_ActivityKernel10, sharedMemoryExecuted);
SAME(record_kernel, graph_node, CUpti_ActivityKernel10, graphNodeId);
SAME(record_kernel, graph, CUpti_ActivityKernel10, graphId);
SAME(record_kernel, channel, CUpti_ActivityKernel10, channelID);
SAME(record_kernel, cluster_scheduling, CUpti_ActivityKernel10, clusterSchedulingPolicy);
SAME(record_kernel, local_total, CUpti_ActivityKernel10, localMemoryTotal_v2);
SAME(record_kernel, max_active_clusters, CUpti_ActivityKernel10, maxActiveClusters);
SAME(record_kernel, device_launched, CUpti_ActivityKernel10, isDeviceLaunched);
SAME(record_memcpy, flags, CUpti_ActivityMemcpy6, flags);
SAME(record_memcpy, correlation, CUpti_ActivityMemcpy6, correlationId);
SAME(record_memcpy, graph_node, CUpti_ActivityMemcpy6, graphNodeId);
SAME(record_memcpy, channel_type, CUpti_ActivityMemcpy6, channelType);
SAME(record_memcpy, device_launched, CUpti_ActivityMemcpy6, isDeviceLaunched);
SAME(record_memcpy, copies, CUpti_ActivityMemcpy6, copyCount);
SAME(record_memcpy_peer, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(record_memcpy_peer, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(record_memcpy_peer, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(record_memcpy_peer, channel_type, CUpti_ActivityMemcpyPtoP4, channelType);
SAME(record_memset, correlation, CUpti_ActivityMemset4, correlationId);
SAME(record_memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
SAME(record_memset, graph_node, CUpti_ActivityMemset4, graphNodeId);
SAME(record_memset, channel_type, CUpti_ActivityMemset4, channelType);
SAME(record_memset, device_launched, CUpti_ActivityMemset4, isDeviceLaunched);
SAME(record_synchronization, event, CUpti_ActivitySynchronization2, cudaEventId);
SAME(record_synchronization, event_record, CUpti_ActivitySynchronization2, cudaEventSyncId);
SAME(record_synchronization, result, CUpti_ActivitySynchronization2, returnValue);
SAME(record_cuda_event, event, CUpti_ActivityCudaEvent2, eventId);
SAME(record_cuda_event, device, CUpti_ActivityCudaEvent2, deviceId);
SAME(record_cuda_event, device_timestamp, CUpti_ActivityCudaEvent2, deviceTimestamp);
SAME(record_cuda_event, event_record, CUpti_ActivityCudaEvent2, cudaEventSyncId);
SAME(record_graph_launch, stream, CUpti_ActivityGraphTrace2, streamId);
SAME(record_graph_launch, end_context, CUpti_ActivityGraphTrace2, endContextId);
SAME(record_allocation, address, CUpti_ActivityMemory4, address);
SAME(record_allocation, stream, CUpti_ActivityMemory4, streamId);
SAME(record_allocation, is_async, CUpti_ActivityMemory4, isAsync);
SAME(record_allocation, pool, CUpti_ActivityMemory4, memoryPoolConfig);
SAME(record_allocation, pool.address, CUpti_ActivityMemory4, memoryPoolConfig.address);
SAME(record_memory_pool, minimum_kept, CUpti_ActivityMemoryPool3, minBytesToKeep);
SAME(record_memory_pool, timestamp, CUpti_ActivityMemoryPool3, timestamp);
SAME(record_overhead, start, CUpti_ActivityOverhead3, start);
SAME(record_overhead, correlation, CUpti_ActivityOverhead3, correlationId);
SAME(record_context, null_stream, CUpti_ActivityContext, nullStreamId);
SAME(record_stream, flag, CUpti_ActivityStream, flag);
SAME(record_external_correlation, correlation, CUpti_ActivityExternalCorrelation, correlationId);
_Static_assert(sizeof(struct record_kernel) == sizeof(CUpti_ActivityKernel10), "kernel record");
_Static_assert(sizeof(struct record_memcpy) == sizeof(CUpti_ActivityMemcpy6), "memcpy record");
#endif

_Static_assert(RECORD_CONCURRENT_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kind");
_Static_assert(RECORD_MEMCPY_PEER == (int)CUPTI_ACTIVITY_KIND_MEMCPY2, "kind");
_Static_assert(RECORD_ALLOCATION == (int)CUPTI_ACTIVITY_KIND_MEMORY2, "kind");
_Static_assert(RECORD_GRAPH_LAUNCH == (int)CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "kind");
