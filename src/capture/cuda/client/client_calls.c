#include "capture/cuda/client/client_calls.h"

#include <dlfcn.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/client/client_records.h"
#include "capture/cuda/client/import_redirect.h"
#include "capture/core/pause.h"
#include "capture/core/vendor_thread.h"

#define ATTRIBUTES 16u
#define ATTRIBUTE_BYTES 16u
#define FLUSH_LIMIT_NS (PITOT_SLOWNESS * NS_PER_S)
#define POLL_NS (200 * NS_PER_US)

struct client client = { .thread_id_type = -1 };

/* Attributes that the client has set, which have no effect. size 0: not set. */
static struct {
	atomic_size_t size;
	atomic_uint_fast64_t value[ATTRIBUTE_BYTES / 8];
} attributes[ATTRIBUTES];

static __thread CUptiResult last_error __attribute__((tls_model("initial-exec")));

static CUptiResult answer(CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		last_error = result;
	return result;
}

static void note_client(const char *requested, const char *actual)
{
	if (!atomic_exchange(&client.is_noted, true))
		capability_note(feature_own_profiler, capability_state_on, requested, actual,
				"another client of CUPTI");
}

bool client_is_shared(void)
{
	return atomic_load(&client.is_shared);
}

/* Repeats if another thread of the client changes its wishes meanwhile. */
void client_update(void)
{
	bool there;

	do {
		there = client_is_shared() && hub_wants_anything(&profiler_client);
		hub_listen(&profiler_client, there);
	} while (there != (client_is_shared() && hub_wants_anything(&profiler_client)));
	if (there)
		note_client("share", "share");
}

/* --- the client's subscription --- */

CUptiResult client_subscribe_really(struct subscription *s)
{
	CUpti_SubscriberHandle handle;
	CUptiResult result = real_cupti.recorder.Subscribe(&handle, atomic_load(&s->callback),
							   atomic_load(&s->user));

	if (result != CUPTI_SUCCESS)
		return result;
	atomic_store(&s->real, handle);
	hub_subscribed(handle);
	return result;
}

/* Notes the outcome of a subscription that CUPTI itself decides on. */
static CUptiResult watch(CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		atomic_fetch_add(&client.refused, 1);
	note_client("keep", "keep");
	return result;
}

static CUptiResult CUPTIAPI own_Subscribe(CUpti_SubscriberHandle *handle,
					  CUpti_CallbackFunc callback, void *user)
{
	struct subscription *s;
	CUptiResult result;

	if (atomic_load(&client.is_kept))
		return watch(real_cupti.recorder.Subscribe(handle, callback, user));
	if (!handle)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	s = client_subscribe(callback, user);
	if (!s)
		return answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	client_keep_loaded((void *)callback);
	if (!client_is_shared()) {
		result = client_subscribe_really(s);
		if (result != CUPTI_SUCCESS) {
			client_unsubscribe(s);
			return result;
		}
	}
	*handle = (CUpti_SubscriberHandle)(void *)s;
	return CUPTI_SUCCESS;
}

/* Later versions of the parameters request multiple subscribers, which are not supported here. */
static CUptiResult CUPTIAPI own_Subscribe_v2(CUpti_SubscriberHandle *handle,
					     CUpti_CallbackFunc callback, void *user,
					     CUpti_SubscriberParams *parameters)
{
	if (atomic_load(&client.is_kept))
		return watch(real_cupti.recorder.Subscribe_v2(handle, callback, user, parameters));
	if (parameters && parameters->structSize > CUpti_SubscriberParams_STRUCT_SIZE)
		return answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	return own_Subscribe(handle, callback, user);
}

static struct subscription *subscription_of(CUpti_SubscriberHandle handle)
{
	struct subscription *s = client_subscription();

	return s && (void *)handle == s ? s : NULL;
}

static CUptiResult CUPTIAPI own_Unsubscribe(CUpti_SubscriberHandle handle)
{
	struct subscription *s = subscription_of(handle);
	CUpti_SubscriberHandle real;

	if (!s)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	for (unsigned domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; domain++)
		hub_set_domain(&profiler_client, false, (CUpti_CallbackDomain)domain);
	client_unsubscribe(s);
	if (!client_is_shared() && (real = atomic_exchange(&s->real, NULL)))
		real_cupti.recorder.Unsubscribe(real);
	client_update();
	return CUPTI_SUCCESS;
}

/* `id` NULL means the whole domain. */
static CUptiResult enable(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
			  const CUpti_CallbackId *id)
{
	CUptiResult result;

	if (!subscription_of(handle))
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	result = id ? hub_set_callback(&profiler_client, on != 0, domain, *id)
		    : hub_set_domain(&profiler_client, on != 0, domain);
	client_update();
	return answer(result);
}

