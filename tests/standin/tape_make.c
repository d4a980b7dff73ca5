/*
 * tape-make: writes a small tape of a made-up program, through the recorder's own writer, for tests
 * of the machinery itself. It says so in HELLO ("synthetic"); nothing on it was ever measured.
 *
 * Usually: two threads launch onto three streams; copies, sets and synchronizations in between; a
 * graph of 20 nodes is launched over and over; a third thread delivers the buffers, as CUPTI's own
 * does. The other programs are those of enum program.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "system/nvml_api.h"
#include "tape/tape_writer.h"

#define START_NS UINT64_C(5000000000000) /* CLOCK_MONOTONIC */
#define REALTIME_OFFSET                                                                            \
	UINT64_C(1700000000000000000) /* CLOCK_REALTIME and CUPTI's clock minus that */
#define VERSION 130001u
#define DRIVER_VERSION 13000
#define CONTEXT UINT64_C(0x55550000c000)
#define STREAM(i) (UINT64_C(0x555500010000) + 0x100 * (uint64_t)(i))
#define GRAPH UINT64_C(0x555500020000)
#define NODE(i) (UINT64_C(0x555500030000) + 0x40 * (uint64_t)(i))
#define EXEC_NODE(i) (UINT64_C(0x555500050000) + 0x40 * (uint64_t)(i))
#define NODE_ID (UINT64_C(1) << 32)
#define EXEC_NODE_ID (UINT64_C(2) << 32)
#define GRAPH_EXEC UINT64_C(0x555500040000)
#define NODES 20
#define STREAMS 3
#define BUFFER_RECORDS 4000
#define RECORD_BYTES_MAX 256
#define SYNTHETIC_PID 4242
#define PCI_ID "0000:01:00.0"
#define QUIET_NS UINT64_C(20000000)

enum { MAIN = 1, WORKER = 2, DELIVERER = 3 };

enum program {
	STEPS, /* the usual one; so many steps */
	/* so many kernels of 20 ms launched in a burst, then nothing on the CPU until they end */
	QUIET,
	/*
	 * so many launches with ids in each quarter of 2^32, and then with those of the first
	 * again, twice
	 */
	WRAP,
	FAST, /* so many launches of short kernels, one after the other */
	THREADS, /* so many threads, which launch ten times each */
	/*
	 * so many launches of a graph of 20 short kernels, one each 500 us, with records of nodes
	 * and of launches
	 */
	GRAPHS,
	OFTEN, /* the same, one each 100 us */
	PART, /* the usual one, on a part of a GPU (MIG) */
	CAPTURES, /* so many captures of a graph, with a launch beside and one after each */
	/*
	 * so many kernels on one stream for which one on another stream waits by an event, and then
	 * the host; a graph whose nodes are a chain, except that the last one depends on nothing
	 */
	WAITS,
	POLLS, /* so many kernels, for each of which the host queries an event until it is done */
	/*
	 * so many steps of 100 ms on the main thread, each tenth of 400 ms, each with ten launches
	 * whose kernels end after it; a launch between them; batches of 20 ms on the worker
	 */
	LOOP,
};

/* Callback ids of the driver's functions. */
enum {
	CBID_LAUNCH_EX = 652,
	CBID_LAUNCH = 307,
	CBID_GRAPH_LAUNCH = 514,
	CBID_COPY = 279,
	CBID_SET = 200,
	CBID_SYNC = 126,
	CBID_BEGIN_CAPTURE = 539,
	CBID_END_CAPTURE = 497,
	CBID_EVENT_RECORD = 119,
	CBID_EVENT_RECORD_WITH_FLAGS = 587,
	CBID_EVENT_SYNC = 122,
	CBID_EVENT_QUERY = 120,
	CBID_STREAM_WAIT = 295,
	CBID_HOST_FUNCTION = 527,
};

static struct tape_writer *writer;
static uint64_t now = START_NS, gpu_free[STREAMS];
static uint32_t correlation;
static const uint64_t *parameters; /* of the calls that follow */
static bool has_dependencies; /* the graph's nodes */
static uint8_t buffer[BUFFER_RECORDS * RECORD_BYTES_MAX];
static size_t used, record_count;
static VEC(struct tape_run) runs;

