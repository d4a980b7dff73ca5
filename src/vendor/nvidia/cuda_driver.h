/*
 * cuda_driver.h: the functions of the CUDA driver with which work is executed, through dlopen. They
 * are declared here, so that no CUDA toolkit is needed; names and layouts are part of the driver's
 * ABI.
 */
#ifndef PITOT_VENDOR_CUDA_DRIVER_H
#define PITOT_VENDOR_CUDA_DRIVER_H

#include "vendor/nvidia/libcuda.h"

typedef struct cuda_context *cuda_context;
typedef struct cuda_module *cuda_module;
typedef struct cuda_function *cuda_function;
typedef struct cuda_stream *cuda_stream; /* NULL: the legacy default stream */
typedef struct cuda_event *cuda_event;
typedef struct cuda_graph *cuda_graph;
typedef struct cuda_graph_node *cuda_graph_node;
typedef struct cuda_graph_exec *cuda_graph_exec;
typedef uint64_t cuda_address; /* also of memory of the host that the driver allocated */

enum {
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_EVENT_DISABLE_TIMING = 2,
	CUDA_HOST_PORTABLE = 1,
	CUDA_HOST_PORTABLE_MAPPED = 3,
	CUDA_MEMORY_UNIFIED = 4,
	CUDA_MAX_DYNAMIC_SHARED_BYTES = 8, /* attribute of a function */
	CUDA_MAX_THREADS_PER_BLOCK = 1, /* attributes of a device */
	CUDA_MAX_SHARED_BYTES_OPTIN = 97,
};

/* CUDA_KERNEL_NODE_PARAMS, first version */
struct cuda_kernel_node {
	cuda_function function;
	unsigned grid[3], block[3], shared_bytes;
	void **parameters, **extra;
};

/* CUDA_MEMCPY3D */
struct cuda_copy_end {
	size_t x_bytes, y, z, lod;
	unsigned memory_type;
	void *host;
	cuda_address device;
	void *array, *reserved;
	size_t pitch, height;
};
struct cuda_copy_node {
	struct cuda_copy_end source, destination;
	size_t width_bytes, height, depth;
};
_Static_assert(sizeof(struct cuda_copy_node) == 200, "must match the driver's layout");

/* CUDA_MEMSET_NODE_PARAMS */
struct cuda_memset_node {
	cuda_address destination;
	size_t pitch;
	unsigned value, element_bytes;
	size_t width, height;
};