static CUptiResult CUPTIAPI own_EnableCallback(uint32_t on, CUpti_SubscriberHandle handle,
					       CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return enable(on, handle, domain, &id);
}

static CUptiResult CUPTIAPI own_EnableDomain(uint32_t on, CUpti_SubscriberHandle handle,
					     CUpti_CallbackDomain domain)
{
	return enable(on, handle, domain, NULL);
}

static CUptiResult CUPTIAPI own_EnableAllDomains(uint32_t on, CUpti_SubscriberHandle handle)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (unsigned d = 1; d < CUPTI_CB_DOMAIN_SIZE && result == CUPTI_SUCCESS; d++)
		result = enable(on, handle, (CUpti_CallbackDomain)d, NULL);
	return result;
}

static CUptiResult CUPTIAPI own_GetCallbackState(uint32_t *enable, CUpti_SubscriberHandle handle,
						 CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	if (!enable || !subscription_of(handle))
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	*enable = hub_wants(&profiler_client, domain, id);
	return CUPTI_SUCCESS;
}

/* --- the client's records --- */

/* The calling thread is in one of the client's functions for buffers, which CUPTI has called. */
static __thread unsigned in_request __attribute__((tls_model("initial-exec"))),
	in_complete __attribute__((tls_model("initial-exec")));

/* What CUPTI asks, even after the client has gone: its library stays loaded. */
static _Atomic(CUpti_BuffersCallbackRequestFunc) clients_request;

static void CUPTIAPI on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	CUpti_BuffersCallbackRequestFunc clients = atomic_load(&clients_request);

	in_request++;
	clients(buffer, size, max_records);
	in_request--;
}

void CUPTIAPI client_on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	CUpti_BuffersCallbackCompleteFunc clients = copies_complete();

	if (buffers_has(buffer)) {
		buffers_on_complete(context, stream, buffer, size, valid);
	} else if (clients) {
		in_complete++;
		clients(context, stream, buffer, size, valid);
		in_complete--;
	}
}

CUptiResult client_register_really(CUpti_BuffersCallbackRequestFunc request)
{
	atomic_store(&clients_request, request);
	return real_cupti.recorder.ActivityRegisterCallbacks(on_request, client_on_complete);
}

static CUptiResult CUPTIAPI own_ActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{

	if (!request || !complete)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	client_keep_loaded((void *)request);
	copies_register(request, complete);
	return client_is_shared() ? CUPTI_SUCCESS : client_register_really(request);
}

static CUptiResult CUPTIAPI own_ActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc read)
{

	if (!read)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	client_keep_loaded((void *)read);
	copies_register_clock(read);
	if (client_is_shared())
		return CUPTI_SUCCESS;
	atomic_store(&client.has_clock, true);
	return real_cupti.ActivityRegisterTimestampCallback(read);
}

static bool is_recorded(CUpti_ActivityKind kind)
{
	return kind == CUPTI_ACTIVITY_KIND_KERNEL ? hub_is_serialized()
						  : hub_recorded_kinds() >> kind & 1;
}

/*
 * KERNEL serializes kernels, and GRAPH_TRACE replaces the records of graph nodes: both would change
 * the recording.
 */
static bool is_refused(CUpti_ActivityKind kind)
{
	return client_is_shared() && !is_recorded(kind) &&
	       (kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

static CUptiResult CUPTIAPI own_ActivityEnable(CUpti_ActivityKind kind)
{
	CUptiResult result;

	if ((unsigned)kind >= COPIES_KINDS)
		return answer(CUPTI_ERROR_INVALID_KIND);
	if (is_refused(kind))
		return answer(CUPTI_ERROR_NOT_COMPATIBLE);
	if (client_is_shared() && !is_recorded(kind))
		hub_leave_out(UINT64_C(1) << kind, true);
	copies_enable((uint32_t)kind, hub_wants_any(&trace_client, CUPTI_CB_DOMAIN_DRIVER_API));
	result = hub_set_kind(&profiler_client, true, kind);
	if (result != CUPTI_SUCCESS)
		copies_disable((uint32_t)kind);
	client_update();
	return answer(result);
}

static CUptiResult CUPTIAPI own_ActivityDisable(CUpti_ActivityKind kind)
{
	CUptiResult result;

	if ((unsigned)kind >= COPIES_KINDS)
		return answer(CUPTI_ERROR_INVALID_KIND);
	copies_disable((uint32_t)kind);
	result = hub_set_kind(&profiler_client, false, kind);
	client_update();
	return answer(result);
}

/* Enables the kind for all contexts: the client can select records by their context. */
static CUptiResult CUPTIAPI own_ActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return own_ActivityEnable(kind);
}

static CUptiResult CUPTIAPI own_ActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return own_ActivityDisable(kind);
}