static struct tape_mark mark(uint32_t thread)
{
	now += 700;
	return (struct tape_mark){ thread, now };
}

static void say(uint32_t thread, enum tape_function function, uint64_t argument, unsigned count,
		const void *output, size_t length)
{
	struct tape_call call = {
		.function = function,
		.duration_ns = 300,
		.argument_count = count,
		.arguments = { argument },
		.output = output,
		.output_length = length,
	};

	tape_put_call(writer, mark(thread), &call);
}

static void say_hello(void)
{
	const struct tape_fact facts[] = {
		{ "cupti.version", "130001" },
		{ "cupti.library", "libcupti.so.13" },
		{ "driver.version", "13000" },
		{ "pointer.bytes", "8" },
		{ "kernel", "none" },
		{ "program", "tape-make" },
		{ "pid", "4242" },
		{ "clock.monotonic", "5000000000000" },
		{ "clock.realtime", "1700005000000000000" },
		{ "clock.boottime", "5000000000000" },
		{ "synthetic", "1" },
	};

	tape_put_thread(writer, mark(MAIN), SYNTHETIC_PID, "tape-make");
	tape_put_hello(writer, mark(MAIN), facts, ARRAY_SIZE(facts));
}

static void attribute(CUdevice_attribute which, int value)
{
	struct tape_call call = {
		.function = TAPE_cuDeviceGetAttribute,
		.argument_count = 2,
		.arguments = { (uint64_t)which, 0 },
		.output = &value,
		.output_length = sizeof(value),
	};

	tape_put_call(writer, mark(MAIN), &call);
}

static void describe_device(const char *name)
{
	const int count = 1, version = DRIVER_VERSION;
	const CUdevice device = 0;
	const uint64_t memory = UINT64_C(80) << 30;
	const uint8_t uuid[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

	say(MAIN, TAPE_cuDriverGetVersion, 0, 0, &version, sizeof(version));
	say(MAIN, TAPE_cuDeviceGetCount, 0, 0, &count, sizeof(count));
	say(MAIN, TAPE_cuDeviceGet, 0, 1, &device, sizeof(device));
	say(MAIN, TAPE_cuDeviceGetName, 0, 1, name, strlen(name));
	say(MAIN, TAPE_cuDeviceGetUuid, 0, 1, uuid, sizeof(uuid));
	say(MAIN, TAPE_cuDeviceTotalMem, 0, 1, &memory, sizeof(memory));
	say(MAIN, TAPE_cuDeviceGetPCIBusId, 0, 1, PCI_ID, strlen(PCI_ID));
	attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
	attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
	attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132);
	attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048);
	attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
	attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536);
	attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472);
	attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
}

static void describe_in_nvml(void)
{
	const uint64_t handle = UINT64_C(0x555500090000);
	const struct nvml_utilization utilization = { 100, 50 };
	const unsigned celsius = 40;
	struct tape_call call = {
		.function = TAPE_nvmlDeviceGetTemperature,
		.argument_count = 2,
		.arguments = { handle, NVML_TEMPERATURE_GPU },
		.output = &celsius,
		.output_length = sizeof(celsius),
	};

	say(MAIN, TAPE_nvmlInit_v2, 0, 0, NULL, 0);
	say(MAIN, TAPE_nvmlDeviceGetHandleByPciBusId_v2, hash_bytes(PCI_ID, strlen(PCI_ID)), 1,
	    &handle, sizeof(handle));
	say(MAIN, TAPE_nvmlDeviceGetUtilizationRates, handle, 1, &utilization, sizeof(utilization));
	tape_put_call(writer, mark(MAIN), &call);
}

/* CUPTI's clock, which runs 10 ppm fast here. */
static uint64_t cupti_time(uint64_t t)
{
	return t + REALTIME_OFFSET + (t - START_NS) / 100000;
}

static void read_clock(uint32_t thread)
{
	uint64_t t = cupti_time(now + 700 + 150);

	say(thread, TAPE_cuptiGetTimestamp, 0, 0, &t, sizeof(t));
}

/* --- activity --- */

static void put32(uint8_t *record, unsigned offset, uint32_t v)
{
	store_u32(record + offset, v);
}

static void put64(uint8_t *record, unsigned offset, uint64_t v)
{
	store_u64(record + offset, v);
}

