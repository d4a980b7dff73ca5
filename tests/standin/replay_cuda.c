/*
 * A stand-in libcuda.so.1 for `pitot replay` and `pitot calibrate`: streams with a clock each, on
 * which work takes the time that its parameters say. Work is "executed" when it is launched; the
 * host waits only where it synchronizes. Kernels do to their slots what src/replay/stand_in.ptx
 * says.
 *
 * PITOT_REPLAY_LOG=FILE: each call, one a line. PITOT_REPLAY_FAULT=NAME[=N]: what goes wrong.
 *	devices=N	number of GPUs (default 1)	memory=N	free bytes
 *	swap		two kernels of a stream change places	FUNCTION=N	its N-th call fails
 *	recorded=NS	below `pitot record` launches and synchronizations of a stream take this
 *			much longer, and kernels are recorded, as many as were launched; launches
 *			of graphs take a hundredth longer for each further node, and nodes are
 *			as much further apart
 *	unseen=NS	the same, but nodes are not recorded
 *	stretched=NS	the same, but records of nodes end as the next node begins
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "base/compiler.h"
#include "replay/replay_gpu.h"
#include "support/make_recording.h"

_Static_assert(sizeof(struct cuda_copy_node) == sizeof(CUDA_MEMCPY3D), "layout");
_Static_assert(offsetof(struct cuda_copy_node, destination.device) ==
		       offsetof(CUDA_MEMCPY3D, dstDevice),
	       "layout");
_Static_assert(offsetof(struct cuda_copy_node, width_bytes) ==
		       offsetof(CUDA_MEMCPY3D, WidthInBytes),
	       "layout");
_Static_assert(sizeof(struct cuda_memset_node) == sizeof(CUDA_MEMSET_NODE_PARAMS_v1), "layout");
_Static_assert(offsetof(struct cuda_memset_node, width) ==
		       offsetof(CUDA_MEMSET_NODE_PARAMS_v1, width),
	       "layout");
_Static_assert(sizeof(struct cuda_kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1), "layout");
_Static_assert(offsetof(struct cuda_kernel_node, parameters) ==
		       offsetof(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams),
	       "layout");

/* The older versions of these functions, which programs find by dlsym. */
#undef cuGraphAddKernelNode
#undef cuDeviceGetUuid
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *on, size_t count,
			      const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);

struct function {
	char name[32];
};

struct stream {
	unsigned number;
	bool is_blocking;
	uint64_t end_ns;
	struct kernel *held; /* fault swap */
};

struct event {
	uint64_t end_ns;
};

struct kernel {
	struct function *function;
	uint64_t slot, stop, amount, cycles, after;
	uint32_t order, after_count;
};

struct node {
	struct kernel kernel; /* function NULL: something else, of these bytes */
	size_t bytes, count;
	struct node **on, *next;
	uint64_t end_ns;
};

