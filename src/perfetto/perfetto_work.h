/*
 * perfetto_work.h: work on GPUs as render stages: queues, kernels with their arguments, GPUs.
 *
 * Names of stages are names of kernels, so that readers without fields for kernels (before v55)
 * show them too. Ids of queues and stages share an index in Perfetto: queues are even, stages odd.
 */
#ifndef PITOT_PERFETTO_PERFETTO_WORK_H
#define PITOT_PERFETTO_PERFETTO_WORK_H

#include "base/map.h"
#include "base/vec.h"
#include "perfetto/perfetto_packets.h"
#include "schema/schema.h"

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

/* Fields in a kernel and in a launch. */
enum { IN_LAUNCH = 3, IN_KERNEL = 5 };

/*
 * Numbers of stages: copies, by their kinds; fixed ones; names of kernels, by string id; labels of
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

/* A stream of a context: a hardware queue in Perfetto's words. */
struct gpu_queue {
	uint64_t iid;
	uint32_t context_iid, gpu;
	uint32_t context, stream;
	bool defined; /* in this file */
	uint8_t arguments[32]; /* device and stream, encoded */
	uint8_t arguments_length;
};

/*
 * What all executions of a kernel configuration on one GPU have in common; copies and sets by kind.
 */
struct gpu_class {
	uint64_t kernel_iid; /* 0: no kernel */
	uint64_t stage_iid;
	bool defined; /* in this file */
	uint8_t launch[56]; /* grid and block, encoded */
	uint8_t launch_length;
};

struct perfetto_works {
	struct perfetto_sequence sequence;
	/*
	 * iids of contexts come after it: of all processes of a trace the first one with an iid
	 * wins
	 */
	uint32_t context_base;
	struct map contexts; /* key of a context -> iid */
	struct map queue_index; /* context iid << 32 | stream -> position in queues */
	VEC(struct gpu_queue) queues;
	struct map class_index;
	VEC(struct gpu_class) classes;
	struct map stages; /* stage iids that are defined in this file */
	/* hash of a short name -> stage iid of the first kernel with it, in this file */
	struct map kernel_names;
	struct map context_iids; /* of contexts that are defined in this file */
	/*
	 * Interns names of further arguments, from ARG_END on, in the first packet. NULL: there are
	 * none.
	 */
	void (*name_arguments)(void *user, struct strbuf *s);
	void *user;
};

/* What was defined is to be defined again. */
void perfetto_works_restart(struct perfetto_works *g, uint32_t sequence);
void perfetto_works_release(struct perfetto_works *g);

/* Positions of a queue and of a class, made when they are new; UINT64_MAX without memory. */
uint64_t perfetto_works_queue(struct perfetto_works *g, uint64_t context_key,
			      const struct gpu_queue *queue, uint32_t device);
uint64_t perfetto_works_class(struct perfetto_works *g, uint64_t stage);
/* key: of a configuration on a GPU. */
uint64_t perfetto_works_kernel(struct perfetto_works *g, uint64_t key,
			       const struct row_kernel_config *config);

/*
 * Whether a short name of a kernel is not another one's already: readers add up slices by their
 * names.
 */
bool perfetto_works_claim_name(struct perfetto_works *g, uint64_t class, const char *name,
			       size_t length);

/* A kernel, as it is described once in a file. */
struct perfetto_kernel {
	const char *name, *demangled;
	size_t name_length, demangled_length;
	const struct row_kernel_config *config;
	const struct row_device *device; /* NULL: not known */
	uint32_t pid;
	const char *process;
};

/* Interns it; interned data is open. */
void perfetto_kernel_define(struct strbuf *s, uint64_t iid, const struct perfetto_kernel *kernel);

/* What the packet that first shows a queue or a class defines. */
struct perfetto_work_texts {
	const char *queue, *stage;
	size_t stage_length;
	uint32_t pid;
	struct perfetto_kernel kernel; /* where the class is one */
};

struct perfetto_work {
	uint64_t start_ns, duration_ns; /* duration PERFETTO_NO_TIME: a point */
	uint64_t event_id;
	uint64_t queue, class;
};

struct open_work {
	size_t packet, stage, launch;
};

/* Whether a packet of a queue and a class needs no texts. */
static inline bool perfetto_works_know(const struct perfetto_works *g, uint64_t queue,
				       uint64_t class)
{
	return g->sequence.started && g->queues.data[queue].defined &&
	       g->classes.data[class].defined;
}

/*
 * Opens the packet of some work up to the arguments of its launch. texts: NULL where they are
 * known.
 */
void perfetto_work_open(struct perfetto_works *g, struct strbuf *s,
			const struct perfetto_work *work, const struct perfetto_work_texts *texts,
			struct open_work *open);
void perfetto_work_close(struct strbuf *s, const struct open_work *open);

/* A GPU in GpuInfo: its position in that list is its number. */
struct perfetto_gpu {
	const char *shown; /* its name, with a number where there are several */
	const char *name, *uuid, *pci;
	const struct row_device *device;
};

/* Opens the packet of GpuInfo; *info is its message. Both are closed with proto_close. */
size_t perfetto_gpu_info_open(struct strbuf *s, const struct perfetto_packet *head, size_t *info);
/* gpu NULL: it is not known, and keeps the positions of those after it. */
void perfetto_gpu_info_add(struct strbuf *s, const struct perfetto_gpu *gpu);

#endif