static void deliver(void)
{
	struct tape_buffer b = {
		.context = 0,
		.stream = 0,
		.size = sizeof(buffer),
		.end_result = CUPTI_ERROR_MAX_LIMIT_REACHED,
		.runs = runs.data,
		.run_count = runs.count,
		.bytes = buffer,
		.valid = used,
	};

	if (used) {
		tape_put_request(writer, mark(DELIVERER), sizeof(buffer), 0);
		read_clock(DELIVERER);
		tape_put_buffer(writer, mark(DELIVERER), &b);
	}
	used = record_count = runs.count = 0;
}

/* Room for a record of a kind in the buffer. */
static uint8_t *new_record(CUpti_ActivityKind kind, uint32_t size)
{
	struct tape_run *last = runs.count ? &runs.data[runs.count - 1] : NULL;
	uint8_t *record;

	if (record_count == BUFFER_RECORDS) {
		deliver();
		last = NULL;
	}
	if (last && last->size == size)
		last->count++;
	else if (vec_push(&runs, ((struct tape_run){ size, 1 })) < 0)
		exit(1);
	record = buffer + used;
	memset(record, 0, size);
	put32(record, 0, (uint32_t)kind);
	used += size;
	record_count++;
	return record;
}

/* Takes `duration` on a stream, in its order, and writes start and end. */
static void put_span(uint8_t *record, unsigned offset, unsigned stream, uint64_t duration)
{
	uint64_t start = MAX(now + 4000, gpu_free[stream]);

	put64(record, offset, cupti_time(start));
	put64(record, offset + 8, cupti_time(start + duration));
	gpu_free[stream] = start + duration + 600;
}

static void put_place(uint8_t *record, unsigned stream)
{
	put32(record, 32, 0);
	put32(record, 36, 1);
	put32(record, 40, 7 + stream);
	put32(record, 44, correlation);
}

static void kernel(const char *name, unsigned stream, uint64_t duration, uint64_t node)
{
	uint8_t *r = new_record(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 216);

	r[6] = 32; /* registers */
	put_span(r, 16, stream, duration);
	put32(r, 40, 0);
	put32(r, 44, 1);
	put32(r, 48, 7 + stream);
	put32(r, 52, 128);
	put32(r, 56, 1);
	put32(r, 60, 1);
	put32(r, 64, 256);
	put32(r, 68, 1);
	put32(r, 72, 1);
	put32(r, 92, correlation);
	put64(r, 104, (uintptr_t)name);
	put64(r, 144, node);
	put32(r, 156, node ? 1 : 0);
}

static void copy(unsigned stream, uint64_t bytes, CUpti_ActivityMemcpyKind kind)
{
	uint8_t *r = new_record(CUPTI_ACTIVITY_KIND_MEMCPY, 96);

	r[4] = (uint8_t)kind;
	r[5] = kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
						       : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	r[6] = kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
						       : CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
	r[7] = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
	put64(r, 8, bytes);
	put_span(r, 16, stream, 2000 + bytes / 50);
	put_place(r, stream);
	put64(r, 88, 1);
}

static void set(unsigned stream, uint64_t bytes)
{
	uint8_t *r = new_record(CUPTI_ACTIVITY_KIND_MEMSET, 88);

	put64(r, 8, bytes);
	put_span(r, 16, stream, 1500);
	put_place(r, stream);
	r[50] = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
}