struct graph {
	struct node *first, **last;
	unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams[4096], default_stream = { .is_blocking = true };
static unsigned stream_count;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t fault(const char *name, uint64_t otherwise)
{
	const char *value = getenv("PITOT_REPLAY_FAULT");
	size_t n = strlen(name);

	if (!value || strncmp(value, name, n) || (value[n] && value[n] != '='))
		return otherwise;
	return value[n] ? strtoull(value + n + 1, NULL, 10) : 1;
}

PRINTF_LIKE(1, 2) static void say(const char *format, ...)
{
	static FILE *file;
	const char *path = getenv("PITOT_REPLAY_LOG");
	va_list args;

	if (!file && path)
		file = fopen(path, "w");
	if (!file)
		return;
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fflush(file);
}

/* Begins each function that can fail: counts its calls. */
#define BEGIN()                                                                                    \
	static uint64_t calls;                                                                     \
	if (++calls == fault(__func__, 0))                                                         \
	return CUDA_ERROR_LAUNCH_FAILED

static struct stream *stream_at(CUstream s)
{
	return s ? (struct stream *)(void *)s : &default_stream;
}

/* The default stream waits for all blocking ones, and they for it. */
static uint64_t begin(const struct stream *s)
{
	uint64_t ns = s->end_ns, now = now_ns();

	if (s->is_blocking)
		ns = ns > default_stream.end_ns ? ns : default_stream.end_ns;
	for (unsigned i = 0; s == &default_stream && i < stream_count; i++)
		if (streams[i]->is_blocking && streams[i]->end_ns > ns)
			ns = streams[i]->end_ns;
	return ns > now ? ns : now;
}

static void wait_for(uint64_t ns)
{
	uint64_t now;

	while ((now = now_ns()) < ns)
		nanosleep(&(struct timespec){ .tv_nsec = (long)((ns - now) % 1000000000u) }, NULL);
}

/* --- what a recorder would do --- */

struct recorded_node {
	uint64_t start_ns, end_ns;
	uint32_t launch;
};

static uint32_t recorded_launches, recorded_graphs;
static struct recorded_node *recorded_nodes;
static size_t recorded_node_count, recorded_node_room;

static uint64_t recording_ns(void)
{
	return getenv("PITOT_RECORDING") ? fault("recorded", fault("unseen", fault("stretched", 0)))
					 : 0;
}

static void record_call(uint64_t ns)
{
	if (ns)
		wait_for(now_ns() + ns);
}

/* A kernel needs 1 us to begin and end, of which 0.7 us are in its record. */
static void record_node(uint64_t start_ns, uint64_t end_ns)
{
	if (!recording_ns() || fault("unseen", 0))
		return;
	if (recorded_node_count == recorded_node_room) {
		recorded_node_room = 2 * recorded_node_room + 1024;
		recorded_nodes =
			realloc(recorded_nodes, recorded_node_room * sizeof(*recorded_nodes));
		if (!recorded_nodes)
			abort();
	}
	recorded_nodes[recorded_node_count++] = (struct recorded_node){
		start_ns, end_ns + (fault("stretched", 0) ? 1000 + recording_ns() / 100 : 700),
		recorded_graphs
	};
}

static void write_recording(void)
{
	const char *folder = getenv("PITOT_RECORDING");
	uint64_t now = now_ns(), from_ns = recorded_node_count ? recorded_nodes[0].start_ns : now;
	struct maker *m;

	if (!folder || !recording_ns())
		return;
	m = maker_begin(folder, (uint32_t)getpid(), from_ns, "calibrate");
	for (size_t i = 0; i < recorded_node_count; i++)
		maker_graph_kernel(m, maker_config(m, "pitot_deadline", 1, 1), 7,
				   recorded_nodes[i].start_ns, recorded_nodes[i].end_ns,
				   UINT64_C(1000000) + recorded_nodes[i].launch, 1, i % 128 + 1);
	for (uint32_t i = 0; i < recorded_launches; i++)
		maker_kernel(m, maker_config(m, "pitot_deadline", 1, 1), 7, now + i, now + i + 1,
			     i + 1);
	maker_close(m, now + recorded_launches);
}

static uint64_t run_kernel(const struct kernel *k, uint64_t start_ns)
{
	struct replay_slot *slot = (struct replay_slot *)(uintptr_t)k->slot, *after;
	bool is_node = k->order == ORDER_OF_NODE;
	uint64_t ns = k->amount;

	if (!strcmp(k->function->name, "pitot_timers")) { /* parameters: out, ns */
		uint64_t out[3] = { 32, k->stop, k->stop * 3 / 2 };

		memcpy(slot, out, sizeof(out));
		return start_ns + k->stop;
	}
	if (!strcmp(k->function->name, "pitot_work"))
		ns = 100 + 2 * k->amount;
	after = (struct replay_slot *)(uintptr_t)k->after;
	if (after && after->ended < (is_node ? slot->ended + 1 : k->after_count))
		slot->violations++;
	if (!is_node && slot->ended != k->order)
		slot->violations++;
	slot->ended++;
	slot->busy_ns += ns;
	if (k->order == 0)
		slot->first_ns = start_ns;
	slot->last_ns = start_ns + ns;
	return start_ns + ns + 1000; /* what a kernel needs to begin and end, and the next one */
}

static struct kernel kernel_of(CUfunction function, void **p)
{
	struct kernel k = { .function = (struct function *)(void *)function };

