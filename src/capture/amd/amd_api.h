/*
 * amd_api.h: the part of ROCprofiler-SDK's interface that the recorder uses, declared by ourselves:
 * recordings of ROCm programs need no ROCm where Pitot is built. Names, numbers and layouts are
 * those of the SDK's public headers, version 1.x (ROCm 7 and later); tests hold them against such
 * headers where they are found.
 *
 * Structs of the SDK grow at their ends, and begin with their size: what a record is too short for
 * is not read. Statuses are a plain enum that grows, so only success is named.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_API_H
#define PITOT_CAPTURE_AMD_AMD_API_H

#include <stddef.h>
#include <stdint.h>

#define AMD_SUCCESS 0

enum amd_callback_kind {
	AMD_CALLBACK_HIP_RUNTIME = 5,
	AMD_CALLBACK_MARKER_CORE = 7,
	AMD_CALLBACK_CODE_OBJECT = 10,
	AMD_CALLBACK_HIP_STREAM = 20,
	AMD_CALLBACK_HIP_GRAPH = 22, /* from version 1.3 on */
};
enum amd_buffer_kind {
	AMD_BUFFER_MEMORY_COPY = 10,
	AMD_BUFFER_KERNEL_DISPATCH = 11,
	AMD_BUFFER_MEMORY_ALLOCATION = 16,
};
enum { AMD_CATEGORY_TRACING = 1 };
enum { AMD_LOSSLESS = 2 };
enum { AMD_AGENT_VERSION = 1, AMD_AGENT_GPU = 2 };
enum amd_phase { AMD_ENTER = 1, AMD_EXIT = 2 };
enum { AMD_CODE_OBJECT_LOAD = 1, AMD_CODE_OBJECT_SYMBOL = 2 };
enum { AMD_STREAM_SET = 3, AMD_GRAPH_LAUNCH = 3 };
enum { AMD_REQUEST_COPY = 10, AMD_REQUEST_DISPATCH = 11 };
enum { AMD_VISIBLE_HIP = 2 }; /* for HIP: what its variables hide has no number there */
enum { AMD_COPY_HTOH = 1, AMD_COPY_HTOD = 2, AMD_COPY_DTOH = 3, AMD_COPY_DTOD = 4 };
enum { AMD_ALLOCATE = 1, AMD_VMEM_ALLOCATE = 2, AMD_FREE = 3, AMD_VMEM_FREE = 4 };

struct amd_client {
	size_t size;
	const char *name; /* the tool's, for messages of the SDK */
	uint32_t handle;
};

/* What rocprofiler_configure returns. */
struct amd_configured {
	size_t size;
	int (*initialize)(void (*finalize)(struct amd_client), void *data);
	void (*finalize)(void *data);
	void *data;
};

struct amd_async_correlation {
	uint64_t internal; /* the innermost traced call's, unique in the process */
	uint64_t external; /* what the tool answered when the SDK requested one */
};
struct amd_correlation {
	uint64_t internal, external, ancestor;
};

/* Passed by value to callbacks. */
struct amd_callback {
	uint64_t context, thread;
	struct amd_correlation correlation;
	uint32_t kind;
	int32_t operation;
	uint32_t phase;
	const void *payload;
};
_Static_assert(sizeof(struct amd_callback) == 64, "");
_Static_assert(offsetof(struct amd_callback, kind) == 40, "");
_Static_assert(offsetof(struct amd_callback, payload) == 56, "");

struct amd_record_header {
	uint32_t category, kind;
	const void *payload;
};
_Static_assert(sizeof(struct amd_record_header) == 16, "");

struct amd_dispatch {
	uint64_t size;
	uint32_t kind;
	int32_t operation;
	struct amd_async_correlation correlation;
	uint64_t thread, start, end; /* CLOCK_BOOTTIME */
	uint64_t info_size, agent, queue, kernel, dispatch;
	uint32_t private_bytes, group_bytes; /* of a work item; of a work group */
	uint32_t workgroup[3], grid[3]; /* in work items */
};
_Static_assert(offsetof(struct amd_dispatch, correlation) == 16, "");
_Static_assert(offsetof(struct amd_dispatch, start) == 40, "");
_Static_assert(offsetof(struct amd_dispatch, info_size) == 56, "");
_Static_assert(offsetof(struct amd_dispatch, agent) == 64, "");
_Static_assert(offsetof(struct amd_dispatch, kernel) == 80, "");
_Static_assert(offsetof(struct amd_dispatch, private_bytes) == 96, "");
_Static_assert(offsetof(struct amd_dispatch, workgroup) == 104, "");
_Static_assert(offsetof(struct amd_dispatch, grid) == 116, "");