static void synchronization(unsigned stream, uint64_t start, uint64_t end)
{
	uint8_t *r = new_record(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 56);

	put32(r, 4, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
	put64(r, 8, cupti_time(start));
	put64(r, 16, cupti_time(end));
	put32(r, 24, correlation);
	put32(r, 28, 1);
	put32(r, 32, 7 + stream);
}

/* --- callbacks --- */

static int returned; /* by calls: CUDA_SUCCESS */

static void api(uint32_t thread, CUpti_ApiCallbackSite site, CUpti_CallbackId cbid,
		const char *function, const char *symbol)
{
	CUpti_CallbackData d = {
		.callbackSite = site,
		.functionName = function,
		.functionParams = parameters,
		.functionReturnValue = &returned,
		.symbolName = symbol,
		.context = (CUcontext)(uintptr_t)CONTEXT,
		.contextUid = 1,
		.correlationId = correlation,
	};

	tape_put_callback(writer, mark(thread), CUPTI_CB_DOMAIN_DRIVER_API, cbid, &d);
}

static void enter(uint32_t thread, CUpti_CallbackId cbid, const char *function, const char *symbol)
{
	if (++correlation == 0)
		correlation = 1;
	api(thread, CUPTI_API_ENTER, cbid, function, symbol);
}

static void resource(CUpti_CallbackId cbid, uint64_t stream, void *descriptor)
{
	CUpti_ResourceData d = {
		.context = (CUcontext)(uintptr_t)CONTEXT,
		.resourceHandle.stream = (CUstream)(uintptr_t)stream,
		.resourceDescriptor = descriptor,
	};

	tape_put_callback(writer, mark(MAIN), CUPTI_CB_DOMAIN_RESOURCE, cbid, &d);
}

static void answer_stream(unsigned i)
{
	uint32_t id = 7 + i;
	struct tape_call call = {
		.function = TAPE_cuptiGetStreamIdEx,
		.argument_count = 3,
		.arguments = { CONTEXT, STREAM(i), 0 },
		.output = &id,
		.output_length = sizeof(id),
	};

	tape_put_call(writer, mark(MAIN), &call);
}

static void make_context(void)
{
	const uint32_t id = 1;
	uint8_t *r;

	resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 0, NULL);
	say(MAIN, TAPE_cuptiGetContextId, CONTEXT, 1, &id, sizeof(id));
	r = new_record(CUPTI_ACTIVITY_KIND_CONTEXT, 32);
	put32(r, 4, 1);
	for (unsigned i = 0; i < STREAMS; i++) {
		resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, STREAM(i), NULL);
		answer_stream(i);
		r = new_record(CUPTI_ACTIVITY_KIND_STREAM, 24);
		put32(r, 4, 1);
		put32(r, 8, 7 + i);
	}
}

/* Its nodes are clones: these are what kernels come from. */
static void instantiate_graph(void)
{
	CUpti_GraphData d = { .graph = (CUgraph)(uintptr_t)GRAPH,
			      .graphExec = (CUgraphExec)(uintptr_t)GRAPH_EXEC };

	resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, 0, &d);
	for (unsigned i = 0; i < NODES; i++) {
		const uint64_t id = EXEC_NODE_ID + i, original = NODE_ID + i;

		d.node = (CUgraphNode)(uintptr_t)EXEC_NODE(i);
		d.originalNode = (CUgraphNode)(uintptr_t)NODE(i);
		resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0, &d);
		say(MAIN, TAPE_cuptiGetGraphNodeId, EXEC_NODE(i), 1, &id, sizeof(id));
		say(MAIN, TAPE_cuptiGetGraphNodeId, NODE(i), 1, &original, sizeof(original));
	}
	d.node = d.originalNode = NULL;
	resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, 0, &d);
}

static void make_graph(void)
{
	CUpti_GraphData d = { .graph = (CUgraph)(uintptr_t)GRAPH };
	const uint32_t graph_id = 1;

	resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED, 0, &d);
	say(MAIN, TAPE_cuptiGetGraphId, GRAPH, 1, &graph_id, sizeof(graph_id));
	for (unsigned i = 0; i < NODES; i++) {
		const uint64_t id = NODE_ID + i;

		d.node = (CUgraphNode)(uintptr_t)NODE(i);
		d.nodeType = CU_GRAPH_NODE_TYPE_KERNEL;
		resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0, &d);
		say(MAIN, TAPE_cuptiGetGraphNodeId, NODE(i), 1, &id, sizeof(id));
	}
	for (unsigned i = 1; has_dependencies && i < NODES; i++) {
		d.node = (CUgraphNode)(uintptr_t)NODE(i);
		d.dependency = (CUgraphNode)(uintptr_t)NODE(i - 1);
		resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED, 0, &d);
	}
	if (has_dependencies)
		resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING, 0, &d);
	instantiate_graph();
}

static void launch(uint32_t thread, const char *name, unsigned stream, uint64_t duration)
{
	enter(thread, CBID_LAUNCH, "cuLaunchKernel", name);
	kernel(name, stream, duration, 0);
	api(thread, CUPTI_API_EXIT, CBID_LAUNCH, "cuLaunchKernel", name);
}

