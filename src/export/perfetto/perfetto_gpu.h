/* perfetto_gpu.h: what the parts of the Perfetto exporter that are about GPUs share. */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_GPU_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_GPU_H

#include "export/perfetto/perfetto_writer.h"

/* Names of arguments. The reader's table of kernels looks for some of them by these very words. */
enum {
	ARG_DEVICE = 1,
	ARG_STREAM,
	ARG_CORRELATION,
	ARG_GRAPH,
	ARG_GRAPH_NODE,
	ARG_BYTES,
	ARG_VALUE,
	ARG_EVENT,
	ARG_REGISTERS,
	ARG_STATIC_SHARED,
	ARG_DYNAMIC_SHARED,
	ARG_SHARED_SIZE,
	ARG_CACHE_CONFIG,
	ARG_LOCAL,
	ARG_THREADS,
	ARG_GRID_SIZE,
	ARG_BLOCK_SIZE,
	ARG_CLUSTER,
	ARG_WAVES,
	ARG_LIMIT_BLOCKS,
	ARG_LIMIT_REGISTERS,
	ARG_LIMIT_SHARED,
	ARG_LIMIT_WARPS,
	ARG_OCCUPANCY,
	ARG_MAX_WARPS,
	ARG_PROCESS_NAME,
	ARG_PROCESS_ID,
	ARG_END,
};

extern const char *const perfetto_argument_names[ARG_END];

/* Fields in a kernel and in a launch. */
enum { IN_LAUNCH = 3, IN_KERNEL = 5 };

static inline uint32_t config_u32(const struct perfetto *p, int column, uint32_t config)
{
	return trace_u32(p->view.trace, TABLE_kernel_config, column)[config];
}

/* The GPUs of the recording, in the order of their numbers. */
void perfetto_gpu_info(struct perfetto *p);

/* Interns a configuration as a kernel with its arguments; interned data is open. */
void perfetto_define_kernel(struct perfetto *p, uint64_t iid, uint32_t config, uint32_t process,
			    size_t gpu);

#endif