struct amd_copy {
	uint64_t size;
	uint32_t kind;
	int32_t operation;
	struct amd_async_correlation correlation;
	uint64_t thread, start, end;
	uint64_t to_agent, from_agent, bytes;
};
_Static_assert(offsetof(struct amd_copy, to_agent) == 56, "");
_Static_assert(offsetof(struct amd_copy, bytes) == 72, "");

/* Of memory that HSA hands out: pools of HIP, not what a framework makes of them. */
struct amd_allocation {
	uint64_t size;
	uint32_t kind;
	int32_t operation;
	struct amd_correlation correlation;
	uint64_t thread, start, end; /* of the call */
	uint64_t agent; /* of the memory; 0: unknown, as it is of what is released */
	uint64_t address, bytes; /* bytes 0: a release */
};
_Static_assert(offsetof(struct amd_allocation, start) == 48, "");
_Static_assert(offsetof(struct amd_allocation, address) == 72, "");
_Static_assert(sizeof(struct amd_allocation) == 88, "");

struct amd_symbol {
	uint64_t size, kernel, code_object;
	const char *name; /* mangled, with ".kd" at its end */
	uint64_t object;
	uint32_t kernarg_bytes, kernarg_alignment, group_bytes, private_bytes;
	uint32_t sgprs, vgprs, agprs;
};
_Static_assert(offsetof(struct amd_symbol, name) == 24, "");
_Static_assert(offsetof(struct amd_symbol, group_bytes) == 48, "");
_Static_assert(offsetof(struct amd_symbol, sgprs) == 56, "");
_Static_assert(offsetof(struct amd_symbol, agprs) == 64, "");

/* Of a stream, or of an executable graph. */
struct amd_handle {
	uint64_t size, id;
	const void *value;
};

/* rocprofiler_agent_v0_t. Members whose names begin with `at_` are not read. */
struct amd_agent {
	uint64_t size, id;
	uint32_t type, at_20[7];
	uint32_t waves_per_simd, lds_kib, at_56[2];
	uint32_t wave_size, xccs, compute_units, at_76[6];
	uint32_t gfx_version; /* major * 10000 + minor * 100 + stepping */
	uint32_t at_104;
	uint32_t location, domain; /* location: bus << 8 | device << 3 | function */
	uint32_t at_116[6];
	uint32_t max_clock_mhz, at_144[4];
	uint32_t waves_per_unit, at_164;
	uint32_t workgroup_max, at_172;
	uint64_t memory_bytes, at_184[8];
	const char *name, *at_256, *product, *at_272;
	uint32_t node, at_284;
	int32_t ordinal; /* among the agents of its type */
	uint32_t visible; /* AMD_VISIBLE_ */
	uint8_t uuid[16];
};
_Static_assert(offsetof(struct amd_agent, waves_per_simd) == 48, "");
_Static_assert(offsetof(struct amd_agent, wave_size) == 64, "");
_Static_assert(offsetof(struct amd_agent, gfx_version) == 100, "");
_Static_assert(offsetof(struct amd_agent, location) == 108, "");
_Static_assert(offsetof(struct amd_agent, max_clock_mhz) == 140, "");
_Static_assert(offsetof(struct amd_agent, waves_per_unit) == 160, "");
_Static_assert(offsetof(struct amd_agent, memory_bytes) == 176, "");
_Static_assert(offsetof(struct amd_agent, name) == 248, "");
_Static_assert(offsetof(struct amd_agent, product) == 264, "");
_Static_assert(offsetof(struct amd_agent, ordinal) == 288, "");
_Static_assert(sizeof(struct amd_agent) == 312, "");

/* Passed by value to the callbacks of counting: what a counted dispatch is. */
struct amd_counted {
	uint64_t size;
	struct amd_async_correlation correlation;
	uint64_t start, end, info_size, agent, queue, kernel, dispatch;
	uint32_t private_bytes, group_bytes, workgroup[3], grid[3], at_112[14];
};
_Static_assert(offsetof(struct amd_counted, agent) == 48, "");
_Static_assert(offsetof(struct amd_counted, kernel) == 64, "");
_Static_assert(sizeof(struct amd_counted) == 168, "");