static CUptiResult CUPTIAPI own_ActivityEnableAndDump(CUpti_ActivityKind kind)
{
	CUptiResult result = own_ActivityEnable(kind);

	return result == CUPTI_SUCCESS ? answer(real_cupti.recorder.ActivityEnableAndDump(kind))
				       : result;
}

/* Refused while shared, because it would replace the records that the recorder reads. */
static CUptiResult CUPTIAPI own_ActivityEnableHWTrace(uint8_t enable)
{
	return client_is_shared() ? answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
				  : real_cupti.ActivityEnableHWTrace(enable);
}

/* --- flushes --- */

/* Pauses briefly for other threads of the recorder. Returns false at the end of both. */
static bool pause_until(uint64_t limit_ns)
{
	collector_wake();
	pause_ns(POLL_NS);
	return collector_running() && clock_machine_ns() < limit_ns;
}

/*
 * The vendor thread makes all flushes, because some versions of CUPTI do not tolerate two at a
 * time. Inside a callback, however, CUPTI may hold locks that a flush on another thread waits for,
 * and the callback may be on the vendor thread, so the flush is made here; where CUPTI asks for a
 * buffer there is none to hand over, and a flush would ask for another one. A forced flush is not
 * passed on: it would give the recorder records that have not ended.
 */
static void flush_records(void)
{
	uint64_t begun = clock_machine_ns();
	unsigned round;

	if (in_request)
		return;
	if (client_is_inside() || in_complete) {
		if (!hub_hold())
			return;
		real_cupti.recorder.ActivityFlushAll(0);
		hub_let();
	} else {
		round = vendor_thread_request(VENDOR_FLUSH);
		while (!vendor_thread_done(round) && pause_until(begun + FLUSH_LIMIT_NS))
			;
	}
}

/* Waits until everything that CUPTI has handed to the recorder, even before it left, is copied. */
static void wait_for_copies(void)
{
	uint64_t begun = clock_machine_ns(), completed = buffers_completed();

	while (buffers_decoded() < completed && pause_until(begun + FLUSH_LIMIT_NS))
		;
}

static CUptiResult CUPTIAPI own_ActivityFlushAll(uint32_t flag)
{
	CUptiResult result = CUPTI_SUCCESS;

	if (copies_is_inside() || !copies_registered())
		return answer(CUPTI_ERROR_INVALID_OPERATION);
	if (client_is_shared() && collector_running() && !api_calls_fatal())
		flush_records();
	else
		result = real_cupti.recorder.ActivityFlushAll(flag);
	wait_for_copies();
	copies_deliver(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? COPIES_LAST : COPIES_FLUSH);
	return answer(result);
}

static CUptiResult CUPTIAPI own_ActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	return own_ActivityFlushAll(flag);
}

static CUptiResult CUPTIAPI own_ActivityFlushPeriod(uint32_t ms)
{
	return client_is_shared() ? CUPTI_SUCCESS : real_cupti.ActivityFlushPeriod(ms);
}

/* Kinds of which no record was copied yet are left to CUPTI. */
static CUptiResult CUPTIAPI own_ActivityGetNextRecord(uint8_t *buffer, size_t valid,
						      CUpti_Activity **record)
{
	CUptiResult result = copies_next_record(buffer, valid, record);

	if (result == CUPTI_ERROR_INVALID_KIND)
		result = real_cupti.recorder.ActivityGetNextRecord(buffer, valid, record);
	return answer(result);
}

static CUptiResult CUPTIAPI own_ActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
							     size_t *dropped)
{
	CUptiResult result = CUPTI_SUCCESS;

	if (!dropped)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	*dropped = 0;
	if (!client_is_shared())
		result = real_cupti.recorder.ActivityGetNumDroppedRecords(context, stream, dropped);
	*dropped += copies_dropped();
	return answer(result);
}

/* --- attributes --- */

