/*
 * standin_rocprofiler.c: librocprofiler-sdk.so.1 for tests: lets tools (standin_tools.h) configure
 * contexts and buffers and then no more, calls back on the thread of a call, delivers work from a
 * thread of its own when it has ended, blocks whoever fills a LOSSLESS buffer, forgets what comes
 * while another one is flushed, and finalizes in an exit handler. Its layouts are those of
 * src/capture/amd/amd_api.h.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/amd/amd_api.h"
#include "rocm_standin.h"
#include "standin_counters.h"
#include "standin_tools.h"

#define PUBLIC __attribute__((visibility("default")))
#define CONTEXTS_MAX 8u
#define BUFFERS_MAX 4u
#define KINDS 33u
#define OPERATIONS 1024u
#define LOCKED 7 /* CONFIGURATION_LOCKED */
#define INVALID 2
#define FINALIZED 30
#define WORK_NS 20000u

struct service {
	amd_on_callback *callback;
	void *data;
	bool all, operations[OPERATIONS];
	uint64_t buffer;
};

static struct context {
	bool exists, active;
	struct service *callbacks[KINDS], *buffers[KINDS];
	amd_on_request *request; /* for external ids of work */
	bool requests[32]; /* by kind */
} contexts[CONTEXTS_MAX];

struct record {
	struct amd_record_header header;
	char payload[192];
};
_Static_assert(sizeof(struct amd_allocation) <= 192, "it fits into a record");

static struct buffer {
	struct record *records;
	size_t capacity, count, watermark;
	amd_on_buffer *callback;
	void *data;
	bool flushing, discards;
	uint64_t flushes;
} buffers[BUFFERS_MAX];

/* Work that has not ended. */
struct work {
	struct work *next;
	uint64_t contexts; /* bits: those that were active when it was enqueued */
	uint64_t enqueued;
	unsigned gpu;
	bool is_copy;
	union {
		struct amd_dispatch dispatch;
		struct amd_copy copy;
	};
	uint64_t external[CONTEXTS_MAX], stream, config;
	const char *name;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first;
static uint64_t outstanding;
static atomic_uint_fast64_t last_correlation, last_dispatch;
static FILE *truth;

static __thread struct {
	uint64_t correlations[8];
	unsigned depth;
	uint64_t user[8 + KINDS][CONTEXTS_MAX]; /* of nested calls, and by kind */
} thread;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- buffers --- */

/* The lock is held, and given up while the tool is called. */
static void deliver(struct buffer *b)
{
	struct amd_record_header **headers = calloc(b->count + 1, sizeof(*headers));
	struct record *records = b->records;
	size_t count = b->count;
	uint64_t id = (uint64_t)(b - buffers) + 1;

	b->flushing = true;
	b->records = calloc(b->capacity, sizeof(*records));
	b->count = 0;
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < count; i++) {
		records[i].header.payload = records[i].payload;
		headers[i] = &records[i].header;
	}
	if (count)
		b->callback(0, id, headers, count, b->data, has_fault("drops", NULL) ? 3 : 0);
	free(headers);
	free(records);
	pthread_mutex_lock(&lock);
	b->flushing = false;
	b->flushes++;
	pthread_cond_broadcast(&changed);
}

/* The callback thread: flushes buffers that are full enough or of which that was asked. */
static uint64_t asked[BUFFERS_MAX];

static void *callback_main(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		bool did = false;

		for (unsigned i = 0; i < BUFFERS_MAX; i++) {
			struct buffer *b = &buffers[i];

			if (!b->callback || (b->flushes >= asked[i] && b->count < b->watermark))
				continue;
			deliver(b);
			did = true;
		}
		if (!did)
			pthread_cond_wait(&changed, &lock);
	}
	return unused;
}

/* A buffer that discards has room for nothing while it is flushed, and does not count that. */
static void insert(struct buffer *b, uint32_t kind, const void *payload, size_t size)
{
	if (b->discards && (b->flushing || b->count == b->capacity))
		return;
	while (b->count == b->capacity)
		pthread_cond_wait(&changed, &lock);
	b->records[b->count].header.category = AMD_CATEGORY_TRACING;
	b->records[b->count].header.kind = has_fault("kinds", NULL) ? kind + 20 : kind;
	memcpy(b->records[b->count].payload, payload, size);
	if (++b->count == b->watermark)
		pthread_cond_broadcast(&changed);
}