static void launch_graph(void)
{
	enter(MAIN, CBID_GRAPH_LAUNCH, "cuGraphLaunch", NULL);
	for (unsigned i = 0; i < NODES; i++)
		kernel("_Z10graph_nodePfi", 0, 1800 + 50 * i, EXEC_NODE_ID + i);
	api(MAIN, CUPTI_API_EXIT, CBID_GRAPH_LAUNCH, "cuGraphLaunch", NULL);
}

/* CUPTI writes this one or those of the nodes. */
static void graph_record(uint64_t duration)
{
	uint8_t *r = new_record(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 56);

	put32(r, 4, correlation);
	put64(r, 8, cupti_time(now + 4000));
	put64(r, 16, cupti_time(now + 4000 + duration));
	put32(r, 28, 1);
	put32(r, 32, 1);
	put32(r, 36, 7);
}

static void launch_graphs_every(uint64_t ns, unsigned long launches)
{
	for (unsigned long i = 0; i < launches; i++) {
		uint64_t begun = now;

		enter(MAIN, CBID_GRAPH_LAUNCH, "cuGraphLaunch", NULL);
		graph_record(50000);
		for (unsigned k = 0; k < NODES; k++)
			kernel("_Z10graph_nodePfi", 0, 1000, EXEC_NODE_ID + k);
		api(MAIN, CUPTI_API_EXIT, CBID_GRAPH_LAUNCH, "cuGraphLaunch", NULL);
		now = begun + ns;
	}
}

static void launch_graphs(unsigned long launches)
{
	launch_graphs_every(500000, launches);
}

static void launch_graphs_often(unsigned long launches)
{
	launch_graphs_every(100000, launches);
}

static void wait_for(uint32_t thread, unsigned stream)
{
	uint64_t start;

	enter(thread, CBID_SYNC, "cuStreamSynchronize", NULL);
	start = now;
	now = MAX(now + 900, gpu_free[stream]);
	synchronization(stream, start, now);
	api(thread, CUPTI_API_EXIT, CBID_SYNC, "cuStreamSynchronize", NULL);
}

static void range_of(uint32_t thread, unsigned id, const char *text)
{
	struct tape_nvtx n = { .module = 1, .id = id, .text = text };

	tape_put_nvtx(writer, mark(thread), &n);
}

static void range(unsigned id, const char *text)
{
	range_of(MAIN, id, text);
}

