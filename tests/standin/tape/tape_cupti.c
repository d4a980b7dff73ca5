/*
 * The libcupti that the recorder loads (PITOT_CUPTI): the real one's functions, and the callbacks
 * that the recorder hands to it, with a tape behind them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "tape/tape_session.h"

static struct cupti table;

static void say_hello(void)
{
	const char *name = strrchr(table.path, '/');
	char version[24], driver_version[24];
	struct driver driver;
	int number = 0;

	if (driver_load(&driver, NULL) == 0)
		driver.DriverGetVersion(&number);
	snprintf(version, sizeof(version), "%u", table.version);
	snprintf(driver_version, sizeof(driver_version), "%d", number);
	const struct tape_fact facts[] = {
		{ "cupti.version", version },
		{ "cupti.library", name ? name + 1 : table.path },
		{ "driver.version", driver_version },
	};

	if (tape_running())
		tape_put_hello(tape_writer(), tape_here(), facts, ARRAY_SIZE(facts));
}

static void find(void)
{
	struct error e = { 0 };

	if (cupti_load(&table, getenv("PITOT_TAPE_CUPTI"), &e) == 0)
		return;
	dprintf(2, "libpitot-tape.so: %s\n", e.text);
	memset(&table, 0, sizeof(table));
}

/* The real CUPTI. Its functions are NULL where there is none. */
static const struct cupti *real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static unsigned told; /* number of the tape that knows which CUPTI it is */

	pthread_once(&once, find);
	if (table.path &&
	    __atomic_exchange_n(&told, tape_number(), __ATOMIC_RELAXED) != tape_number())
		say_hello();
	return &table;
}

void *tape_real_function(const char *name)
{
	return real()->handle ? dlsym(real()->handle, name) : NULL;
}

#define CALL(name, ...) (real()->name ? real()->name(__VA_ARGS__) : CUPTI_ERROR_NOT_SUPPORTED)

#define CALLBACK_IDS_MAX 2048u

/* What the recorder handed to CUPTI. */
static struct {
	CUpti_CallbackFunc callback;
	void *userdata;
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
	/* which callbacks it enabled; others are for the tape alone */
	atomic_bool enabled[CUPTI_CB_DOMAIN_SIZE][CALLBACK_IDS_MAX];
} recorder;

/* Functions of the driver whose callbacks the tape has whether the recorder wants them or not. */
static bool is_kept[CALLBACK_IDS_MAX];

static bool is_known(CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	return (unsigned)domain < CUPTI_CB_DOMAIN_SIZE && cbid < CALLBACK_IDS_MAX;
}

static void keep_callbacks(CUpti_SubscriberHandle subscriber)
{
	const char *name;

	for (CUpti_CallbackId id = 1; id < CALLBACK_IDS_MAX; id++) {
		if (CALL(GetCallbackName, CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS ||
		    !tape_parameter_words(name))
			continue;
		is_kept[id] = true;
		CALL(EnableCallback, 1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
	}
}

EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetVersion, version);

	NOTE(cuptiGetVersion, at, r, version, sizeof(*version));
	return r;
}

EXPORT CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetTimestamp, timestamp);

	NOTE(cuptiGetTimestamp, at, r, timestamp, sizeof(*timestamp));
	return r;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetResultString, result, text);

	NOTE(cuptiGetResultString, at, r, r ? NULL : *text, r ? 0 : strnlen(*text, TAPE_TEXT_MAX),
	     (uint64_t)result);
	return r;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
					const char **name)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetCallbackName, domain, cbid, name);

	NOTE(cuptiGetCallbackName, at, r, r ? NULL : *name, r ? 0 : strnlen(*name, TAPE_TEXT_MAX),
	     (uint64_t)domain, cbid);
	return r;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(Unsubscribe, subscriber);

	NOTE(cuptiUnsubscribe, at, r, NULL, 0);
	return r;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
				       CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	struct tape_mark at = tape_here();
	bool stays = !enable && domain == CUPTI_CB_DOMAIN_DRIVER_API && is_known(domain, cbid) &&
		     is_kept[cbid];
	CUptiResult r =
		stays ? CUPTI_SUCCESS : CALL(EnableCallback, enable, subscriber, domain, cbid);

	if (r == CUPTI_SUCCESS && is_known(domain, cbid))
		atomic_store(&recorder.enabled[domain][cbid], enable);
	NOTE(cuptiEnableCallback, at, r, NULL, 0, enable, (uint64_t)domain, cbid);
	return r;
}

EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
				     CUpti_CallbackDomain domain)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(EnableDomain, enable, subscriber, domain);

	for (CUpti_CallbackId id = 0; r == CUPTI_SUCCESS && is_known(domain, id); id++)
		atomic_store(&recorder.enabled[domain][id], enable);
	if (!enable && domain == CUPTI_CB_DOMAIN_DRIVER_API)
		keep_callbacks(subscriber);
	NOTE(cuptiEnableDomain, at, r, NULL, 0, enable, (uint64_t)domain);
	return r;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ActivityEnable, kind);

	NOTE(cuptiActivityEnable, at, r, NULL, 0, (uint64_t)kind);
	return r;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ActivityDisable, kind);

	NOTE(cuptiActivityDisable, at, r, NULL, 0, (uint64_t)kind);
	return r;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ActivityFlushAll, flag);

	NOTE(cuptiActivityFlushAll, at, r, NULL, 0, flag);
	tape_look_at_devices();
	if (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) /* maybe the last thing that happens */
		tape_writer_flush(tape_writer());
	return r;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
						     size_t *dropped)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ActivityGetNumDroppedRecords, context, stream, dropped);

	NOTE(cuptiActivityGetNumDroppedRecords, at, r, dropped, sizeof(*dropped),
	     (uintptr_t)context, stream);
	return r;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					     void *value)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ActivitySetAttribute, attribute, size, value);

	NOTE(cuptiActivitySetAttribute, at, r, value, size && value ? *size : 0,
	     (uint64_t)attribute);
	return r;
}

EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(SetThreadIdType, type);

	NOTE(cuptiSetThreadIdType, at, r, NULL, 0, (uint64_t)type);
	return r;
}

EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetContextId, context, id);

	NOTE(cuptiGetContextId, at, r, id, sizeof(*id), (uintptr_t)context);
	return r;
}

EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
				      uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetStreamIdEx, context, stream, per_thread, id);

	NOTE(cuptiGetStreamIdEx, at, r, id, sizeof(*id), (uintptr_t)context, (uintptr_t)stream,
	     per_thread);
	return r;
}

EXPORT CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetGraphId, graph, id);

	NOTE(cuptiGetGraphId, at, r, id, sizeof(*id), (uintptr_t)graph);
	return r;
}

EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetGraphNodeId, node, id);

	NOTE(cuptiGetGraphNodeId, at, r, id, sizeof(*id), (uintptr_t)node);
	return r;
}

/*
 * Ids of what has just been made, whether the recorder asks for them or not: a later one may want
 * them.
 */
