/*
 * perfetto_work_packets.h: GPU work as render stages: queues, kernels with their arguments, GPUs.
 *
 * Stages are named after kernels, so that readers without fields for kernels (before v55) show them
 * too. Queues and stages share one id space in Perfetto: queues are even, stages odd.
 */
#ifndef PITOT_PERFETTO_PERFETTO_WORK_PACKETS_H
#define PITOT_PERFETTO_PERFETTO_WORK_PACKETS_H

#include "base/map.h"
#include "base/vec.h"
#include "perfetto/perfetto_packets.h"
#include "schema/schema.h"

/*
 * Arguments and their names. The reader's table of kernels finds some of them by exactly these
 * names.
 */
#define PERFETTO_ARGUMENTS(A)                                                                      \
	A(DEVICE, "device")                                                                        \
	A(STREAM, "stream")                                                                        \
	A(CORRELATION, "correlation")                                                              \
	A(GRAPH, "graph_id")                                                                       \
	A(GRAPH_NODE, "graph_node_id")                                                             \
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
	A(PROCESS_ID, "process_id")                                                                \
	A(WAITED, "waited_for_ranks_ns")

#define ARGUMENT_ID(id, name) ARG_##id,
enum { ARG_NONE, PERFETTO_ARGUMENTS(ARGUMENT_ID) ARG_END };

/* Columns that exports show are arguments, too. */
static inline uint32_t perfetto_argument_iid(enum table_id table, int column)
{
	return ARG_END + ((uint32_t)table << 6 | (uint32_t)column);
}

/* Fields in a kernel and in a launch. */
enum { IN_LAUNCH = 3, IN_KERNEL = 5 };

/*
 * Stage numbers: copies by their kinds, fixed ones, kernels by string id of the name, and labels of
 * other tables.
 */
#define STAGE_MEMSETS 1024u
#define STAGE_GRAPH 2048u
#define STAGE_EVENT 2049u
#define STAGE_UNKNOWN_KERNEL 2050u
#define STAGE_KERNELS 4096u
#define STAGE_LABELS (UINT64_C(1) << 40)

static inline uint64_t perfetto_copy_stage(uint8_t kind, uint8_t source, uint8_t destination)
{
	return ((kind & 15u) * 8 + (source & 7u)) * 8 + (destination & 7u);
}

/* A stream of a context: a hardware queue in Perfetto's terms. */
struct gpu_queue {
	uint64_t iid;
	uint32_t context_iid, gpu;
	uint32_t context, stream;
	bool defined; /* in this file */
	uint8_t arguments[32]; /* device and stream, encoded */
	uint8_t arguments_length;
};

/*
 * What all launches of a kernel configuration on one GPU have in common. Copies and memsets have
 * one class per kind.
 */
struct gpu_class {
	uint64_t kernel_iid; /* 0: not a kernel */
	uint64_t stage_iid;
	bool defined; /* in this file */
	uint8_t launch[56]; /* grid and block, encoded */
	uint8_t launch_length;
};

/* What the processes of a file share, so that readers can tell their queues and kernels apart. */
struct perfetto_shared {
	/* hash of a short name -> stage iid of the first kernel with it, in this file */
	struct map kernel_names;
	uint64_t queues; /* number of queues so far */
};

struct perfetto_works {
	struct perfetto_sequence sequence;
	/*
	 * added to iids of contexts, because readers use only the first definition of an iid in a
	 * trace
	 */
	uint32_t context_base;
	struct map contexts; /* context -> iid */
	struct map queue_index; /* context << 32 | stream -> index into queues */
	VEC(struct gpu_queue) queues;
	struct map class_index;
	VEC(struct gpu_class) classes;
	struct map stages; /* stage iids defined in this file */
	struct perfetto_shared *shared, own; /* the owner may share it between processes */
	struct map context_iids; /* of contexts defined in this file */
};

/* Begins a file, in which everything must be defined again. */
void perfetto_works_restart(struct perfetto_works *g, uint32_t sequence);
void perfetto_works_release(struct perfetto_works *g);

/* Find or create a queue or class and return its index; UINT64_MAX if out of memory. */
uint64_t perfetto_works_queue(struct perfetto_works *g, const struct gpu_queue *queue,
			      uint32_t device);
uint64_t perfetto_works_class(struct perfetto_works *g, uint64_t stage);
/* key: of a configuration on a GPU. */
uint64_t perfetto_works_kernel(struct perfetto_works *g, uint64_t key,
			       const struct row_kernel_config *config);

/* Returns whether no other kernel has this short name: readers sum slices by name. */
bool perfetto_works_reserve_name(struct perfetto_works *g, uint64_t class, const char *name,
			       size_t length);

/* A kernel as described once per file. */
struct perfetto_kernel {
	const char *name, *demangled;
	size_t name_length, demangled_length;
	const struct row_kernel_config *config;
	const struct row_device *device; /* NULL: unknown */
	uint32_t pid;
	const char *process;
};

/* Interns the kernel inside open interned data. */
void perfetto_kernel_define(struct strbuf *s, uint64_t iid, const struct perfetto_kernel *kernel);

/* What the first packet of a queue or class defines. */
struct perfetto_work_texts {
	const char *queue, *stage;
	size_t stage_length;
	uint32_t pid;
	struct perfetto_kernel kernel; /* if the class is a kernel */
};

struct perfetto_work {
	uint64_t start_ns, duration_ns; /* duration PERFETTO_NO_TIME: an instant */
	uint64_t event_id;
	uint64_t waited_for; /* event id of the work of another rank; 0: none */
	uint64_t queue, class;
};

struct open_work {
	size_t packet, stage, launch;
};

/* Whether the queue and the class are defined, so that a packet needs no texts. */
static inline bool perfetto_works_defined(const struct perfetto_works *g, uint64_t queue,
					  uint64_t class)
{
	return g->sequence.started && g->queues.data[queue].defined &&
	       g->classes.data[class].defined;
}

/*
 * Opens the packet of some work up to the arguments of its launch. texts: NULL if
 * perfetto_works_defined.
 */
void perfetto_work_open(struct perfetto_works *g, struct strbuf *s,
			const struct perfetto_work *work, const struct perfetto_work_texts *texts,
			struct open_work *open);
void perfetto_work_close(struct strbuf *s, const struct open_work *open);

/* A GPU in GpuInfo; its position in that list is its number. */
struct perfetto_gpu {
	const char *display_name; /* display name, numbered if there are several */
	const char *name, *uuid, *pci;
	const struct row_device *device;
};

/* Opens the packet of GpuInfo; *info is its message. Close both with proto_close. */
size_t perfetto_gpu_info_open(struct strbuf *s, const struct perfetto_packet *head, size_t *info);
/* gpu NULL: unknown; preserves the positions of those that follow. */
void perfetto_gpu_info_add(struct strbuf *s, const struct perfetto_gpu *gpu);

#endif