static CUptiResult CUPTIAPI own_ActivitySetAttribute(CUpti_ActivityAttribute attribute,
						     size_t *size, void *value)
{
	uint64_t words[ATTRIBUTE_BYTES / 8] = { 0 };

	if (!client_is_shared())
		return real_cupti.recorder.ActivitySetAttribute(attribute, size, value);
	if ((unsigned)attribute >= ATTRIBUTES || !size || !value || !*size ||
	    *size > ATTRIBUTE_BYTES)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	memcpy(words, value, *size);
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		atomic_store(&attributes[attribute].value[i], words[i]);
	atomic_store(&attributes[attribute].size, *size);
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_ActivityGetAttribute(CUpti_ActivityAttribute attribute,
						     size_t *size, void *value)
{
	uint64_t words[ATTRIBUTE_BYTES / 8];
	size_t have =
		(unsigned)attribute < ATTRIBUTES ? atomic_load(&attributes[attribute].size) : 0;

	if (!have || !size || !value)
		return answer(real_cupti.ActivityGetAttribute(attribute, size, value));
	if (*size < have)
		return answer(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = atomic_load(&attributes[attribute].value[i]);
	memcpy(value, words, have);
	*size = have;
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_SetThreadIdType(CUpti_ActivityThreadIdType type)
{
	if (!client_is_shared())
		return real_cupti.recorder.SetThreadIdType(type);
	atomic_store(&client.thread_id_type, (int)type);
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_GetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	int own = atomic_load(&client.thread_id_type);

	if (!type || own < 0)
		return answer(real_cupti.GetThreadIdType(type));
	*type = (CUpti_ActivityThreadIdType)own;
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_GetTimestamp(uint64_t *timestamp)
{
	CUpti_TimestampCallbackFunc read = copies_clock();

	if (!timestamp || !read)
		return answer(real_cupti.recorder.GetTimestamp(timestamp));
	*timestamp = read();
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_GetLastError(void)
{
	CUptiResult result = last_error;

	last_error = CUPTI_SUCCESS;
	return result != CUPTI_SUCCESS ? result : real_cupti.GetLastError();
}

/* --- counters --- */

/* The counters belong to the recorder, which was first. */
static CUptiResult refuse_counters(const char *engine)
{
	atomic_store(&client.refused_for, engine);
	note_client("share", "share");
	return answer(CUPTI_ERROR_HARDWARE_BUSY);
}

#define F(name)                                                                                    \
	static CUptiResult CUPTIAPI own_##name(void *what)                                         \
	{                                                                                          \
		const char *engine = hub_counters_engine();                                        \
                                                                                                   \
		return engine ? refuse_counters(engine) : real_cupti.name(what);                   \
	}
COUNTER_FUNCTIONS(F)
#undef F

/* Not passed on while an engine runs, because it ends every profiler of the process. */
static CUptiResult CUPTIAPI own_ProfilerDeInitialize(void *parameters)
{
	return hub_counters_engine() ? CUPTI_SUCCESS : real_cupti.ProfilerDeInitialize(parameters);
}

/* --- the client's end --- */

static CUptiResult CUPTIAPI own_Finalize(void)
{
	struct subscription *s = client_subscription();
	CUptiResult result;

	if (s)
		own_Unsubscribe((CUpti_SubscriberHandle)(void *)s);
	for (unsigned kind = 0; kind < COPIES_KINDS; kind++)
		if (hub_kinds(&profiler_client) >> kind & 1)
			own_ActivityDisable((CUpti_ActivityKind)kind);
	copies_deliver(COPIES_LAST);
	copies_reset();
	for (unsigned i = 0; i < ATTRIBUTES; i++)
		atomic_store(&attributes[i].size, 0);
	atomic_store(&client.thread_id_type, -1);
	if (client_is_shared())
		return CUPTI_SUCCESS;
	result = real_cupti.Finalize();
	atomic_store(&client.has_clock, false);
	return answer(result);
}

/* --- redirection --- */

/* The first two are the ones that are watched if CUPTI is not shared. */
static struct redirected redirected[] = {
#define F(name) { "cupti" #name, (void *)own_##name, NULL },
	SHARED_FUNCTIONS(F) CLIENTS_FUNCTIONS(F) COUNTER_FUNCTIONS(F) F(ProfilerDeInitialize)
#undef F
};

void client_calls_find(const struct cupti *cupti, void *handle)
{
	static atomic_bool found;

	if (atomic_exchange(&found, true))
		return;
	real_cupti.recorder = *cupti;
#define F(name) *(void **)&real_cupti.name = dlsym(handle, "cupti" #name);
	CLIENTS_FUNCTIONS(F)
	COUNTER_FUNCTIONS(F)
	F(ProfilerDeInitialize)
#undef F
	for (unsigned i = 0; i < ARRAY_SIZE(redirected); i++)
		redirected[i].real = dlsym(handle, redirected[i].name);
	copies_start(&(struct copies_cupti){ cupti->GetTimestamp, cupti->ActivityGetNextRecord,
					     cupti->version });
}

void client_calls_route(void)
{
	bool kept = atomic_load(&client.is_kept);

	import_redirect_start(redirected, kept ? 2 : ARRAY_SIZE(redirected),
			      kept ? NULL : real_cupti.recorder.path, real_cupti.recorder.version);
}
