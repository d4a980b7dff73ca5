/*
 * make_recording.h: small recordings for tests, written with the real writer.
 *
 *  	struct maker *m = maker_begin(dir, 100, 1000, "./app");	// dir/100.0.pit
 *  	uint32_t add = maker_config(m, "add", 4, 128);
 *  	maker_call(m, MAKER_LAUNCH, 101, 2000, 2500, 1);	// correlation 1
 *  	maker_kernel(m, add, 7, 3000, 3900, 1);			// stream 7
 *  	maker_close(m, 9000);
 *
 * Rows without a helper here are appended to m->writer. Times are in ns. A failed write ends the
 * program with a message, which fails the test.
 */
#ifndef PITOT_TESTS_MAKE_RECORDING_H
#define PITOT_TESTS_MAKE_RECORDING_H

#include "format/writer.h"

/* Ids of api_function: api << 16 | callback id. */
enum maker_function {
	MAKER_LAUNCH = 1 << 16 | 307, /* cuLaunchKernel */
	MAKER_GRAPH_LAUNCH = 1 << 16 | 514, /* cuGraphLaunch */
	MAKER_MALLOC = 2 << 16 | 20, /* cudaMalloc */
	MAKER_FREE = 2 << 16 | 22, /* cudaFree */
	MAKER_MEMCPY_BLOCKING = 2 << 16 | 31, /* cudaMemcpy */
	MAKER_MEMCPY = 2 << 16 | 41, /* cudaMemcpyAsync */
	MAKER_MEMSET = 2 << 16 | 51, /* cudaMemsetAsync */
	MAKER_STREAM_SYNCHRONIZE = 2 << 16 | 131, /* cudaStreamSynchronize */
	MAKER_EVENT_RECORD = 2 << 16 | 135, /* cudaEventRecord */
	MAKER_DEVICE_SYNCHRONIZE = 2 << 16 | 165, /* cudaDeviceSynchronize */
	MAKER_RUNTIME_LAUNCH = 2 << 16 | 211, /* cudaLaunchKernel */
	MAKER_STREAM_WAIT = 1 << 16 | 295, /* cuStreamWaitEvent */
	MAKER_EVENT_SYNCHRONIZE = 2 << 16 | 137, /* cudaEventSynchronize */
	MAKER_EVENT_QUERY = 2 << 16 | 136, /* cudaEventQuery */
	MAKER_STREAM_QUERY = 2 << 16 | 132, /* cudaStreamQuery */
	MAKER_HOST_FUNCTION = 1 << 16 | 527, /* cuLaunchHostFunc */
	MAKER_STREAM_MEMORY = 1 << 16 | 663, /* cuStreamWriteValue32_v2 */
	MAKER_BEGIN_CAPTURE = 1 << 16 | 569, /* cuStreamBeginCapture_v2 */
	MAKER_END_CAPTURE = 1 << 16 | 451, /* cuStreamEndCapture */
};

/*
 * The host of what is begun from now on, and how many days its CLOCK_MONOTONIC is ahead of that of
 * the default one, at the same CLOCK_REALTIME.
 */
struct maker_host {
	const char *name, *boot_id;
	uint64_t days;
	bool unset; /* CLOCK_REALTIME began with 1970 */
	bool unsynchronized; /* says adjtimex; or it states: */
	uint64_t max_error_ns; /* 0: nothing, if it is synchronized */
};
extern struct maker_host maker_host;
#define MAKER_DAY_NS UINT64_C(86400000000000)

struct maker {
	struct writer *writer;
	struct row_process process; /* as begun; maker_close() writes it again */
	uint32_t device, context; /* of the following rows; initially 0, 1 */
	uint32_t stack; /* call stack of the following calls; initially 0: none */
	uint32_t result; /* result of the following calls; initially 0: success */
	uint32_t nodes, stacks; /* number of stack_node and stack rows; their ids count from 1 */
	/* of the following scopes: repeats, warm-ups << 32; initially 0: unknown */
	uint64_t runs;
	bool has_scopes; /* the domain of scopes has been written */
	uint64_t session; /* session of the segments, for table symbol */
	char directory[4096], prefix[16]; /* of the segments */
};

/*
 * Begins a process's segments with process and clock rows. The pid is also the prefix of file
 * names.
 */
struct maker *maker_begin(const char *directory, uint32_t pid, uint64_t start_ns,
			  const char *command);
/* Same, with other options of the writer. Sets directory and prefix. */
struct maker *maker_begin_with(struct writer_options options, const char *directory, uint32_t pid,
			       uint64_t start_ns, const char *command);
/* Begins the session of a CPU sampler outside, in segments cpu-<pid>. */
struct maker *maker_begin_sampler(const char *directory, uint32_t pid, uint64_t start_ns,
				  const char *command);
void maker_flush(struct maker *m);
void maker_close(struct maker *m,
		 uint64_t end_ns); /* orderly end: process row with its end, index, trailer */
void maker_crash(struct maker *m); /* loses everything not flushed; frees */