static void step(unsigned long i)
{
	static const char *const names[] = {
		"_Z4gemmILi128ELi128EEvPKfS1_Pfiii",
		"_ZN2at6native18elementwise_kernelILi128ELi4EEEviPf",
		"_Z7softmaxPfi",
	};
	range(9, "step"); /* push */
	enter(MAIN, CBID_COPY, "cuMemcpyHtoDAsync_v2", NULL);
	copy(0, 1 << 20, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
	api(MAIN, CUPTI_API_EXIT, CBID_COPY, "cuMemcpyHtoDAsync_v2", NULL);
	enter(WORKER, CBID_SET, "cuMemsetD8Async", NULL);
	set(1, 4096);
	api(WORKER, CUPTI_API_EXIT, CBID_SET, "cuMemsetD8Async", NULL);
	for (unsigned k = 0; k < 12; k++)
		launch(k % 3 == 2 ? WORKER : MAIN, names[k % 3], k % STREAMS,
		       3000 + 700 * k + 10 * (i % 7));
	if (i % 4 == 3)
		launch_graph();
	wait_for(MAIN, 0);
	wait_for(WORKER, 1);
	range(11, NULL); /* pop */
	if (i % 8 == 7)
		deliver();
}

static void launch_in_a_burst(unsigned long kernels)
{
	for (unsigned long i = 0; i < kernels; i++)
		launch(MAIN, "_Z4longv", 0, QUIET_NS);
	now = MAX(now, gpu_free[0]);
}

static void launch_fast(unsigned long launches)
{
	for (unsigned long i = 0; i < launches; i++)
		launch(MAIN, "_Z5shortv", 0, 500);
	now = MAX(now, gpu_free[0]);
}

static void launch_ex(const char *name)
{
	enter(MAIN, CBID_LAUNCH_EX, "cuLaunchKernelEx", name);
	kernel(name, 0, 2000, 0);
	api(MAIN, CUPTI_API_EXIT, CBID_LAUNCH_EX, "cuLaunchKernelEx", name);
}

/*
 * Ids come back, those of other functions and other kernels, and all within one buffer: while the
 * first kernel with its id still runs, and a second later.
 */
static void launch_around_the_wrap(unsigned long launches)
{
	static const char *const names[] = { "_Z6first_v", "_Z6seconv", "_Z6third_v",
					     "_Z6fourthv" };

	for (unsigned lap = 0; lap < 2; lap++) {
		for (unsigned quarter = lap; quarter < 4; quarter++) {
			correlation = (quarter << 30) + 1000 * (lap + 1);
			for (unsigned long i = 0; i < launches; i++)
				launch(MAIN, names[quarter], i || quarter ? 0 : 1,
				       i || quarter ? 500 : 5000000);
		}
		correlation = 0u - (uint32_t)launches;
		for (unsigned long i = 0; i < 2 * launches + 1000; i++)
			lap ? launch(MAIN, "_Z5againv", 0, 2000) : launch_ex("_Z4lastv");
		now = MAX(now, gpu_free[0]) + 1000000000;
	}
}

static void launch_from_threads(unsigned long threads)
{
	for (unsigned long i = 0; i < threads; i++) {
		uint32_t thread = tape_new_thread(writer);

		tape_put_thread(writer, mark(thread), SYNTHETIC_PID + thread, "launcher");
	}
	for (unsigned round = 0; round < 10; round++)
		for (uint32_t i = 0; i < threads; i++)
			launch(DELIVERER + 1 + i, "_Z5shortv", i % STREAMS, 1000);
	now = MAX(now, gpu_free[0]);
}

/* The captures' launches have no records. */
static void capture_graphs(unsigned long captures)
{
	for (unsigned long i = 0; i < captures; i++) {
		enter(MAIN, CBID_BEGIN_CAPTURE, "cuStreamBeginCapture_v2", NULL);
		api(MAIN, CUPTI_API_EXIT, CBID_BEGIN_CAPTURE, "cuStreamBeginCapture_v2", NULL);
		launch(WORKER, "_Z6besidev", 1, 2000);
		enter(MAIN, CBID_END_CAPTURE, "cuStreamEndCapture", NULL);
		api(MAIN, CUPTI_API_EXIT, CBID_END_CAPTURE, "cuStreamEndCapture", NULL);
		launch(WORKER, "_Z5afterv", 1, 2000);
	}
	now = MAX(now, gpu_free[1]);
}

static void call_with(uint32_t thread, CUpti_CallbackId cbid, const char *function, uint64_t first,
		      uint64_t second)
{
	const uint64_t words[TAPE_PARAMETERS_MAX] = { first, second };

	parameters = words;
	enter(thread, cbid, function, NULL);
	if (cbid == CBID_SYNC || cbid == CBID_EVENT_SYNC)
		now = MAX(now, gpu_free[2]);
	api(thread, CUPTI_API_EXIT, cbid, function, NULL);
	parameters = NULL;
}

static void wait_for_events(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		const uint64_t event = UINT64_C(0x555500060000) + 0x40 * (i % 3);

		launch(MAIN, "_Z8producerv", 1, 20000);
		call_with(MAIN, CBID_EVENT_RECORD, "cuEventRecord", event, STREAM(1));
		call_with(MAIN, CBID_STREAM_WAIT, "cuStreamWaitEvent", STREAM(2), event);
		gpu_free[2] = MAX(gpu_free[1], gpu_free[2]);
		launch(MAIN, "_Z8consumerv", 2, 10000);
		call_with(MAIN, CBID_HOST_FUNCTION, "cuLaunchHostFunc", STREAM(2), 0);
		call_with(MAIN, CBID_EVENT_RECORD_WITH_FLAGS, "cuEventRecordWithFlags", event,
			  STREAM(2));
		call_with(MAIN, CBID_EVENT_SYNC, "cuEventSynchronize", event, 0);
		call_with(MAIN, CBID_SYNC, "cuStreamSynchronize", STREAM(1), 0);
	}
	launch_graph();
	now = MAX(now, gpu_free[0]);
}

