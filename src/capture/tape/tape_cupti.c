/* CUPTI's functions, and the callbacks handed to CUPTI, with a tape behind them. */
#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "capture/tape/tape_session.h"

static struct cupti real;

/* What the recorder handed to CUPTI. */
static struct {
	CUpti_CallbackFunc callback;
	void *userdata;
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
} recorder;

static CUptiResult wrap_GetVersion(uint32_t *version)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetVersion(version);

	NOTE(cuptiGetVersion, at, r, version, sizeof(*version));
	return r;
}

static CUptiResult wrap_GetTimestamp(uint64_t *timestamp)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetTimestamp(timestamp);

	NOTE(cuptiGetTimestamp, at, r, timestamp, sizeof(*timestamp));
	return r;
}

static CUptiResult wrap_GetResultString(CUptiResult result, const char **text)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetResultString(result, text);

	NOTE(cuptiGetResultString, at, r, *text, r ? 0 : strnlen(*text, TAPE_TEXT_MAX),
	     (uint64_t)result);
	return r;
}

static CUptiResult wrap_GetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
					const char **name)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetCallbackName(domain, cbid, name);

	NOTE(cuptiGetCallbackName, at, r, *name, r ? 0 : strnlen(*name, TAPE_TEXT_MAX),
	     (uint64_t)domain, cbid);
	return r;
}

static CUptiResult wrap_Unsubscribe(CUpti_SubscriberHandle subscriber)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.Unsubscribe(subscriber);

	NOTE(cuptiUnsubscribe, at, r, NULL, 0);
	return r;
}

static CUptiResult wrap_EnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
				       CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.EnableCallback(enable, subscriber, domain, cbid);

	NOTE(cuptiEnableCallback, at, r, NULL, 0, enable, (uint64_t)domain, cbid);
	return r;
}

static CUptiResult wrap_EnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
				     CUpti_CallbackDomain domain)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.EnableDomain(enable, subscriber, domain);

	NOTE(cuptiEnableDomain, at, r, NULL, 0, enable, (uint64_t)domain);
	return r;
}

static CUptiResult wrap_ActivityEnable(CUpti_ActivityKind kind)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityEnable(kind);

	NOTE(cuptiActivityEnable, at, r, NULL, 0, (uint64_t)kind);
	return r;
}

static CUptiResult wrap_ActivityDisable(CUpti_ActivityKind kind)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityDisable(kind);

	NOTE(cuptiActivityDisable, at, r, NULL, 0, (uint64_t)kind);
	return r;
}

static CUptiResult wrap_ActivityFlushAll(uint32_t flag)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityFlushAll(flag);

	NOTE(cuptiActivityFlushAll, at, r, NULL, 0, flag);
	return r;
}

static CUptiResult wrap_ActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
						     size_t *dropped)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityGetNumDroppedRecords(context, stream, dropped);

	NOTE(cuptiActivityGetNumDroppedRecords, at, r, dropped, sizeof(*dropped),
	     (uintptr_t)context, stream);
	return r;
}

static CUptiResult wrap_ActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					     void *value)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivitySetAttribute(attribute, size, value);

	NOTE(cuptiActivitySetAttribute, at, r, value, size && value ? *size : 0,
	     (uint64_t)attribute);
	return r;
}

static CUptiResult wrap_SetThreadIdType(CUpti_ActivityThreadIdType type)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.SetThreadIdType(type);

	NOTE(cuptiSetThreadIdType, at, r, NULL, 0, (uint64_t)type);
	return r;
}

static CUptiResult wrap_GetContextId(CUcontext context, uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetContextId(context, id);

	NOTE(cuptiGetContextId, at, r, id, sizeof(*id), (uintptr_t)context);
	return r;
}

static CUptiResult wrap_GetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
				      uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetStreamIdEx(context, stream, per_thread, id);

	NOTE(cuptiGetStreamIdEx, at, r, id, sizeof(*id), (uintptr_t)context, (uintptr_t)stream,
	     per_thread);
	return r;
}

