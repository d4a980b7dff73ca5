/*
 * amd_tool.c: Pitot as a tool of ROCprofiler-SDK. The SDK finds libpitot-rocm.so, which hands its
 * call on to pitot_rocm_configure(); contexts and buffers can be made only during the call of
 * `initialize` that follows.
 */
#include <pthread.h>
#include <signal.h>

#include "base/compiler.h"
#include "capture/amd/amd_calls.h"
#include "capture/amd/amd_counters.h"
#include "capture/amd/amd_devices.h"
#include "capture/amd/amd_kernels.h"
#include "capture/amd/amd_sdk.h"
#include "capture/amd/amd_work.h"
#include "capture/core/session.h"

#define BUFFER_BYTES (4u << 20)
/* The SDK compares it with the number of records, whatever its manual says. */
#define BUFFER_RECORDS 4096u
#define OPERATIONS_MAX 256u

static const struct amd_sdk *sdk;
static sigset_t signals; /* of the thread that makes the SDK's threads */

#define TRY(function, ...) amd_check(#function, sdk->function(__VA_ARGS__))

/* The SDK's own threads must not take the program's signals. */
static void before_thread(uint32_t library, void *data)
{
	sigset_t all;

	(void)library;
	(void)data;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &signals);
}

static void after_thread(uint32_t library, void *data)
{
	(void)library;
	(void)data;
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

struct operations {
	int32_t ids[OPERATIONS_MAX];
	size_t count;
};

static int add_operation(uint32_t kind, int32_t operation, void *data)
{
	struct operations *found = data;
	const char *name = NULL;
	uint64_t length = 0;

	if (sdk->query_callback_tracing_kind_operation_name(kind, operation, &name, &length) ==
		    AMD_SUCCESS &&
	    name && found->count < OPERATIONS_MAX && amd_calls_wants(kind, operation, name))
		found->ids[found->count++] = operation;
	return 0;
}

/* Operations are found by their names: their numbers may be another version's. */
static bool watch(uint64_t context, uint32_t kind)
{
	struct operations found = { .count = 0 };

	sdk->iterate_callback_tracing_kind_operations(kind, add_operation, &found);
	return !found.count || TRY(configure_callback_tracing_service, context, kind, found.ids,
				   found.count, amd_calls_on_callback, NULL);
}

static bool make_buffer(uint64_t context, uint64_t *buffer)
{
	uint64_t thread = 0;

	return TRY(create_buffer, context, BUFFER_BYTES, BUFFER_RECORDS, AMD_LOSSLESS,
		   amd_work_on_buffer, NULL, buffer) &&
	       TRY(create_callback_thread, &thread) &&
	       TRY(assign_callback_thread, *buffer, thread) &&
	       TRY(configure_buffer_tracing_service, context, AMD_BUFFER_KERNEL_DISPATCH, NULL, 0,
		   *buffer) &&
	       TRY(configure_buffer_tracing_service, context, AMD_BUFFER_MEMORY_COPY, NULL, 0,
		   *buffer);
}

/*
 * What the trace is complete without: the origin of work, which is unknown then, and allocations,
 * in a context that only --memory starts.
 */
static void configure_more(struct amd_contexts *contexts, uint64_t buffer)
{
	static const uint32_t work[] = { AMD_REQUEST_COPY, AMD_REQUEST_DISPATCH };

	(void)sdk->configure_external_correlation_id_request_service(
		contexts->trace, work, ARRAY_SIZE(work), amd_calls_on_request, NULL);
	if (amd_has_graphs())
		(void)sdk->configure_callback_tracing_service(contexts->trace,
							      AMD_CALLBACK_HIP_GRAPH, NULL, 0,
							      amd_calls_on_origin, NULL);
	if (sdk->create_context(&contexts->memory) != AMD_SUCCESS ||
	    sdk->configure_buffer_tracing_service(contexts->memory, AMD_BUFFER_MEMORY_ALLOCATION,
						  NULL, 0, buffer) != AMD_SUCCESS)
		contexts->memory = 0;
}

/* Kernels are watched for always, in a context of their own: code is loaded before sessions. */
static bool configure(void)
{
	struct amd_contexts contexts = { .trace = 0 };
	uint64_t kernels = 0, trace = 0, buffer = 0;

	if (!(sdk = amd_load()) || !amd_check("query_available_agents", amd_devices_read(sdk)) ||
	    !(TRY(at_internal_thread_create, before_thread, after_thread, 1, NULL) &&
	      TRY(create_context, &kernels) && TRY(create_context, &trace) &&
	      TRY(configure_callback_tracing_service, kernels, AMD_CALLBACK_CODE_OBJECT, NULL, 0,
		  amd_kernels_on_callback, NULL) &&
	      watch(trace, AMD_CALLBACK_HIP_RUNTIME) && watch(trace, AMD_CALLBACK_MARKER_CORE) &&
	      TRY(configure_callback_tracing_service, trace, AMD_CALLBACK_HIP_STREAM, NULL, 0,
		  amd_calls_on_origin, NULL) &&
	      make_buffer(trace, &buffer) && TRY(start_context, kernels)))
		return false;
	contexts.trace = trace;
	contexts.counters = amd_counters_configure(sdk);
	configure_more(&contexts, buffer);
	amd_ready(&contexts, buffer);
	return true;
}

static int initialize(void (*finalize)(struct amd_client), void *data)
{
	(void)finalize;
	(void)data;
	if (amd_state() == AMD_ABSENT)
		configure();
	session_start(SESSION_BY_amd);
	return 0;
}

/* The SDK has flushed its buffers. */
static void finalize(void *data)
{
	(void)data;
	amd_end();
}

EXPORT struct amd_configured *pitot_rocm_configure(uint32_t version, const char *text,
						   uint32_t priority, struct amd_client *client);
/*
 * rocprofiler_configure of libpitot-rocm.so. NULL means that the SDK has nothing to do for this
 * tool.
 */
EXPORT struct amd_configured *pitot_rocm_configure(uint32_t version, const char *text,
						   uint32_t priority, struct amd_client *client)
{
	static struct amd_configured configured = { .size = sizeof(configured),
						    .initialize = initialize,
						    .finalize = finalize };

	(void)text;
	(void)priority;
	client->name = "Pitot";
	amd_set_version(version);
	if (version >= 10000 && version < 20000)
		return &configured;
	amd_refuse("ROCprofiler-SDK %s has another interface than 1.x", amd_version());
	session_start(SESSION_BY_amd);
	return NULL;
}