/* --- work --- */

static void tell_truth(const struct work *w, uint64_t start, uint64_t end)
{
	const struct amd_dispatch *d = &w->dispatch;

	if (truth && w->is_copy)
		fprintf(truth,
			"{\"what\": \"copy\", \"start\": %lu, \"end\": %lu, \"operation\": %d, "
			"\"bytes\": "
			"%lu, \"correlation\": %lu, \"to\": %lu, \"from\": %lu}\n",
			start, end, w->copy.operation, w->copy.bytes, w->copy.correlation.internal,
			w->copy.to_agent, w->copy.from_agent);
	else if (truth)
		fprintf(truth,
			"{\"what\": \"kernel\", \"name\": \"%s\", \"start\": %lu, \"end\": %lu, "
			"\"gpu\": %u, "
			"\"queue\": %lu, \"correlation\": %lu, \"stream\": %lu, \"workgroup\": "
			"[%u, %u, "
			"%u], \"items\": [%u, %u, %u], \"group_bytes\": %u, \"private_bytes\": "
			"%u}\n",
			w->name, start, end, w->gpu, d->queue, d->correlation.internal, w->stream,
			d->workgroup[0], d->workgroup[1], d->workgroup[2], d->grid[0], d->grid[1],
			d->grid[2], d->group_bytes, d->private_bytes);
}

static void finish(struct work *w, uint64_t start, uint64_t end)
{
	uint32_t kind = w->is_copy ? AMD_BUFFER_MEMORY_COPY : AMD_BUFFER_KERNEL_DISPATCH;

	tell_truth(w, start, end);
	/* start and end lie at the same place in both */
	w->dispatch.start = has_fault("no-times", NULL) ? 0 : start;
	w->dispatch.end = has_fault("reversed", NULL) ? start - 1 : end;
	if (has_fault("no-times", NULL))
		w->dispatch.end = 0;
	if (has_fault("ticks", NULL)) /* of another clock */
		w->dispatch.start = w->dispatch.end = UINT64_MAX - 1;
	for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
		struct service *s = contexts[i].buffers[kind];

		if (!(w->contexts >> i & 1) || !s)
			continue;
		w->dispatch.correlation.external = w->external[i];
		insert(&buffers[s->buffer - 1], kind, &w->dispatch,
		       w->is_copy ? sizeof(w->copy) : sizeof(w->dispatch));
	}
}

static struct amd_counted counted_of(const struct work *w)
{
	const struct amd_dispatch *d = &w->dispatch;

	return (struct amd_counted){ .size = sizeof(struct amd_counted),
				     .correlation = d->correlation,
				     .info_size = 128,
				     .agent = d->agent,
				     .kernel = d->kernel,
				     .dispatch = d->dispatch };
}

static void choose_counters(struct work *w)
{
	uint64_t context = standin_counters_context();
	struct amd_counted counted = counted_of(w);

	if (!w->is_copy && context && contexts[context - 1].active)
		w->config = standin_counters_ask(context, &counted);
}

/* The GPU: one piece of work after the other, each WORK_NS long. */
static void *gpu_main(void *unused)
{
	uint64_t free_at = 0;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct work *w = first;
		uint64_t start;

		if (!w) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		first = w->next;
		if (!first)
			last = &first;
		start = free_at > w->enqueued ? free_at : w->enqueued;
		free_at = start + WORK_NS;
		pthread_mutex_unlock(&lock);
		while (now() < free_at)
			usleep(20);
		if (w->config) {
			struct amd_counted counted = counted_of(w);

			standin_counters_deliver(&counted, w->config, truth);
		}
		pthread_mutex_lock(&lock);
		finish(w, start, free_at);
		free(w);
		outstanding--;
		pthread_cond_broadcast(&changed);
	}
	return unused;
}