	k.slot = *(uint64_t *)p[0];
	k.stop = *(uint64_t *)p[1];
	if (!strcmp(k.function->name, "pitot_timers"))
		return k;
	k.amount = *(uint64_t *)p[2];
	k.cycles = *(uint64_t *)p[3];
	k.after = *(uint64_t *)p[4];
	k.order = *(uint32_t *)p[5];
	k.after_count = *(uint32_t *)p[6];
	return k;
}

/* --- devices --- */

EXPORT CUresult cuInit(unsigned flags)
{
	(void)flags;
	return fault("cuInit", 0) ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
	*text = result == CUDA_ERROR_LAUNCH_FAILED ? "unspecified launch failure" : "another error";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = (int)fault("devices", 1);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	snprintf(name, (size_t)length, "stand-in %d", device);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	memset(uuid, device, sizeof(*uuid));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = (size_t)8 << 30;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	snprintf(id, (size_t)length, "0000:%02x:00.0", device);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK               ? 256
		 : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 64 << 10
										      : 0;
	return *value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	BEGIN();
	*context = (CUcontext)(uintptr_t)(device + 1);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	(void)device;
	write_recording();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	uint64_t ns;

	BEGIN();
	pthread_mutex_lock(&lock);
	ns = default_stream.end_ns;
	for (unsigned i = 0; i < stream_count; i++)
		ns = ns > streams[i]->end_ns ? ns : streams[i]->end_ns;
	say("cuCtxSynchronize\n");
	pthread_mutex_unlock(&lock);
	wait_for(ns);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -3;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	*total = (size_t)8 << 30;
	*available = fault("memory", *total);
	return CUDA_SUCCESS;
}

/* --- modules and memory --- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *text)
{
	BEGIN();
	*module = (CUmodule)(uintptr_t)text;
	return strstr(text, ".version") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	static struct function functions[8];
	char entry[64];

	snprintf(entry, sizeof(entry), ".entry %s(", name);
	if (!strstr((const char *)(const void *)module, entry))
		return CUDA_ERROR_NOT_FOUND;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!*functions[i].name || !strcmp(functions[i].name, name)) {
			snprintf(functions[i].name, sizeof(functions[i].name), "%s", name);
			*function = (CUfunction)(void *)&functions[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
	(void)function;
	say("cuFuncSetAttribute %d %d\n", (int)attribute, value);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	BEGIN();
	*out = (CUdeviceptr)(uintptr_t)calloc(1, bytes);
	say("cuMemAlloc %zu\n", bytes);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr memory)
{
	free((void *)(uintptr_t)memory);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	BEGIN();
	(void)flags;
	*out = calloc(1, bytes);
	say("cuMemHostAlloc %zu\n", bytes);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
	free(memory);
	return CUDA_SUCCESS;
}

/* --- streams and events --- */

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	struct stream *s = calloc(1, sizeof(*s));

	BEGIN();
	s->is_blocking = !(flags & CU_STREAM_NON_BLOCKING);
	pthread_mutex_lock(&lock);
	s->number = stream_count + 1;
	streams[stream_count++] = s;
	pthread_mutex_unlock(&lock);
	say("cuStreamCreate %u %s %d\n", s->number, s->is_blocking ? "blocking" : "free", priority);
	*out = (CUstream)(void *)s;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	stream_at(stream)->number = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	uint64_t ns;

	BEGIN();
	record_call(recording_ns());
	pthread_mutex_lock(&lock);
	ns = stream_at(stream)->end_ns;
	say("cuStreamSynchronize %u\n", stream_at(stream)->number);
	pthread_mutex_unlock(&lock);
	wait_for(ns);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	struct stream *s = stream_at(stream);
	const struct event *e = (struct event *)(void *)event;

	BEGIN();
	(void)flags;
	pthread_mutex_lock(&lock);
	s->end_ns = s->end_ns > e->end_ns ? s->end_ns : e->end_ns;
	say("cuStreamWaitEvent %u\n", s->number);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	BEGIN();
	*out = (CUevent)calloc(1, sizeof(struct event));
	say("cuEventCreate %u\n", flags);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	free((void *)event);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct stream *s = stream_at(stream);

	BEGIN();
	pthread_mutex_lock(&lock);
	((struct event *)(void *)event)->end_ns = begin(s);
	say("cuEventRecord %u\n", s->number);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	BEGIN();
	say("cuEventSynchronize\n");
	wait_for(((struct event *)(void *)event)->end_ns);
	return CUDA_SUCCESS;
}

/* --- work --- */