/* Writes a segment of `pitot record` with one row about a process; exit_status < 0: none. */
void maker_record(const char *directory, uint32_t pid, uint32_t parent_pid, uint64_t start_ns,
		  uint64_t end_ns, const char *command, int exit_status);

uint32_t maker_string(struct maker *m, const char *text);

/* An H200 with its limits, its first context and default stream 7. */
void maker_device(struct maker *m, uint32_t id, uint64_t time_ns);
void maker_context(struct maker *m, uint32_t id, uint32_t device, uint64_t time_ns);
void maker_stream(struct maker *m, uint32_t id, uint64_t time_ns); /* in m->context */
void maker_thread(struct maker *m, uint32_t tid, const char *name, uint64_t time_ns);
void maker_clock(struct maker *m, uint64_t time_ns);

/*
 * A kernel configuration: grid × 1 × 1 blocks of `block` threads, 32 registers, no shared memory.
 */
uint32_t maker_config(struct maker *m, const char *name, uint32_t grid, uint32_t block);
/* A time of 0 is stored as missing. */
void maker_kernel(struct maker *m, uint32_t config, uint32_t stream, uint64_t start_ns,
		  uint64_t end_ns, uint64_t correlation);
void maker_graph_kernel(struct maker *m, uint32_t config, uint32_t stream, uint64_t start_ns,
			uint64_t end_ns, uint64_t correlation, uint32_t graph, uint64_t node);
void maker_memcpy(struct maker *m, enum copy_kind kind, uint64_t bytes, uint32_t stream,
		  uint64_t start_ns, uint64_t end_ns, uint64_t correlation);
void maker_memset(struct maker *m, uint64_t bytes, uint32_t stream, uint64_t start_ns,
		  uint64_t end_ns, uint64_t correlation);
void maker_synchronization(struct maker *m, enum synchronization_kind kind, uint32_t stream,
			   uint64_t start_ns, uint64_t end_ns, uint64_t correlation);
void maker_call(struct maker *m, enum maker_function function, uint32_t thread, uint64_t start_ns,
		uint64_t end_ns, uint64_t correlation);
/* A call about a stream (0: unknown) or an event (0: none). */
void maker_stream_call(struct maker *m, enum maker_function function, uint32_t thread,
		       uint64_t start_ns, uint64_t end_ns, uint32_t stream, uint64_t event);
void maker_graph_edge(struct maker *m, uint64_t dependency, uint64_t node, uint64_t time_ns);
void maker_nvtx(struct maker *m, enum nvtx_kind kind, uint32_t thread, const char *message,
		uint64_t time_ns);
/*
 * Same, in Pitot's own domain. id: of a token, or for a push the token that it continues; 0: none.
 */
void maker_scope(struct maker *m, enum nvtx_kind kind, uint32_t thread, const char *message,
		 uint64_t id, uint64_t time_ns);
/*
 * Call stacks: a module, frames with their callers (parent 0: outermost), symbols of addresses, and
 * stacks that end at a frame. Each returns its id.
 */
void maker_module(struct maker *m, const char *path, const char *build_id, uint64_t start_address,
		  uint64_t end_address, uint64_t load_bias);
uint32_t maker_native(struct maker *m, uint32_t parent, uint64_t address);
uint32_t maker_python(struct maker *m, uint32_t parent, const char *function, const char *file,
		      uint32_t line);
/* A frame of the operating system's kernel, or a frame interrupted by a sample. */
uint32_t maker_exact(struct maker *m, uint32_t parent, enum frame_kind kind, uint64_t address);
uint32_t maker_stack(struct maker *m, uint32_t node, uint32_t depth, enum stack_end end);
/* function NULL: unknown; file NULL: unknown source. */
void maker_symbol(struct maker *m, uint64_t address, uint32_t inline_depth, const char *function,
		  const char *module, const char *file, uint32_t line, uint64_t function_start);

/* stack 0: none */
void maker_cpu_sample(struct maker *m, uint32_t thread, uint64_t time_ns, uint64_t weight_ns,
		      uint32_t stack);
void maker_off_cpu(struct maker *m, uint32_t thread, uint64_t start_ns, uint64_t end_ns,
		   enum off_cpu_state state, uint32_t stack);

/* A node of a graph, created with m->stack; original 0: not cloned. */
void maker_graph_node(struct maker *m, uint64_t node, uint32_t graph, uint64_t original,
		      uint32_t thread, uint64_t time_ns);

void maker_loss(struct maker *m, enum loss_reason reason, uint64_t count, uint64_t start_ns,
		uint64_t end_ns, const char *detail);
void maker_cost(struct maker *m, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns,
		uint64_t count, uint64_t total_ns);
void maker_capability(struct maker *m, enum feature name, enum capability_state state,
		      const char *reason);
/* Same, with what is in effect. */
void maker_capability_actual(struct maker *m, enum feature name, enum capability_state state,
			     const char *actual, const char *reason);

#endif
