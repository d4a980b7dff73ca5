/*
 * standin_hip.c: libamdhip64.so.7 for tests: some of HIP's functions, and the rules by which ROCm's
 * register library finds ROCprofiler-SDK, its abort included.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocm_standin.h"

#define PUBLIC __attribute__((visibility("default")))

struct dim3 {
	uint32_t x, y, z;
};

static struct standin_hooks hooks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct standin_kernel kernels[] = { { "_Z3addPfS_.kd", 11 },
					   { "_Z6matmulPKfS0_Pf.kd", 12 },
					   { "ncclDevKernel_AllReduce_Sum_f32_RING_LL.kd", 13 } };

static int is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

static int has_tool(void)
{
	return dlsym(RTLD_DEFAULT, "rocprofiler_configure") || is_set("ROCP_TOOL_LIBRARIES") ||
	       is_set("ROCPROFILER_REGISTER_LIBRARY") || is_set("ROCPROFILER_REGISTER_FORCE_LOAD");
}

static void load_sdk(void)
{
	const char *named = getenv("ROCPROFILER_REGISTER_LIBRARY");
	const char *library = named && *named ? named : "librocprofiler-sdk.so";
	int (*set)(const char *, uint64_t, uint64_t, void **, uint64_t);
	void *handle, *tables[] = { &hooks };

	handle = dlopen(library, RTLD_GLOBAL | RTLD_LAZY);
	*(void **)&set = handle ? dlsym(handle, "rocprofiler_set_api_table") : NULL;
	if (!set) {
		fprintf(stderr, "rocprofiler-register: no %s\n", library);
		abort();
	}
	set("hip", 70000, 0, tables, 1);
	for (size_t i = 0; hooks.loaded && i < sizeof(kernels) / sizeof(*kernels); i++)
		hooks.loaded(&kernels[i]);
}

static bool is_forced, is_late;

static void register_tables(void)
{
	is_late = !is_forced && has_fault("late", NULL);
	if (has_tool() && !is_late)
		load_sdk();
}

/* A program has forced a tool upon the SDK, which now gets the tables that it missed. */
PUBLIC void standin_hip_replay(void);
PUBLIC void standin_hip_replay(void)
{
	is_forced = true;
	if (is_late)
		load_sdk();
	is_late = false;
}

struct payload {
	uint64_t size;
	char args[88];
	int32_t result;
	char rest[20];
};
_Static_assert(sizeof(struct payload) == 120, "rocprofiler_callback_tracing_hip_api_data_t");

#define HIP_KIND 5
#define STREAM_KIND 20
#define GRAPH_KIND 22
#define MARKER_KIND 7

static void tell(int32_t operation, uint32_t phase, int32_t result)
{
	struct payload payload = { .size = sizeof(payload), .result = result };

	if (hooks.call)
		hooks.call(HIP_KIND, operation, phase, &payload);
}

static void set(uint32_t kind, uint64_t id, uint32_t phase)
{
	uint64_t payload[3] = { sizeof(payload), id };

	if (hooks.call)
		hooks.call(kind, 3, phase, payload);
}

static void set_stream(uint64_t stream, uint32_t phase)
{
	set(STREAM_KIND, stream, phase);
}

#define CALL(operation, result, ...)                                                               \
	do {                                                                                       \
		pthread_once(&once, register_tables);                                              \
		tell(operation, 1, 0);                                                             \
		if (has_fault("no-gpus", NULL)) {                                                  \
			tell(operation, 2, 100); /* hipErrorNoDevice */                            \
			return 100;                                                                \
		}                                                                                  \
		__VA_ARGS__;                                                                       \
		tell(operation, 2, result);                                                        \
		return result;                                                                     \
	} while (0)

static void launch(uintptr_t kernel, struct dim3 items, struct dim3 group, uint32_t shared,
		   uint64_t stream)
{
	struct standin_dispatch d = { .kernel = &kernels[kernel % 3],
				      .stream = stream,
				      .gpu = stream >= 8,
				      .private_bytes = 16,
				      .group_bytes = 1024 + shared,
				      .workgroup = { group.x, group.y, group.z },
				      .grid = { items.x, items.y, items.z } };

	set_stream(stream, 1);
	if (hooks.dispatch)
		hooks.dispatch(&d);
	set_stream(stream, 2);
}

PUBLIC int hipLaunchKernel(uintptr_t f, struct dim3 grid, struct dim3 block, void **args,
			   size_t shared, uint64_t stream);
PUBLIC int hipLaunchKernel(uintptr_t f, struct dim3 grid, struct dim3 block, void **args,
			   size_t shared, uint64_t stream)
{
	struct dim3 items = { grid.x * block.x, grid.y * block.y, grid.z * block.z };

	(void)args;
	CALL(214, 0, launch(f, items, block, (uint32_t)shared, stream));
}

/* The grid in work items, which need not be whole groups. */
PUBLIC int hipExtModuleLaunchKernel(uintptr_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t gx,
				    uint32_t gy, uint32_t gz, size_t shared, uint64_t stream);