static void request_ids(struct work *w, uint64_t correlation)
{
	uint32_t kind = w->is_copy ? AMD_REQUEST_COPY : AMD_REQUEST_DISPATCH;

	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		if (contexts[i].active && contexts[i].requests[kind] &&
		    contexts[i].request(w->dispatch.thread, i + 1, kind, 0, correlation,
					&w->external[i], NULL) != 0)
			w->external[i] = 0;
}

static void enqueue(struct work *w)
{
	uint64_t correlation = thread.depth ? thread.correlations[thread.depth - 1]
					    : atomic_fetch_add(&last_correlation, 1) + 1;

	w->dispatch.kind = w->is_copy ? AMD_BUFFER_MEMORY_COPY : AMD_BUFFER_KERNEL_DISPATCH;
	w->dispatch.correlation.internal = correlation;
	w->dispatch.thread = (uint64_t)gettid();
	w->enqueued = now();
	choose_counters(w);
	request_ids(w, correlation);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		w->contexts |= (uint64_t)contexts[i].active << i;
	*last = w;
	last = &w->next;
	outstanding++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void on_dispatch(const struct standin_dispatch *d)
{
	struct work *w = calloc(1, sizeof(*w));

	w->gpu = d->gpu;
	w->name = d->kernel->name;
	w->stream = d->stream;
	w->dispatch = (struct amd_dispatch){
		.size = has_fault("short", NULL)    ? 100
			: has_fault("longer", NULL) ? 192
						    : 184,
		.info_size = 128,
		.agent = STANDIN_AGENT(d->gpu),
		.queue = 1 + d->stream % 4,
		.kernel = d->kernel->id,
		.dispatch = atomic_fetch_add(&last_dispatch, 1) + 1,
		.private_bytes = d->private_bytes,
		.group_bytes = d->group_bytes,
	};
	memcpy(w->dispatch.workgroup, d->workgroup, sizeof(d->workgroup));
	memcpy(w->dispatch.grid, d->grid, sizeof(d->grid));
	enqueue(w);
}

static void on_copy(int32_t operation, uint64_t to, uint64_t from, uint64_t bytes)
{
	struct work *w = calloc(1, sizeof(*w));

	w->is_copy = true;
	w->copy = (struct amd_copy){ .size = 96,
				     .operation = operation,
				     .to_agent = to,
				     .from_agent = from,
				     .bytes = bytes };
	enqueue(w);
}

/* HSA's call has returned: its record goes into the buffer on the program's thread. */
static void on_memory(int32_t operation, uint64_t agent, uint64_t address, uint64_t bytes)
{
	uint64_t start = now();
	struct amd_allocation a = { .size = sizeof(a),
				    .kind = AMD_BUFFER_MEMORY_ALLOCATION,
				    .operation = operation,
				    .thread = (uint64_t)gettid(),
				    .start = start,
				    .end = start + 500,
				    .agent = agent,
				    .address = address,
				    .bytes = bytes };

	if (thread.depth)
		a.correlation.internal = thread.correlations[thread.depth - 1];
	if (truth)
		fprintf(truth,
			"{\"what\": \"memory\", \"start\": %lu, \"end\": %lu, \"operation\": %d, "
			"\"correlation\": %lu, \"agent\": %lu, \"address\": %lu, \"bytes\": %lu}\n",
			a.start, a.end, operation, a.correlation.internal, agent, address, bytes);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		if (contexts[i].active && contexts[i].buffers[a.kind])
			insert(&buffers[contexts[i].buffers[a.kind]->buffer - 1], a.kind, &a,
			       sizeof(a));
	pthread_mutex_unlock(&lock);
}

static void wait_for_work(void)
{
	pthread_mutex_lock(&lock);
	while (outstanding)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* --- callbacks --- */

static bool is_wanted(const struct service *s, int32_t operation)
{
	return s && (s->all || s->operations[operation]);
}

static void on_call(uint32_t kind, int32_t operation, uint32_t phase, void *payload)
{
	bool is_api = kind == AMD_CALLBACK_HIP_RUNTIME, any = false;
	unsigned level;

	if (kind == AMD_CALLBACK_HIP_STREAM && has_fault("no-streams", NULL))
		return;
	if (kind == AMD_CALLBACK_HIP_STREAM && has_fault("many-streams", NULL))
		((uint64_t *)payload)[1] += 1u << 20;
	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		any |= contexts[i].active && is_wanted(contexts[i].callbacks[kind], operation);
	if (is_api && phase == AMD_ENTER && any && thread.depth < 8)
		thread.correlations[thread.depth++] = atomic_fetch_add(&last_correlation, 1) + 1;
	level = is_api ? thread.depth % 8 : 8 + kind;
	for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
		struct service *s = contexts[i].callbacks[kind];
		struct amd_callback record = { .context = i + 1,
					       .thread = (uint64_t)gettid(),
					       .kind = kind,
					       .operation = operation,
					       .phase = phase,
					       .payload = payload };

		if (!contexts[i].active || !is_wanted(s, operation))
			continue;
		if (thread.depth)
			record.correlation.internal = thread.correlations[thread.depth - 1];
		if (phase == AMD_ENTER)
			thread.user[level][i] = 0;
		s->callback(record, &thread.user[level][i], s->data);
	}
	if (is_api && phase == AMD_EXIT && thread.depth)
		thread.depth--;
}

static void on_loaded(const struct standin_kernel *kernel)
{
	struct {
		struct amd_symbol symbol;
		uint64_t more[2];
	} payload = { .symbol = { .size = 88,
				  .kernel = kernel->id,
				  .code_object = 1,
				  .name = kernel->name,
				  .group_bytes = 1024,
				  .sgprs = 32,
				  .vgprs = 64,
				  .agprs = 8 } };

	if (has_fault("no-symbols", NULL))
		return;
	on_call(AMD_CALLBACK_CODE_OBJECT, AMD_CODE_OBJECT_SYMBOL, AMD_ENTER, &payload);
}

/* --- the interface --- */

/* Most functions begin so. */
#define FAIL_IF_ASKED(name)                                                                        \
	do {                                                                                       \
		if (standin_status_of(#name))                                                      \
			return standin_status_of(#name);                                           \
	} while (0)

#define FUNCTION(name, ...)                                                                        \
	PUBLIC int rocprofiler_##name(__VA_ARGS__);                                                \
	PUBLIC int rocprofiler_##name(__VA_ARGS__)

PUBLIC const char *rocprofiler_get_status_string(int status);
PUBLIC const char *rocprofiler_get_status_string(int status)
{
	return status == LOCKED ? "Configuration is locked"
	       : status == 5    ? "Service is not there"
				: NULL;
}

FUNCTION(create_context, uint64_t *context)
{
	if (standin_locked)
		return LOCKED;
	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		if (!contexts[i].exists) {
			contexts[i].exists = true;
			*context = i + 1;
			return standin_status_of("create_context");
		}
	return INVALID;
}

static int set_active(uint64_t context, bool active)
{
	if (!context || context > CONTEXTS_MAX || !contexts[context - 1].exists)
		return INVALID;
	pthread_mutex_lock(&lock);
	contexts[context - 1].active = active;
	pthread_mutex_unlock(&lock);
	return AMD_SUCCESS;
}

FUNCTION(start_context, uint64_t context)
{
	int status = standin_status_of("start_context");

	return standin_finalized ? FINALIZED : status ? status : set_active(context, true);
}

FUNCTION(stop_context, uint64_t context)
{
	FAIL_IF_ASKED(stop_context);
	return standin_finalized ? FINALIZED : set_active(context, false);
}

FUNCTION(create_buffer, uint64_t context, size_t bytes, size_t watermark, uint32_t policy,
	 amd_on_buffer *callback, void *data, uint64_t *buffer)
{
	(void)context;
	if (standin_locked || standin_status_of("create_buffer"))
		return standin_locked ? LOCKED : standin_status_of("create_buffer");
	for (unsigned i = 0; i < BUFFERS_MAX; i++)
		if (!buffers[i].callback) {
			buffers[i] = (struct buffer){ .capacity = bytes / 184,
						      .watermark = watermark,
						      .discards = policy != AMD_LOSSLESS,
						      .callback = callback,
						      .data = data };
			buffers[i].records = calloc(buffers[i].capacity, sizeof(struct record));
			*buffer = i + 1;
			return AMD_SUCCESS;
		}
	return INVALID;
}

static void start_thread(void *(*function)(void *))
{
	pthread_t id;

	if (pthread_create(&id, NULL, function, NULL) == 0)
		pthread_detach(id);
}

static bool has_thread; /* of callbacks */

FUNCTION(flush_buffer, uint64_t buffer)
{
	FAIL_IF_ASKED(flush_buffer);
	struct buffer *b = &buffers[buffer - 1];
	uint64_t goal;

	if (standin_finalized)
		return FINALIZED;
	while (has_fault("hang", NULL))
		pause();
	if (!has_thread) {
		has_thread = true; /* the SDK's default one */
		start_thread(callback_main);
	}
	pthread_mutex_lock(&lock);
	goal = b->flushes + (b->flushing ? 2 : 1);
	asked[buffer - 1] = goal;
	pthread_cond_broadcast(&changed);
	while (b->flushes < goal)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return AMD_SUCCESS;
}

static struct {
	amd_on_thread *before, *after;
	void *data;
} thread_hooks;

FUNCTION(create_callback_thread, uint64_t *out)
{
	FAIL_IF_ASKED(create_callback_thread);
	*out = 1;
	has_thread = true;
	if (thread_hooks.before)
		thread_hooks.before(1, thread_hooks.data);
	start_thread(callback_main);
	if (thread_hooks.after)
		thread_hooks.after(1, thread_hooks.data);
	return AMD_SUCCESS;
}

FUNCTION(assign_callback_thread, uint64_t buffer, uint64_t id)
{
	FAIL_IF_ASKED(assign_callback_thread);
	return buffer && buffer <= BUFFERS_MAX && id == 1 ? AMD_SUCCESS : INVALID;
}

FUNCTION(at_internal_thread_create, amd_on_thread *before, amd_on_thread *after, int libraries,
	 void *data)
{
	FAIL_IF_ASKED(at_internal_thread_create);
	(void)libraries;
	thread_hooks.before = before;
	thread_hooks.after = after;
	thread_hooks.data = data;
	return AMD_SUCCESS;
}

static struct service *service_of(const int32_t *operations, size_t count)
{
	struct service *s = calloc(1, sizeof(*s));

	s->all = !count;
	for (size_t i = 0; i < count; i++)
		s->operations[operations[i]] = true;
	return s;
}

FUNCTION(configure_callback_tracing_service, uint64_t context, uint32_t kind,
	 const int32_t *operations, size_t count, amd_on_callback *callback, void *data)
{
	struct service *s = service_of(operations, count);

	if (kind == AMD_CALLBACK_HIP_GRAPH && has_fault("no-graphs", NULL))
		return INVALID;
	s->callback = callback;
	s->data = data;
	contexts[context - 1].callbacks[kind] = s;
	return standin_locked ? LOCKED : standin_status_of("configure_callback_tracing_service");
}

FUNCTION(configure_buffer_tracing_service, uint64_t context, uint32_t kind,
	 const int32_t *operations, size_t count, uint64_t buffer)
{
	FAIL_IF_ASKED(configure_buffer_tracing_service);
	if (kind == AMD_BUFFER_MEMORY_ALLOCATION && has_fault("no-allocations", NULL))
		return INVALID;
	struct service *s = service_of(operations, count);

	s->buffer = buffer;
	contexts[context - 1].buffers[kind] = s;
	return standin_locked ? LOCKED : AMD_SUCCESS;
}

#define ROW(name, number) { #name, number },
static const struct {
	const char *name;
	int32_t number;
} hip_operations[] = { STANDIN_HIP(ROW) }, marker_operations[] = { STANDIN_ROCTX(ROW) };
#undef ROW
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

FUNCTION(iterate_callback_tracing_kind_operations, uint32_t kind, amd_on_operation *callback,
	 void *data)
{
	FAIL_IF_ASKED(iterate_callback_tracing_kind_operations);
	for (size_t i = 0; kind == AMD_CALLBACK_HIP_RUNTIME && i < COUNT(hip_operations); i++)
		callback(kind, hip_operations[i].number, data);
	for (size_t i = 0; kind == AMD_CALLBACK_MARKER_CORE && i < COUNT(marker_operations); i++)
		callback(kind, marker_operations[i].number, data);
	return AMD_SUCCESS;
}

FUNCTION(query_callback_tracing_kind_operation_name, uint32_t kind, int32_t operation,
	 const char **name, uint64_t *length)
{
	FAIL_IF_ASKED(query_callback_tracing_kind_operation_name);
	bool is_hip = kind == AMD_CALLBACK_HIP_RUNTIME;

	*name = NULL;
	for (size_t i = 0; is_hip && i < COUNT(hip_operations); i++)
		if (hip_operations[i].number == operation)
			*name = hip_operations[i].name;
	for (size_t i = 0; !is_hip && i < COUNT(marker_operations); i++)
		if (marker_operations[i].number == operation)
			*name = marker_operations[i].name;
	*length = *name ? strlen(*name) : 0;
	return *name ? AMD_SUCCESS : INVALID;
}

FUNCTION(query_available_agents, uint32_t version, amd_on_agents *callback, size_t bytes,
	 void *data)
{
	FAIL_IF_ASKED(query_available_agents);
	struct amd_agent agents[1 + STANDIN_GPUS] = {
		{ .size = 312, .id = 99, .type = 1, .name = "a CPU", .product = "" }
	};
	const void *list[1 + STANDIN_GPUS] = { &agents[0] };

	for (unsigned i = 0; i < STANDIN_GPUS; i++) {
		agents[i + 1] = (struct amd_agent){ .size = 312,
						    .id = STANDIN_AGENT(i),
						    .type = AMD_AGENT_GPU,
						    .waves_per_simd = 8,
						    .lds_kib = 64,
						    .wave_size = 64,
						    .xccs = 1,
						    .compute_units = 104 + i,
						    .gfx_version = 90010,
						    .location = 0x8300 + 0x100 * i,
						    .max_clock_mhz = 1700,
						    .waves_per_unit = 32,
						    .workgroup_max = 1024,
						    .memory_bytes = UINT64_C(64) << 30,
						    .name = "gfx90a",
						    .product = "AMD Instinct MI210",
						    .node = 1 + i,
						    .ordinal = (int32_t)i,
						    .visible = 15 };
		if (has_fault("bare-agents", NULL))
			agents[i + 1].wave_size = agents[i + 1].max_clock_mhz =
				agents[i + 1].lds_kib = 0;
		agents[i + 1].uuid[0] = (uint8_t)(0xa0 + i);
		list[i + 1] = &agents[i + 1];
	}
	return bytes == sizeof(struct amd_agent)
		       ? callback(version, list, has_fault("no-gpus", NULL) ? 1 : 1 + STANDIN_GPUS,
				  data)
		       : INVALID;
}

FUNCTION(configure_external_correlation_id_request_service, uint64_t context, const uint32_t *kinds,
	 size_t count, amd_on_request *callback, void *data)
{
	FAIL_IF_ASKED(configure_external_correlation_id_request_service);
	(void)data;
	for (size_t i = 0; i < count; i++)
		contexts[context - 1].requests[kinds[i]] = true;
	contexts[context - 1].request = callback;
	return standin_locked ? LOCKED : AMD_SUCCESS;
}

/* --- its start and end --- */

static void flush_all(void)
{
	for (unsigned i = 0; i < BUFFERS_MAX && !has_fault("hang", NULL); i++)
		if (buffers[i].callback)
			rocprofiler_flush_buffer(i + 1);
	if (truth)
		fflush(truth);
}

/* A child that calls HIP must not wait for a thread that it does not have. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

PUBLIC int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance,
				     void **tables, uint64_t count);
PUBLIC int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance,
				     void **tables, uint64_t count)
{
	const char *path = getenv("STANDIN_ROCM_TRUTH");

	(void)name;
	(void)version;
	(void)instance;
	(void)count;
	if (path)
		truth = fopen(path, "a");
	standin_tools_start(flush_all);
	start_thread(gpu_main);
	pthread_atfork(before_fork, after_fork, after_fork);
	*(struct standin_hooks *)tables[0] = (struct standin_hooks){ .call = on_call,
								     .dispatch = on_dispatch,
								     .copy = on_copy,
								     .memory = on_memory,
								     .loaded = on_loaded,
								     .wait = wait_for_work };
	return 0;
}