static CUptiResult wrap_GetGraphId(CUgraph graph, uint32_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetGraphId(graph, id);

	NOTE(cuptiGetGraphId, at, r, id, sizeof(*id), (uintptr_t)graph);
	return r;
}

static CUptiResult wrap_GetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.GetGraphNodeId(node, id);

	NOTE(cuptiGetGraphNodeId, at, r, id, sizeof(*id), (uintptr_t)node);
	return r;
}

static CUptiResult wrap_ActivityEnableAllSyncRecords(uint8_t enable)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityEnableAllSyncRecords(enable);

	NOTE(cuptiActivityEnableAllSyncRecords, at, r, NULL, 0, enable);
	return r;
}

static CUptiResult wrap_ActivityEnableLatencyTimestamps(uint8_t enable)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.ActivityEnableLatencyTimestamps(enable);

	NOTE(cuptiActivityEnableLatencyTimestamps, at, r, NULL, 0, enable);
	return r;
}

static CUptiResult wrap_Finalize(void)
{
	struct tape_mark at = tape_here();
	CUptiResult r = real.Finalize();

	NOTE(cuptiFinalize, at, r, NULL, 0);
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

	if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED && real.GetContextId)
		wrap_GetContextId(d->context, &id);
	if (cbid == CUPTI_CBID_RESOURCE_STREAM_CREATED && real.GetStreamIdEx)
		wrap_GetStreamIdEx(d->context, d->resourceHandle.stream, 0, &id);
	if (!graph)
		return;
	if ((cbid == CUPTI_CBID_RESOURCE_GRAPH_CREATED ||
	     cbid == CUPTI_CBID_RESOURCE_GRAPH_CLONED) &&
	    real.GetGraphId)
		wrap_GetGraphId(graph->graph, &id);
	if ((cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED ||
	     cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) &&
	    real.GetGraphNodeId)
		wrap_GetGraphNodeId(graph->node, &node_id);
	if (cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED && real.GetGraphNodeId)
		wrap_GetGraphNodeId(graph->originalNode, &node_id);
}

static void on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			const void *data)
{
	(void)userdata;
	if (tape_running()) {
		tape_put_callback(tape_writer(), tape_here(), domain, cbid, data);
		if (domain == CUPTI_CB_DOMAIN_RESOURCE && data)
			look_up_ids(cbid, data);
	}
	recorder.callback(recorder.userdata, domain, cbid, data);
}

static CUptiResult wrap_Subscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
				  void *userdata)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.callback = callback;
	recorder.userdata = userdata;
	r = real.Subscribe(subscriber, on_callback, NULL);
	NOTE(cuptiSubscribe, at, r, NULL, 0);
	return r;
}

static CUptiResult wrap_Subscribe_v2(CUpti_SubscriberHandle *subscriber,
				     CUpti_CallbackFunc callback, void *userdata,
				     CUpti_SubscriberParams *parameters)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.callback = callback;
	recorder.userdata = userdata;
	r = real.Subscribe_v2(subscriber, on_callback, NULL, parameters);
	NOTE(cuptiSubscribe_v2, at, r, NULL, 0);
	return r;
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
		runs->end_result = real.ActivityGetNextRecord(buffer, valid, &record);
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

static CUptiResult wrap_ActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
						  CUpti_BuffersCallbackCompleteFunc complete)
{
	struct tape_mark at = tape_here();
	CUptiResult r;

	recorder.request = request;
	recorder.complete = complete;
	r = real.ActivityRegisterCallbacks(on_request, on_complete);
	NOTE(cuptiActivityRegisterCallbacks, at, r, NULL, 0);
	return r;
}

void tape_wrap_cupti(struct cupti *cupti)
{
	if (cupti->GetVersion == wrap_GetVersion)
		return;
	real = *cupti;
#define F(number, name)                                                                            \
	if (cupti->name)                                                                           \
		cupti->name = wrap_##name;
	TAPE_CUPTI_FUNCTIONS(F)
#undef F
}