static void look_up_ids(CUpti_CallbackId cbid, const CUpti_ResourceData *d)
{
	const CUpti_GraphData *graph = d->resourceDescriptor;
	uint64_t node_id;
	uint32_t id;

	if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
		cuptiGetContextId(d->context, &id);
	if (cbid == CUPTI_CBID_RESOURCE_STREAM_CREATED)
		cuptiGetStreamIdEx(d->context, d->resourceHandle.stream, 0, &id);
	if (!graph)
		return;
	if ((cbid == CUPTI_CBID_RESOURCE_GRAPH_CREATED || cbid == CUPTI_CBID_RESOURCE_GRAPH_CLONED))
		cuptiGetGraphId(graph->graph, &id);
	if ((cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED ||
	     cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED))
		cuptiGetGraphNodeId(graph->node, &node_id);
	if (cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
		cuptiGetGraphNodeId(graph->originalNode, &node_id);
}

static void on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			const void *data)
{
	static __thread bool inside; /* the recorder's callback: calls are its own */
	bool nested = inside;

	(void)userdata;
	if (tape_running() && (!nested || domain == CUPTI_CB_DOMAIN_RESOURCE)) {
		tape_put_callback(tape_writer(), tape_here(), domain, cbid, data);
		if (domain == CUPTI_CB_DOMAIN_RESOURCE && data)
			look_up_ids(cbid, data);
	}
	if (is_known(domain, cbid) && !atomic_load(&recorder.enabled[domain][cbid]))
		return;
	inside = true;
	recorder.callback(recorder.userdata, domain, cbid, data);
	inside = nested;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
				  void *userdata)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.callback = callback;
	recorder.userdata = userdata;
	memset(recorder.enabled, 0, sizeof(recorder.enabled));
	r = CALL(Subscribe, subscriber, on_callback, NULL);
	NOTE(cuptiSubscribe, at, r, NULL, 0);
	if (r == CUPTI_SUCCESS)
		keep_callbacks(*subscriber);
	return r;
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
				     CUpti_CallbackFunc callback, void *userdata,
				     CUpti_SubscriberParams *parameters)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.callback = callback;
	recorder.userdata = userdata;
	memset(recorder.enabled, 0, sizeof(recorder.enabled));
	if (real()->Subscribe_v2)
		r = CALL(Subscribe_v2, subscriber, on_callback, NULL, parameters);
	else
		r = CALL(Subscribe, subscriber, on_callback, NULL);
	NOTE(cuptiSubscribe_v2, at, r, NULL, 0);
	if (r == CUPTI_SUCCESS)
		keep_callbacks(*subscriber);
	return r;
}

/* The recorder has left CUPTI and reads a buffer: a good moment to ask others. */
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
					      CUpti_Activity **record)
{
	tape_look_at_devices();
	return CALL(ActivityGetNextRecord, buffer, valid, record);
}

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	struct tape_mark at = tape_here();

	recorder.request(buffer, size, max_records);
	tape_put_request(tape_writer(), at, *buffer ? *size : 0, *max_records);
}

struct runs {
	VEC(struct tape_run) items;
	size_t bytes; /* that the runs cover */
	int end_result;
};

static int add_record(struct runs *runs, size_t size)
{
	struct tape_run *last = runs->items.count ? &runs->items.data[runs->items.count - 1] : NULL;

	if (size > UINT32_MAX)
		return -EFBIG;
	runs->bytes += size;
	if (last && last->size == size) {
		last->count++;
		return 0;
	}
	return vec_push(&runs->items, ((struct tape_run){ (uint32_t)size, 1 }));
}

/*
 * Sizes of the records, which only CUPTI knows: each reaches to the next, the last one to the end
 * of what is valid.
 */
static void find_runs(uint8_t *buffer, size_t valid, struct runs *runs)
{
	CUpti_Activity *record = NULL;
	size_t start = SIZE_MAX, next;

	for (;;) {
		runs->end_result = CALL(ActivityGetNextRecord, buffer, valid, &record);
		if (runs->end_result != CUPTI_SUCCESS)
			break;
		next = (size_t)((uint8_t *)record - buffer);
		if (next >= valid || (start == SIZE_MAX ? next != 0 : next <= start))
			break;
		if (start != SIZE_MAX && add_record(runs, next - start) < 0)
			return;
		start = next;
	}
	if (start != SIZE_MAX && runs->end_result == CUPTI_ERROR_MAX_LIMIT_REACHED)
		add_record(runs, valid - start);
}

static void on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			size_t valid)
{
	struct runs runs = { .items = VEC_INIT };
	struct tape_buffer b = {
		.context = (uintptr_t)context,
		.stream = stream,
		.size = size,
		.bytes = buffer,
		.valid = buffer ? valid : 0,
	};

	if (tape_running()) {
		if (b.valid)
			find_runs(buffer, valid, &runs);
		b.runs = runs.items.data;
		b.run_count = runs.items.count;
		b.end_result = runs.end_result;
		tape_put_buffer(tape_writer(), tape_here(), &b);
		vec_release(&runs.items);
	}
	recorder.complete(context, stream, buffer, size, valid);
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
						  CUpti_BuffersCallbackCompleteFunc complete)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.request = request;
	recorder.complete = complete;
	r = CALL(ActivityRegisterCallbacks, on_request, on_complete);
	NOTE(cuptiActivityRegisterCallbacks, at, r, NULL, 0);
	return r;
}