/* F(member, symbol, parameters): functions that return a CUresult; for copies */
#define CUDA_BASIC_FUNCTIONS(F)                                                                    \
	F(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context *, int device))                \
	F(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                           \
	F(context_set, "cuCtxSetCurrent", (cuda_context))                                          \
	F(allocate, "cuMemAlloc_v2", (cuda_address *, size_t bytes))                               \
	F(free, "cuMemFree_v2", (cuda_address))                                                    \
	F(host_allocate, "cuMemHostAlloc", (void **, size_t bytes, unsigned flags))                \
	F(host_free, "cuMemFreeHost", (void *))                                                    \
	F(copy_async, "cuMemcpyAsync",                                                             \
	  (cuda_address to, cuda_address from, size_t bytes, cuda_stream))                         \
	F(copy_from_host, "cuMemcpyHtoDAsync_v2",                                                  \
	  (cuda_address, const void *, size_t bytes, cuda_stream))                                 \
	F(copy_to_host, "cuMemcpyDtoHAsync_v2", (void *, cuda_address, size_t bytes, cuda_stream)) \
	F(copy_peer, "cuMemcpyPeerAsync",                                                          \
	  (cuda_address, cuda_context, cuda_address, cuda_context, size_t bytes, cuda_stream))     \
	F(stream_create, "cuStreamCreateWithPriority", (cuda_stream *, unsigned flags, int))       \
	F(stream_destroy, "cuStreamDestroy_v2", (cuda_stream))                                     \
	F(stream_synchronize, "cuStreamSynchronize", (cuda_stream))                                \
	F(event_create, "cuEventCreate", (cuda_event *, unsigned flags))                           \
	F(event_destroy, "cuEventDestroy_v2", (cuda_event))                                        \
	F(event_record, "cuEventRecord", (cuda_event, cuda_stream))
/* Those that cuda_copies needs besides, */
#define CUDA_TIMED_FUNCTIONS(F)                                                                    \
	F(event_elapsed, "cuEventElapsedTime", (float *ms, cuda_event start, cuda_event end))      \
	F(can_access, "cuDeviceCanAccessPeer", (int *can, int device, int peer))                   \
	F(enable_peer, "cuCtxEnablePeerAccess", (cuda_context peer, unsigned flags))
/* and those of a replay. */
#define CUDA_WORK_FUNCTIONS(F)                                                                     \
	F(context_synchronize, "cuCtxSynchronize", (void))                                         \
	F(priority_range, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))              \
	F(memory_info, "cuMemGetInfo_v2", (size_t * available, size_t * total))                    \
	F(module_load, "cuModuleLoadData", (cuda_module *, const void *text))                      \
	F(module_function, "cuModuleGetFunction", (cuda_function *, cuda_module, const char *))    \
	F(function_set, "cuFuncSetAttribute", (cuda_function, int attribute, int value))           \
	F(set_async, "cuMemsetD8Async",                                                            \
	  (cuda_address, unsigned char value, size_t bytes, cuda_stream))                          \
	F(launch, "cuLaunchKernel",                                                                \
	  (cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,              \
	   unsigned shared_bytes, cuda_stream, void **parameters, void **extra))                   \
	F(launch_host, "cuLaunchHostFunc", (cuda_stream, void (*function)(void *), void *user))    \
	F(stream_wait, "cuStreamWaitEvent", (cuda_stream, cuda_event, unsigned flags))             \
	F(event_synchronize, "cuEventSynchronize", (cuda_event))                                   \
	F(graph_create, "cuGraphCreate", (cuda_graph *, unsigned flags))                           \
	F(graph_destroy, "cuGraphDestroy", (cuda_graph))                                           \
	F(graph_kernel, "cuGraphAddKernelNode",                                                    \
	  (cuda_graph_node *, cuda_graph, const cuda_graph_node *, size_t,                         \
	   const struct cuda_kernel_node *))                                                       \
	F(graph_copy, "cuGraphAddMemcpyNode",                                                      \
	  (cuda_graph_node *, cuda_graph, const cuda_graph_node *, size_t,                         \
	   const struct cuda_copy_node *, cuda_context))                                           \
	F(graph_memset, "cuGraphAddMemsetNode",                                                    \
	  (cuda_graph_node *, cuda_graph, const cuda_graph_node *, size_t,                         \
	   const struct cuda_memset_node *, cuda_context))                                         \
	F(graph_instantiate, "cuGraphInstantiateWithFlags",                                        \
	  (cuda_graph_exec *, cuda_graph, unsigned long long flags))                               \
	F(graph_exec_destroy, "cuGraphExecDestroy", (cuda_graph_exec))                             \
	F(graph_launch, "cuGraphLaunch", (cuda_graph_exec, cuda_stream))

struct cuda_driver {
	struct libcuda base;
	CUDA_BASIC_FUNCTIONS(LIBCUDA_MEMBER)
	CUDA_TIMED_FUNCTIONS(LIBCUDA_MEMBER)
	CUDA_WORK_FUNCTIONS(LIBCUDA_MEMBER)
};

/* Loads what copies need, and initialises nothing. Returns 0 or E_UNSUPPORTED. */
int cuda_driver_load_copies(struct cuda_driver *d, struct error *e) MUST_USE;
/*
 * Loads what a replay needs, and initialises the driver; if this program is being recorded, with
 * the recorder. Returns 0 or E_UNSUPPORTED.
 */
int cuda_driver_open(struct cuda_driver *d, struct error *e) MUST_USE;

#endif
