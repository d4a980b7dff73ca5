/* The stand-in libcupti.so.13: answers from the tape, and calls the recorder's callbacks. */
#include "standin_cupti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "delivery.h"

#define CBIDS_MAX 4096
#define SHARED_SLOTS 64

struct cupti_state cupti_state;

static atomic_bool enabled[CUPTI_CB_DOMAIN_SIZE][CBIDS_MAX];
static atomic_uint_fast64_t callbacks, withheld;
static char subscriber_place;

#define FAULT(function)                                                                            \
	do {                                                                                       \
		int forced_;                                                                       \
		if (standin_fault(function, &forced_))                                             \
			return (CUptiResult)forced_;                                               \
		if (atomic_load(&cupti_state.gone))                                                \
			return CUPTI_ERROR_NOT_INITIALIZED;                                        \
	} while (0)

#define ARGUMENTS(...) ((const uint64_t[]){ __VA_ARGS__ })
#define COUNT(...) (sizeof(ARGUMENTS(__VA_ARGS__)) / sizeof(uint64_t))
/* The result of the same call on the tape; success if it is not there. */
#define RECORDED(function, ...) recorded(function, ARGUMENTS(__VA_ARGS__), COUNT(__VA_ARGS__))
/* Like RECORDED, with an output of fixed size; an error if the tape does not have it. */
#define ANSWER(function, out, ...)                                                                 \
	answered(function, out, sizeof(*(out)), ARGUMENTS(__VA_ARGS__), COUNT(__VA_ARGS__))

static CUptiResult recorded(enum tape_function function, const uint64_t *arguments, size_t count)
{
	struct tape_call call;

	return standin_answer(function, arguments, (unsigned)count, &call)
		       ? (CUptiResult)call.result
		       : CUPTI_SUCCESS;
}

static CUptiResult answered(enum tape_function function, void *out, size_t size,
			    const uint64_t *arguments, size_t count)
{
	struct tape_call call;

	if (!standin_answer(function, arguments, (unsigned)count, &call))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (call.result)
		return (CUptiResult)call.result;
	if (call.output_length != size)
		return CUPTI_ERROR_UNKNOWN;
	memcpy(out, call.output, size);
	return CUPTI_SUCCESS;
}

/* A text that a function returned on the tape, as a pointer that stays valid. */
static CUptiResult answered_text(enum tape_function function, const char **out,
				 const uint64_t *arguments, size_t count)
{
	static struct interner texts;
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	struct tape_call call;
	int64_t text;

	if (!standin_answer(function, arguments, (unsigned)count, &call) || call.result)
		return CUPTI_ERROR_INVALID_PARAMETER;
	while (atomic_flag_test_and_set(&busy))
		;
	text = interner_add(&texts, call.output, call.output_length, NULL);
	*out = text < 0 ? NULL : texts.items[text].text;
	atomic_flag_clear(&busy);
	return *out ? CUPTI_SUCCESS : CUPTI_ERROR_OUT_OF_MEMORY;
}

EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
	const struct faults *faults = standin_faults();

	FAULT(TAPE_cuptiGetVersion);
	if (!standin_tape())
		return CUPTI_ERROR_NOT_INITIALIZED;
	*version = faults->version ? faults->version
				   : (uint32_t)tape_fact_number(standin_tape(), "cupti.version");
	return CUPTI_SUCCESS;
}

uint64_t cupti_now(void)
{
	struct place place = standin_place();

	return standin_cupti_time(clock_monotonic_ns() - place.time_shift) + place.time_shift +
	       (uint64_t)standin_step_ns() + (uint64_t)atomic_load(&cupti_state.clock_offset_ns);
}