/* A query each 10 us, after one of an event that is done. */
static void poll_events(unsigned long rounds)
{
	const uint64_t event = UINT64_C(0x555500060000);

	for (unsigned long i = 0; i < rounds; i++) {
		launch(MAIN, "_Z6polledv", 1, 200000);
		call_with(MAIN, CBID_EVENT_RECORD, "cuEventRecord", event, STREAM(1));
		call_with(MAIN, CBID_EVENT_QUERY, "cuEventQuery", UINT64_C(0x555500070000), 0);
		for (returned = CUDA_ERROR_NOT_READY; now < gpu_free[1]; now += 10000)
			call_with(MAIN, CBID_EVENT_QUERY, "cuEventQuery", event, 0);
		returned = 0;
		call_with(MAIN, CBID_EVENT_QUERY, "cuEventQuery", event, 0);
	}
}

static void train(unsigned long steps)
{
	for (unsigned long i = 0; i < steps; i++) {
		range(9, "train_step");
		now += i % 10 == 9 ? 330000000 : 30000000;
		deliver();
		for (unsigned k = 0; k < 10; k++)
			launch(MAIN, "_Z7in_stepv", 0, 6000000);
		range_of(WORKER, 9, "batch");
		now += 20000000;
		range_of(WORKER, 11, NULL);
		now += 48000000;
		range(11, NULL); /* pop */
		now += 1000000;
		launch(MAIN, "_Z7betweenv", 1, 1000000);
		now += 1000000;
	}
	now += 30000000;
}

static void play_steps(unsigned long steps)
{
	for (unsigned long i = 0; i < steps; i++)
		step(i);
}

static const struct {
	const char *name;
	void (*play)(unsigned long count);
	unsigned long count; /* if none is given */
} programs[] = {
	[STEPS] = { "steps", play_steps, 24 },
	[QUIET] = { "quiet", launch_in_a_burst, 300 },
	[WRAP] = { "wrap", launch_around_the_wrap, 100 },
	[FAST] = { "fast", launch_fast, 20000 },
	[THREADS] = { "threads", launch_from_threads, 300 },
	[GRAPHS] = { "graphs", launch_graphs, 6000 },
	[OFTEN] = { "often", launch_graphs_often, 6000 },
	[PART] = { "part", play_steps, 24 },
	[CAPTURES] = { "captures", capture_graphs, 20 },
	[WAITS] = { "waits", wait_for_events, 8 },
	[POLLS] = { "polls", poll_events, 8 },
	[LOOP] = { "loop", train, 100 },
};

static void play_program(enum program program, unsigned long count)
{
	const uint32_t version = VERSION;

	say_hello();
	describe_device(program == PART ? "Synthetic GPU MIG 1g.5gb" : "Synthetic GPU");
	describe_in_nvml();
	say(MAIN, TAPE_cuptiGetVersion, 0, 0, &version, sizeof(version));
	read_clock(MAIN);
	tape_put_thread(writer, mark(WORKER), SYNTHETIC_PID + 1, "worker");
	tape_put_thread(writer, mark(DELIVERER), SYNTHETIC_PID + 2, "deliverer");
	make_context();
	has_dependencies = program == WAITS;
	make_graph();
	programs[program].play(count);
	deliver();
	read_clock(DELIVERER);
	resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0, NULL);
}

int main(int argc, char **argv)
{
	enum program program = STEPS;
	unsigned long count;
	int fd;

	while (argc > 2 && program < ARRAY_SIZE(programs) &&
	       strcmp(argv[2], programs[program].name))
		program++;
	if (argc < 2 || argc > 4 || program == ARRAY_SIZE(programs)) {
		fputs("usage: tape-make FILE [steps|quiet|wrap|fast|threads|graphs|often|part|"
		      "captures|waits|polls|loop [COUNT]]\n",
		      stderr);
		return 2;
	}
	count = argc > 3 ? strtoul(argv[3], NULL, 10) : programs[program].count;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		fprintf(stderr, "tape-make: cannot create '%s': %s\n", argv[1], strerror(errno));
		return 1;
	}
	writer = tape_writer_new();
	if (!writer || tape_writer_start(writer, fd) < 0)
		return 1;
	for (int i = 0; i < 3; i++)
		tape_new_thread(writer);
	play_program(program, count);
	tape_writer_finish(writer, now);
	tape_writer_free(writer);
	vec_release(&runs);
	return 0;
}