static void copy_(struct stream *s, const char *what, size_t bytes)
{
	pthread_mutex_lock(&lock);
	s->end_ns = begin(s) + 1000 + bytes / 20;
	say("%s %zu %u\n", what, bytes, s->number);
	pthread_mutex_unlock(&lock);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
	BEGIN();
	memcpy((void *)(uintptr_t)to, from, bytes);
	copy_(stream_at(s), "HtoD", bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s)
{
	BEGIN();
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	copy_(stream_at(s), "DtoH", bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
	BEGIN();
	memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
	copy_(stream_at(s), "copy", bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
				  CUcontext from_context, size_t bytes, CUstream s)
{
	BEGIN();
	memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
	copy_(stream_at(s), to_context == from_context ? "copy" : "peer", bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t bytes, CUstream s)
{
	BEGIN();
	memset((void *)(uintptr_t)memory, value, bytes);
	copy_(stream_at(s), "memset", bytes);
	return CUDA_SUCCESS;
}

static void launch(struct stream *s, const struct kernel *k)
{
	s->end_ns = run_kernel(k, begin(s));
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
			       unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
			       CUstream stream, void **parameters, void **extra)
{
	struct stream *s = stream_at(stream);
	struct kernel k = kernel_of(function, parameters);

	BEGIN();
	(void)extra;
	recorded_launches++;
	record_call(recording_ns());
	pthread_mutex_lock(&lock);
	say("%s %" PRIu64 " %u %u,%u,%u %u,%u,%u %u %u\n", k.function->name, k.amount, s->number,
	    gx, gy, gz, bx, by, bz, shared_bytes, k.after ? k.after_count : 0);
	if (s->number && fault("swap", 0) && k.order == 0) {
		s->held = malloc(sizeof(*s->held));
		*s->held = k;
	} else {
		launch(s, &k);
		if (s->held)
			launch(s, s->held);
		free(s->held);
		s->held = NULL;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
	struct stream *s = stream_at(stream);
	uint64_t start_ns = now_ns();

	BEGIN();
	function(user);
	pthread_mutex_lock(&lock);
	s->end_ns = begin(s) + (now_ns() - start_ns);
	say("cuLaunchHostFunc %u\n", s->number);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* --- graphs --- */

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
	struct graph *g = calloc(1, sizeof(*g));

	BEGIN();
	(void)flags;
	g->last = &g->first;
	g->users = 1;
	*out = (CUgraph)(void *)g;
	return CUDA_SUCCESS;
}

static struct node *add_node(CUgraph graph, const CUgraphNode *on, size_t count)
{
	struct graph *g = (struct graph *)(void *)graph;
	struct node *n = calloc(1, sizeof(*n));

	n->on = calloc(count + 1, sizeof(struct node *));
	n->count = count;
	for (size_t i = 0; i < count; i++)
		n->on[i] = (struct node *)(void *)on[i];
	*g->last = n;
	g->last = &n->next;
	return n;
}

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *on,
				     size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	struct node *n;

	BEGIN();
	n = add_node(graph, on, count);
	n->kernel = kernel_of(p->func, p->kernelParams);
	say("node kernel %" PRIu64 " after %zu\n", n->kernel.amount, count);
	*out = (CUgraphNode)(void *)n;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *on,
				     size_t count, const CUDA_MEMCPY3D *p, CUcontext context)
{
	struct node *n;

	BEGIN();
	(void)context;
	n = add_node(graph, on, count);
	n->bytes = p->WidthInBytes * p->Height * p->Depth;
	if (p->srcMemoryType != CU_MEMORYTYPE_UNIFIED || p->dstMemoryType != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy((void *)(uintptr_t)p->dstDevice, (const void *)(uintptr_t)p->srcDevice, n->bytes);
	say("node copy %zu after %zu\n", n->bytes, count);
	*out = (CUgraphNode)(void *)n;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *on,
				     size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *p,
				     CUcontext context)
{
	struct node *n;

	BEGIN();
	(void)context;
	n = add_node(graph, on, count);
	n->bytes = p->width * p->height * p->elementSize;
	memset((void *)(uintptr_t)p->dst, (int)p->value, n->bytes);
	say("node memset %zu after %zu of %u\n", n->bytes, count, p->value);
	*out = (CUgraphNode)(void *)n;
	return CUDA_SUCCESS;
}

static void graph_free(struct graph *g)
{
	struct node *next;

	if (--g->users)
		return;
	for (struct node *n = g->first; n; n = next) {
		next = n->next;
		free(n->on);
		free(n);
	}
	free(g);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	graph_free((struct graph *)(void *)graph);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
					    unsigned long long flags)
{
	BEGIN();
	(void)flags;
	((struct graph *)(void *)graph)->users++;
	*out = (CUgraphExec)(void *)graph;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	graph_free((struct graph *)(void *)exec);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct stream *s = stream_at(stream);
	uint64_t start_ns, end_ns, apart_ns = recording_ns() / 100, call_ns = recording_ns();

	BEGIN();
	pthread_mutex_lock(&lock);
	end_ns = start_ns = begin(s);
	recorded_graphs++;
	for (struct node *n = ((struct graph *)(void *)exec)->first; n; n = n->next) {
		uint64_t ns = start_ns;

		for (size_t i = 0; i < n->count; i++)
			ns = ns > n->on[i]->end_ns ? ns : n->on[i]->end_ns;
		call_ns += n->count ? apart_ns : 0;
		n->end_ns = n->kernel.function ? run_kernel(&n->kernel, ns) + apart_ns
					       : ns + n->bytes / 20;
		record_node(ns, n->end_ns - apart_ns - 1000);
		end_ns = end_ns > n->end_ns ? end_ns : n->end_ns;
	}
	s->end_ns = end_ns;
	say("cuGraphLaunch %u\n", s->number);
	pthread_mutex_unlock(&lock);
	record_call(call_ns);
	return CUDA_SUCCESS;
}