PUBLIC int hipExtModuleLaunchKernel(uintptr_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t gx,
				    uint32_t gy, uint32_t gz, size_t shared, uint64_t stream)
{
	CALL(388, 0,
	     launch(f, (struct dim3){ x, y, z }, (struct dim3){ gx, gy, gz }, (uint32_t)shared,
		    stream));
}

static void copy(uint64_t bytes, int kind, uint64_t stream)
{
	/* hipMemcpyKind: HtoH 0, HtoD 1, DtoH 2, DtoD 3; 4 here: to the second GPU */
	uint64_t gpu = STANDIN_AGENT(0), from = kind >= 2 ? gpu : 99, to = kind % 2 ? gpu : 99;

	if (kind == 4)
		to = STANDIN_AGENT(1);
	set_stream(stream, 1);
	if (hooks.copy)
		hooks.copy(kind == 4 ? 4 : kind + 1, to, from, bytes);
	set_stream(stream, 2);
}

PUBLIC int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
PUBLIC int hipMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	(void)to;
	(void)from;
	CALL(259, 0, {
		copy(bytes, kind, 0);
		if (hooks.wait)
			hooks.wait();
	});
}

PUBLIC int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, uint64_t stream);
PUBLIC int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, uint64_t stream)
{
	(void)to;
	(void)from;
	CALL(268, 0, copy(bytes, kind, stream));
}

/* An executable graph is its number here; it has that many kernels, and a copy. */
PUBLIC int hipGraphLaunch(uint64_t graph, uint64_t stream);
PUBLIC int hipGraphLaunch(uint64_t graph, uint64_t stream)
{
	struct dim3 items = { 64, 1, 1 };

	CALL(166, 0, {
		set(GRAPH_KIND, graph, 1);
		for (uint64_t i = 0; i < graph; i++)
			launch(i, items, items, 0, stream);
		copy(100 * graph, 1, stream);
		set(GRAPH_KIND, graph, 2);
	});
}

static int allocate(int32_t call, int32_t operation, void **out, size_t bytes, uint64_t agent)
{
	static uintptr_t next = 0x7f0000000000;

	*out = (void *)(bytes ? next : 0); /* HSA does not hand out 0 bytes */
	next += bytes;
	CALL(call, bytes ? 0 : 1, {
		if (hooks.memory)
			hooks.memory(operation, agent, (uintptr_t)*out, bytes);
	});
}

static int release(int32_t call, int32_t operation, void *memory)
{
	CALL(call, 0, {
		if (hooks.memory)
			hooks.memory(operation, 0, (uintptr_t)memory, 0);
	});
}

PUBLIC int hipMalloc(void **out, size_t bytes);
PUBLIC int hipMalloc(void **out, size_t bytes)
{
	return allocate(215, bytes > 1 << 20 ? 2 : 1, out, bytes, STANDIN_AGENT(bytes % 2));
}

PUBLIC int hipFree(void *memory);
PUBLIC int hipFree(void *memory)
{
	return release(90, (uintptr_t)memory % 4 ? 4 : 3, memory);
}

PUBLIC int hipHostMalloc(void **out, size_t bytes, unsigned flags);
PUBLIC int hipHostMalloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	return allocate(197, 1, out, bytes, 99);
}

PUBLIC int hipHostFree(void *memory);
PUBLIC int hipHostFree(void *memory)
{
	return release(194, 3, memory);
}

PUBLIC int hipDeviceSynchronize(void);
PUBLIC int hipDeviceSynchronize(void)
{
	CALL(66, 0, if (hooks.wait) hooks.wait());
}

PUBLIC int hipStreamSynchronize(uint64_t stream);
PUBLIC int hipStreamSynchronize(uint64_t stream)
{
	CALL(346, stream == 77 ? 400 : 0, if (hooks.wait) hooks.wait()); /* 400: invalid handle */
}

/* ROCTx: payloads are the size, an argument in 16 bytes and the result in 8. */
static uint64_t mark(int32_t operation, uint64_t argument, uint64_t result)
{
	uint64_t payload[4] = { sizeof(payload), argument, 0, 0 };

	pthread_once(&once, register_tables);
	if (!hooks.call)
		return result;
	hooks.call(MARKER_KIND, operation, 1, payload);
	payload[3] = result;
	hooks.call(MARKER_KIND, operation, 2, payload);
	return result;
}

PUBLIC void roctxMarkA(const char *message);
PUBLIC void roctxMarkA(const char *message)
{
	mark(0, (uintptr_t)message, 0);
}

PUBLIC int roctxRangePushA(const char *message);
PUBLIC int roctxRangePushA(const char *message)
{
	return (int)mark(1, (uintptr_t)message, 0);
}

PUBLIC int roctxRangePop(void);
PUBLIC int roctxRangePop(void)
{
	return (int)mark(2, 0, 0);
}

PUBLIC uint64_t roctxRangeStartA(const char *message);
PUBLIC uint64_t roctxRangeStartA(const char *message)
{
	static uint64_t last;

	return mark(3, (uintptr_t)message, ++last);
}

PUBLIC void roctxRangeStop(uint64_t id);
PUBLIC void roctxRangeStop(uint64_t id)
{
	mark(4, id, 0);
}