EXPORT CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	FAULT(TAPE_cuptiGetTimestamp);
	*timestamp = cupti_now();
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	static const struct {
		CUptiResult result;
		const char *text;
	} known[] = {
		{ CUPTI_SUCCESS, "CUPTI_SUCCESS" },
		{ CUPTI_ERROR_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER" },
		{ CUPTI_ERROR_NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED" },
		{ CUPTI_ERROR_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED" },
		{ CUPTI_ERROR_NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE" },
		{ CUPTI_ERROR_OUT_OF_MEMORY, "CUPTI_ERROR_OUT_OF_MEMORY" },
		{ CUPTI_ERROR_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION" },
		{ CUPTI_ERROR_HARDWARE_BUSY, "CUPTI_ERROR_HARDWARE_BUSY" },
		{ CUPTI_ERROR_NOT_SUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED" },
		{ CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" },
		{ CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
		  "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" },
		{ CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN" },
	};

	FAULT(TAPE_cuptiGetResultString);
	if (answered_text(TAPE_cuptiGetResultString, text, ARGUMENTS((uint64_t)result), 1) ==
	    CUPTI_SUCCESS)
		return CUPTI_SUCCESS;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].result == result) {
			*text = known[i].text;
			return CUPTI_SUCCESS;
		}
	}
	return CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
					const char **name)
{
	const char *found;

	FAULT(TAPE_cuptiGetCallbackName);
	if (answered_text(TAPE_cuptiGetCallbackName, name, ARGUMENTS((uint64_t)domain, cbid), 2) ==
	    CUPTI_SUCCESS)
		return CUPTI_SUCCESS;
	found = standin_function_name(domain, cbid);
	if (!found)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = found;
	return CUPTI_SUCCESS;
}

static CUptiResult subscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
			     void *userdata)
{
	if (atomic_load(&cupti_state.subscribed))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	atomic_store(&cupti_state.callback, callback);
	atomic_store(&cupti_state.userdata, userdata);
	atomic_store(&cupti_state.subscribed, true);
	*subscriber = (CUpti_SubscriberHandle)(void *)&subscriber_place;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
				  void *userdata)
{
	FAULT(TAPE_cuptiSubscribe);
	return subscribe(subscriber, callback, userdata);
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
				     CUpti_CallbackFunc callback, void *userdata,
				     CUpti_SubscriberParams *parameters)
{
	static const char other[] = "another tool (scripted)";
	int forced;

	if (standin_fault(TAPE_cuptiSubscribe_v2, &forced)) {
		if (forced == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && parameters &&
		    parameters->oldSubscriberName && parameters->oldSubscriberSize >= sizeof(other))
			memcpy(parameters->oldSubscriberName, other, sizeof(other));
		return (CUptiResult)forced;
	}
	return subscribe(subscriber, callback, userdata);
}

static void disable_all(void)
{
	for (size_t domain = 0; domain < ARRAY_SIZE(enabled); domain++)
		for (size_t i = 0; i < CBIDS_MAX; i++)
			atomic_store(&enabled[domain][i], false);
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	FAULT(TAPE_cuptiUnsubscribe);
	if ((void *)subscriber != &subscriber_place)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pc_sampling_unsubscribe();
	sass_metrics_unsubscribe();
	atomic_store(&cupti_state.subscribed, false);
	disable_all();
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
				       CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	CUptiResult r;

	FAULT(TAPE_cuptiEnableCallback);
	if ((void *)subscriber != &subscriber_place || domain >= CUPTI_CB_DOMAIN_SIZE ||
	    cbid >= CBIDS_MAX)
		return CUPTI_ERROR_INVALID_PARAMETER;
	r = RECORDED(TAPE_cuptiEnableCallback, enable, (uint64_t)domain, cbid);
	if (r == CUPTI_SUCCESS)
		atomic_store(&enabled[domain][cbid], enable != 0);
	return r;
}

EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
				     CUpti_CallbackDomain domain)
{
	CUptiResult r;

	FAULT(TAPE_cuptiEnableDomain);
	if ((void *)subscriber != &subscriber_place || domain >= CUPTI_CB_DOMAIN_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	r = RECORDED(TAPE_cuptiEnableDomain, enable, (uint64_t)domain);
	for (size_t i = 0; r == CUPTI_SUCCESS && i < CBIDS_MAX; i++)
		atomic_store(&enabled[domain][i], enable != 0);
	return r;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
						  CUpti_BuffersCallbackCompleteFunc complete)
{
	FAULT(TAPE_cuptiActivityRegisterCallbacks);
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&cupti_state.request, request);
	atomic_store(&cupti_state.complete, complete);
	return CUPTI_SUCCESS;
}

static atomic_bool has_unprepared_graphs; /* instantiated without records of launches */

static CUptiResult switch_kind(enum tape_function function, CUpti_ActivityKind kind, bool on)
{
	CUptiResult r = (unsigned)kind < KINDS_MAX ? RECORDED(function, (uint64_t)kind)
						   : CUPTI_ERROR_INVALID_KIND;

	/* CUPTI 13.0 crashes when such a graph is then launched. */
	if (on && kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && atomic_load(&has_unprepared_graphs)) {
		fputs("stand-in: records of launches are enabled after a graph was instantiated "
		      "without\n",
		      stderr);
		abort();
	}
	/* CUPTI 13.0 did so, even if they had been on before. */
	if (on && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && pc_sampling_is_on() &&
	    !atomic_load(&cupti_state.kinds[kind]))
		r = CUPTI_ERROR_NOT_COMPATIBLE;
	if (on && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && sass_metrics_have_data())
		r = CUPTI_ERROR_NOT_COMPATIBLE;
	if (r == CUPTI_SUCCESS)
		atomic_store(&cupti_state.kinds[kind], on);
	return r;
}

static CUptiResult enable(CUpti_ActivityKind kind)
{
	FAULT(TAPE_cuptiActivityEnable);
	return switch_kind(TAPE_cuptiActivityEnable, kind, true);
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return enable(kind);
}

EXPORT CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	CUptiResult r = enable(kind);

	if (r == CUPTI_SUCCESS)
		deliver_past(kind);
	return r;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	FAULT(TAPE_cuptiActivityDisable);
	return switch_kind(TAPE_cuptiActivityDisable, kind, false);
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	FAULT(TAPE_cuptiActivityFlushAll);
	sass_metrics_flush();
	deliver_finished(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
		return_held_buffers();
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
	FAULT(STANDIN_ActivityFlushPeriod);
	atomic_store(&cupti_state.flush_period_ms, ms);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
					      CUpti_Activity **record)
{
	FAULT(STANDIN_ActivityGetNextRecord);
	return delivery_next(buffer, valid, record);
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
						     size_t *dropped)
{
	(void)context;
	(void)stream;
	FAULT(TAPE_cuptiActivityGetNumDroppedRecords);
	*dropped = atomic_exchange(&cupti_state.dropped, 0);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					     void *value)
{
	FAULT(TAPE_cuptiActivitySetAttribute);
	if (!size || !value)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER)
		atomic_store(&cupti_state.shares_buffers, *(const uint8_t *)value == 0);
	return RECORDED(TAPE_cuptiActivitySetAttribute, (uint64_t)attribute);
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
	if (!clock)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_fetch_add(&cupti_state.clock_offset_ns, (int64_t)(clock() - cupti_now()));
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
							  uint64_t id)
{
	return launches_push_external((uint32_t)kind, id) ? CUPTI_SUCCESS
							  : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
							 uint64_t *last)
{
	uint64_t id;

	if (!launches_pop_external((uint32_t)kind, &id))
		return CUPTI_ERROR_QUEUE_EMPTY;
	if (last)
		*last = id;
	return CUPTI_SUCCESS;
}

/* Ends all clients of the process, and its clock. */
EXPORT CUptiResult cuptiFinalize(void)
{
	if (atomic_load(&cupti_state.request))
		deliver_finished(true);
	atomic_store(&cupti_state.subscribed, false);
	disable_all();
	for (size_t i = 0; i < KINDS_MAX; i++)
		atomic_store(&cupti_state.kinds[i], false);
	atomic_store(&cupti_state.clock_offset_ns, 0);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	FAULT(TAPE_cuptiSetThreadIdType);
	return RECORDED(TAPE_cuptiSetThreadIdType, (uint64_t)type);
}

/* Only called by a program's own client: everything has its default. */
EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	*type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					     void *value)
{
	(void)attribute;
	if (!size || !value || *size < sizeof(size_t))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*(size_t *)value = 3200000;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetLastError(void)
{
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	FAULT(TAPE_cuptiGetContextId);
	return ANSWER(TAPE_cuptiGetContextId, id, (uintptr_t)context);
}

/* From the first record of a context: tapes of older recorders have no other answer. */
static bool find_null_stream(uint32_t *id)
{
	static atomic_uint known; /* id + 1 */
	const struct tape *t = standin_tape();
	struct tape_delivery d;
	struct tape_run run;

	for (size_t i = 0; t && !atomic_load(&known) && i < t->records.count; i++) {
		const uint8_t *record;

		if (t->records.data[i].type != TAPE_BUFFER_COMPLETE ||
		    !tape_get_delivery(&t->records.data[i], &d))
			continue;
		record = d.buffer.bytes;
		while (tape_next_run(&d, &run))
			for (uint32_t n = 0; n < run.count; n++, record += run.size)
				if (load_u32(record) == CUPTI_ACTIVITY_KIND_CONTEXT)
					atomic_store(&known, load_u16(record + 14) + 1u);
	}
	*id = atomic_load(&known) - 1;
	return atomic_load(&known);
}

EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
				      uint32_t *id)
{
	CUptiResult r;

	FAULT(TAPE_cuptiGetStreamIdEx);
	r = ANSWER(TAPE_cuptiGetStreamIdEx, id, (uintptr_t)context, (uintptr_t)stream, per_thread);
	if (r == CUPTI_SUCCESS || stream || per_thread)
		return r;
	return find_null_stream(id) ? CUPTI_SUCCESS : r;
}