/* A value of one instance of a counter, such as that of one shader engine. */
struct amd_counter_value {
	uint64_t id; /* of the instance */
	double value;
	uint64_t dispatch, user, agent;
};
_Static_assert(sizeof(struct amd_counter_value) == 40, "");

struct amd_counter {
	uint64_t id;
	const char *name, *description, *block, *expression;
	uint8_t flags, at_41[7];
};
_Static_assert(offsetof(struct amd_counter, description) == 16, "");

typedef void amd_on_callback(struct amd_callback record, uint64_t *user, void *data);
typedef void amd_on_buffer(uint64_t context, uint64_t buffer, struct amd_record_header **headers,
			   size_t count, void *data, uint64_t dropped);
typedef int amd_on_request(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation,
			   uint64_t correlation, uint64_t *external, void *data);
typedef int amd_on_operation(uint32_t kind, int32_t operation, void *data);
typedef int amd_on_agents(uint32_t version, const void **agents, size_t count, void *data);
typedef void amd_on_thread(uint32_t library, void *data);
typedef int amd_on_counters(uint64_t agent, uint64_t *counters, size_t count, void *data);
typedef void amd_on_dispatch(struct amd_counted dispatch, uint64_t *config, uint64_t *user,
			     void *data);
typedef void amd_on_values(struct amd_counted dispatch, struct amd_counter_value *values,
			   size_t count, uint64_t user, void *data);

/* F(name without rocprofiler_, return type, parameters): all are required. */
#define AMD_FUNCTIONS(F)                                                                           \
	F(get_status_string, const char *, int status)                                             \
	F(create_context, int, uint64_t *context)                                                  \
	F(start_context, int, uint64_t context)                                                    \
	F(stop_context, int, uint64_t context)                                                     \
	F(create_buffer, int, uint64_t context, size_t bytes, size_t watermark, uint32_t policy,   \
	  amd_on_buffer *callback, void *data, uint64_t *buffer)                                   \
	F(flush_buffer, int, uint64_t buffer)                                                      \
	F(create_callback_thread, int, uint64_t *thread)                                           \
	F(assign_callback_thread, int, uint64_t buffer, uint64_t thread)                           \
	F(at_internal_thread_create, int, amd_on_thread *before, amd_on_thread *after,             \
	  int libraries, void *data)                                                               \
	F(configure_callback_tracing_service, int, uint64_t context, uint32_t kind,                \
	  const int32_t *operations, size_t count, amd_on_callback *callback, void *data)          \
	F(configure_buffer_tracing_service, int, uint64_t context, uint32_t kind,                  \
	  const int32_t *operations, size_t count, uint64_t buffer)                                \
	F(iterate_callback_tracing_kind_operations, int, uint32_t kind,                            \
	  amd_on_operation *callback, void *data)                                                  \
	F(query_callback_tracing_kind_operation_name, int, uint32_t kind, int32_t operation,       \
	  const char **name, uint64_t *length)                                                     \
	F(query_available_agents, int, uint32_t version, amd_on_agents *callback,                  \
	  size_t agent_bytes, void *data)                                                          \
	F(configure_external_correlation_id_request_service, int, uint64_t context,                \
	  const uint32_t *kinds, size_t count, amd_on_request *callback, void *data)

/* Required for counters only. */
#define AMD_COUNTER_FUNCTIONS(F)                                                                   \
	F(iterate_agent_supported_counters, int, uint64_t agent, amd_on_counters *callback,        \
	  void *data)                                                                              \
	F(query_counter_info, int, uint64_t counter, int version, void *info)                      \
	F(create_counter_config, int, uint64_t agent, uint64_t *counters, size_t count,            \
	  uint64_t *config)                                                                        \
	F(configure_callback_dispatch_counting_service, int, uint64_t context,                     \
	  amd_on_dispatch *dispatched, void *dispatched_data, amd_on_values *counted,              \
	  void *counted_data)                                                                      \
	F(query_record_counter_id, int, uint64_t instance, uint64_t *counter)

struct amd_sdk {
#define F(name, type, ...) type (*name)(__VA_ARGS__);
	AMD_FUNCTIONS(F)
	AMD_COUNTER_FUNCTIONS(F)
#undef F
};

#endif
