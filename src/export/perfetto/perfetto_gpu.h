/* perfetto_gpu.h: what the parts of the Perfetto exporter that are about GPUs share. */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_GPU_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_GPU_H

#include "export/perfetto/perfetto_writer.h"

/*
 * Arguments and their names. The reader's table of kernels looks for some of them by these very
 * words.
 */
#define PERFETTO_ARGUMENTS(A)                                                                      \
	A(DEVICE, "device")                                                                        \
	A(STREAM, "stream")                                                                        \
	A(CORRELATION, "correlation")                                                              \
	A(GRAPH, "graph_id")                                                                       \
	A(GRAPH_NODE, "graph_node_id")                                                             \
	A(BYTES, "bytes")                                                                          \
	A(VALUE, "value")                                                                          \
	A(EVENT, "event")                                                                          \
	A(REGISTERS, "registers_per_thread")                                                       \
	A(STATIC_SHARED, "shared_mem_static")                                                      \
	A(DYNAMIC_SHARED, "shared_mem_dynamic")                                                    \
	A(SHARED_SIZE, "shared_mem_config_size")                                                   \
	A(CACHE_CONFIG, "func_cache_config")                                                       \
	A(LOCAL, "local_mem_per_thread")                                                           \
	A(THREADS, "thread_count")                                                                 \
	A(GRID_SIZE, "grid_size")                                                                  \
	A(BLOCK_SIZE, "workgroup_size")                                                            \
	A(CLUSTER, "cluster_size")                                                                 \
	A(WAVES, "waves_per_multiprocessor")                                                       \
	A(LIMIT_BLOCKS, "occupancy_limit_blocks")                                                  \
	A(LIMIT_REGISTERS, "occupancy_limit_registers")                                            \
	A(LIMIT_SHARED, "occupancy_limit_shared_mem")                                              \
	A(LIMIT_WARPS, "occupancy_limit_warps")                                                    \
	A(OCCUPANCY, "sm__maximum_warps_per_active_cycle_pct")                                     \
	A(MAX_WARPS, "sm__maximum_warps_avg_per_active_cycle")                                     \
	A(PROCESS_NAME, "process_name")                                                            \
	A(PROCESS_ID, "process_id")

#define ARGUMENT_ID(id, name) ARG_##id,
enum { ARG_NONE, PERFETTO_ARGUMENTS(ARGUMENT_ID) ARG_END };

extern const char *const perfetto_argument_names[ARG_END];

/* Fields in a kernel and in a launch. */
enum { IN_LAUNCH = 3, IN_KERNEL = 5 };

/* The GPUs of the recording, in the order of their numbers. */
void perfetto_gpu_info(struct perfetto *p);

/* Interns a configuration as a kernel with its arguments; interned data is open. */
void perfetto_define_kernel(struct perfetto *p, uint64_t iid, uint32_t config, uint32_t process,
			    size_t gpu);

#endif