/* Tapes do not have it. */
EXPORT CUptiResult cuptiGetGraphExecId(CUgraphExec graph, uint32_t *id)
{
	*id = (uint32_t)(uintptr_t)graph;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
	FAULT(TAPE_cuptiGetGraphId);
	return ANSWER(TAPE_cuptiGetGraphId, id, (uintptr_t)graph);
}

EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	FAULT(TAPE_cuptiGetGraphNodeId);
	return ANSWER(TAPE_cuptiGetGraphNodeId, id, (uintptr_t)node);
}

/* --- driven by tape-play --- */

bool wants_callback(unsigned domain, unsigned cbid)
{
	return atomic_load(&cupti_state.subscribed) && atomic_load(&enabled[domain][cbid]);
}

__thread unsigned standin_in_callback, standin_api_site;
static atomic_uint all_launching; /* threads */
static __thread bool launching;

bool launches_elsewhere(void)
{
	return atomic_load(&all_launching) > launching;
}

void call_recorder(unsigned domain, unsigned cbid, const void *data)
{
	if (domain >= CUPTI_CB_DOMAIN_SIZE || cbid >= CBIDS_MAX || atomic_load(&cupti_state.gone) ||
	    !atomic_load(&cupti_state.subscribed) || !atomic_load(&enabled[domain][cbid])) {
		atomic_fetch_add_explicit(&withheld, 1, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&callbacks, 1, memory_order_relaxed);
	standin_in_callback = domain == CUPTI_CB_DOMAIN_RESOURCE ? cbid : 0;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		standin_api_site = ((const CUpti_CallbackData *)data)->callbackSite + 1;
	atomic_load (&cupti_state.callback)(atomic_load(&cupti_state.userdata),
					    (CUpti_CallbackDomain)domain, cbid, data);
	standin_in_callback = standin_api_site = 0;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	    cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel &&
	    ((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_EXIT)
		atomic_fetch_add(&standin_witness()->launches, 1);
}

/*
 * The correlation id of the call that fails on this thread, as the fault script wants it; 0: none.
 */
static __thread uint32_t failing;

/* True: a kernel is launched. */
static bool enter_call(const struct tape_event *e)
{
	static atomic_uint_fast64_t launches;
	const char *name = tape_text_of(standin_tape(), e->function);
	uint64_t every = standin_faults()->failed_launch_every;
	bool is_launch = name && strstr(name, "Launch") && !strstr(name, "HostFunc");

	hold_buffers();
	if (failing != e->correlation) /* no driver's call inside of the runtime's one */
		failing = every && is_launch && (atomic_fetch_add(&launches, 1) + 1) % every == 0
				  ? e->correlation
				  : 0;
	if (is_launch && !failing && e->domain == CUPTI_CB_DOMAIN_DRIVER_API)
		pc_sampling_launch((CUcontext)(uintptr_t)e->context,
				   tape_text_of(standin_tape(), e->symbol));
	return is_launch && !failing && e->domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	       !strstr(name, "GraphLaunch");
}

/* Also after a GPU's fault: calls that wait for it say so, as the driver does. */
static int result_of(const struct tape_event *e)
{
	const char *name = tape_text_of(standin_tape(), e->function);

	if (failing && failing == e->correlation)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return name && strstr(name, "Synchronize") &&
			       standin_reached(standin_faults()->gpu_fault_at)
		       ? CUDA_ERROR_ILLEGAL_ADDRESS
		       : e->return_value;
}

static bool is_graph_launch(const struct tape_event *e)
{
	const char *name = tape_text_of(standin_tape(), e->function);

	return e->domain == CUPTI_CB_DOMAIN_DRIVER_API && name &&
	       strcmp(name, "cuGraphLaunch") == 0;
}

static bool is_launch_of_driver(const struct tape_event *e)
{
	const char *name = tape_text_of(standin_tape(), e->function);

	return e->domain == CUPTI_CB_DOMAIN_DRIVER_API && name && strstr(name, "Launch") &&
	       !strstr(name, "HostFunc");
}

static void follow_capture(const char *function, bool exits)
{
	if (exits && strncmp(function, "cuStreamBeginCapture", 20) == 0)
		standin_capturing = true;
	else if (!exits && strncmp(function, "cuStreamEndCapture", 18) == 0)
		standin_capturing = false;
}

/*
 * Tapes have parameters of the driver's functions only. A runtime function's own are the same words
 * where it only calls the driver's function.
 */
static const void *parameters_of(const struct tape_event *e)
{
	static __thread uint64_t words[TAPE_PARAMETERS_MAX];
	static __thread uint32_t correlation;

	if (e->parameter_count) {
		memcpy(words, e->parameters, sizeof(words));
		correlation = e->correlation;
		return e->parameters;
	}
	return e->site == CUPTI_API_EXIT && e->correlation && e->correlation == correlation ? words
											    : NULL;
}

static void play_api(const struct tape_event *e)
{
	static __thread uint64_t
		shared[SHARED_SLOTS]; /* one value from the entry to the exit of a call */
	const struct tape *t = standin_tape();
	struct place place = standin_place();
	uint32_t correlation = e->correlation ? e->correlation + place.id_shift +
							standin_faults()->correlation_shift
					      : 0;
	uint64_t *slot = &shared[(correlation * 2 + e->domain) % SHARED_SLOTS];
	int return_value = result_of(e);
	bool launches = false, graph = is_graph_launch(e);
	const cuGraphLaunch_params graph_params = { .hGraph =
							    (CUgraphExec)(uintptr_t)STANDIN_GRAPH };
	const void *parameters = parameters_of(e);
	CUpti_CallbackData data = {
		.functionParams = graph ? &graph_params : parameters,
		.callbackSite = (CUpti_ApiCallbackSite)e->site,
		.functionName = tape_text_of(t, e->function),
		.functionReturnValue = e->returned ? &return_value : NULL,
		.symbolName = tape_text_of(t, e->symbol),
		.context = (CUcontext)(uintptr_t)e->context,
		.contextUid = e->context_uid,
		.correlationData = slot,
		.correlationId = correlation,
	};

	if (e->domain == CUPTI_CB_DOMAIN_DRIVER_API && data.functionName)
		follow_capture(data.functionName, e->site == CUPTI_API_EXIT);
	if (e->site == CUPTI_API_ENTER) {
		*slot = 0;
		launches = enter_call(e);
	}
	if (data.context)
		atomic_store(&standin_current_context, e->context);
	if (launching)
		atomic_fetch_sub(&all_launching, 1);
	launching = false;
	call_recorder(e->domain, e->cbid, &data);
	launching = e->site == CUPTI_API_ENTER && is_launch_of_driver(e);
	if (launching) {
		atomic_fetch_add(&all_launching, 1);
		if (standin_faults()->launch_us)
			usleep((useconds_t)standin_faults()->launch_us);
	}
	/* Work begins after the last callback on its call's entry. */
	if (e->site == CUPTI_API_ENTER && e->domain == CUPTI_CB_DOMAIN_DRIVER_API)
		launches_reserve(e->correlation, failing && failing == e->correlation);
	if (launches || (graph && e->site == CUPTI_API_ENTER)) {
		range_profiler_launch(data.context, correlation, data.symbolName);
		if (launches)
			sass_metrics_launch(data.context, data.symbolName);
	}
}

static void play_resource(const struct tape_event *e)
{
	CUpti_ModuleResourceData module = { (uint32_t)e->numbers[0], e->numbers[1],
					    (const char *)e->cubin };
	CUpti_StreamAttrData attribute = { (CUstream)(uintptr_t)e->numbers[0],
					   (CUstreamAttrID)e->numbers[1], NULL };
	CUpti_GraphData graph = {
		.graph = (CUgraph)(uintptr_t)e->numbers[0],
		.originalGraph = (CUgraph)(uintptr_t)e->numbers[1],
		.node = (CUgraphNode)(uintptr_t)e->numbers[2],
		.originalNode = (CUgraphNode)(uintptr_t)e->numbers[3],
		.nodeType = (CUgraphNodeType)e->numbers[4],
		.dependency = (CUgraphNode)(uintptr_t)e->numbers[5],
		.graphExec = (CUgraphExec)(uintptr_t)e->numbers[6],
	};
	void *const descriptors[] = {
		[TAPE_DESCRIPTOR_NONE] = NULL,
		[TAPE_DESCRIPTOR_MODULE] = &module,
		[TAPE_DESCRIPTOR_GRAPH] = &graph,
		[TAPE_DESCRIPTOR_STREAM_ATTRIBUTE] = &attribute,
	};
	CUpti_ResourceData data = {
		.context = (CUcontext)(uintptr_t)e->context,
		.resourceHandle.stream = (CUstream)(uintptr_t)e->stream,
		.resourceDescriptor = descriptors[e->descriptor],
	};

	call_recorder(e->domain, e->cbid, &data);
}

/* Objects of a tape are created in the first round of --repeat and destroyed in the last one. */
static bool belongs_to_round(const struct tape_event *e, const struct place *place)
{
	switch (e->cbid) {
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
	case CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING:
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
	case CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING:
	case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
		return place->last;
	default:
		return place->first;
	}
}

static void play_event(const struct tape_event *e)
{
	CUpti_SynchronizeData sync = { (CUcontext)(uintptr_t)e->context,
				       (CUstream)(uintptr_t)e->stream };
	CUpti_StateData state = { .notification = { (CUptiResult)e->result,
						    tape_text_of(standin_tape(), e->message) } };
	struct place place = standin_place();

	if (e->domain == CUPTI_CB_DOMAIN_DRIVER_API || e->domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
		play_api(e);
	} else if (e->domain == CUPTI_CB_DOMAIN_RESOURCE) {
		if (belongs_to_round(e, &place))
			play_resource(e);
		if (e->cbid == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED &&
		    !atomic_load(&cupti_state.kinds[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]))
			atomic_store(&has_unprepared_graphs, true);
	} else if (e->domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
		call_recorder(e->domain, e->cbid, &sync);
	} else if (e->domain == CUPTI_CB_DOMAIN_STATE) {
		call_recorder(e->domain, e->cbid, &state);
	}
}

static void play_dropped(uint64_t count)
{
	atomic_fetch_add(&cupti_state.dropped, count);
}

static void play_fail(void)
{
	CUpti_StateData state = { .notification = { CUPTI_ERROR_UNKNOWN, "scripted fatal error" } };

	call_recorder(CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, &state);
	atomic_store(&cupti_state.gone, true);
}

static void set_patience(uint64_t ns)
{
	atomic_store(&cupti_state.patience_ns, ns);
}

static struct standin_counts counts(void)
{
	struct standin_counts c = { .callbacks = atomic_load(&callbacks),
				    .callbacks_withheld = atomic_load(&withheld) };

	delivery_counts(&c);
	return c;
}

EXPORT extern const struct standin_player standin_player;
const struct standin_player standin_player = {
	.event = play_event,
	.deliver = deliver,
	.dropped = play_dropped,
	.fail = play_fail,
	.unread = delivery_unread,
	.set_patience = set_patience,
	.counts = counts,
};
