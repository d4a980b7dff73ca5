#include "capture/cuda/share/share.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "capture/capability_notes.h"
#include "capture/collector.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/share/client.h"
#include "capture/cuda/share/client_records.h"
#include "capture/cuda/share/slots.h"
#include "capture/cuda/share/turns.h"
#include "capture/log.h"
#include "capture/vendor_thread.h"
#include "format/rows.h"

#define ATTRIBUTES 16u
#define ATTRIBUTE_BYTES 16u
#define FLUSH_LIMIT_NS (PITOT_SLOWNESS * NS_PER_S)

static atomic_bool wrapped; /* functions are routed here, for ever */
static atomic_bool
	shared; /* the recorder is subscribed, for both; else the client's calls are CUPTI's */
static atomic_bool clock_passed; /* CUPTI has the client's clock, and gives it not back */
static atomic_bool noted; /* that there is a client */
static atomic_uint_fast64_t left_out;

/* What the client has set without effect. A size of 0: nothing. */
static struct {
	atomic_size_t size;
	atomic_uint_fast64_t value[ATTRIBUTE_BYTES / 8];
} attributes[ATTRIBUTES];
static atomic_int thread_id_type = -1; /* the client's; -1: it has set none */

static __thread CUptiResult last_error __attribute__((tls_model("initial-exec")));

static CUptiResult answer(CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		last_error = result;
	return result;
}

static bool is_shared(void)
{
	return atomic_load(&shared);
}

/* Callbacks are looked at for the client while it wants anything. Another thread of it may change that meanwhile. */
static void follow_client(void)
{
	bool there;

	do {
		there = is_shared() && wants_anything(WANT_CLIENT);
		api_calls_with_client(there);
	} while (there != (is_shared() && wants_anything(WANT_CLIENT)));
	if (there && !atomic_exchange(&noted, true))
		capability_note("own_profiler", capability_state_on, turns_mode(), "share",
				"another client of CUPTI");
}

/* --- the client's subscription --- */

static CUptiResult subscribe_really(struct subscription *s)
{
	CUpti_SubscriberHandle handle;
	CUptiResult result = real_cupti.recorder.Subscribe(&handle, atomic_load(&s->callback),
							   atomic_load(&s->user));

	if (result != CUPTI_SUCCESS)
		return result;
	atomic_store(&s->real, handle);
	atomic_store(&real_cupti.subscriber, handle);
	return result;
}

static CUptiResult CUPTIAPI own_Subscribe(CUpti_SubscriberHandle *handle,
					  CUpti_CallbackFunc callback, void *user)
{
	TURNS_CALL;
	struct subscription *s;
	CUptiResult result;

	if (!handle)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	turns_come(is_shared);
	s = client_subscribe(callback, user);
	if (!s)
		return answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	client_keep_loaded((void *)callback);
	if (!is_shared()) {
		result = subscribe_really(s);
		if (result != CUPTI_SUCCESS) {
			client_unsubscribe(s);
			return result;
		}
	}
	*handle = (CUpti_SubscriberHandle)(void *)s;
	return CUPTI_SUCCESS;
}

/* Later versions of the parameters ask for several subscribers, which this is not. */
static CUptiResult CUPTIAPI own_Subscribe_v2(CUpti_SubscriberHandle *handle,
					     CUpti_CallbackFunc callback, void *user,
					     CUpti_SubscriberParams *parameters)
{
	if (parameters && parameters->structSize > CUpti_SubscriberParams_STRUCT_SIZE)
		return answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	return own_Subscribe(handle, callback, user);
}

static struct subscription *subscription_of(CUpti_SubscriberHandle handle)
{
	struct subscription *s = client_subscription();

	return s && (void *)handle == s ? s : NULL;
}

static void disable_callbacks(void)
{
	for (unsigned domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; domain++)
		want_domain(WANT_CLIENT, false, (CUpti_CallbackDomain)domain);
}

static CUptiResult CUPTIAPI own_Unsubscribe(CUpti_SubscriberHandle handle)
{
	TURNS_CALL;
	struct subscription *s = subscription_of(handle);
	CUpti_SubscriberHandle real;

	if (!s)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	disable_callbacks();
	client_unsubscribe(s);
	if (!is_shared() && (real = atomic_exchange(&s->real, NULL)))
		real_cupti.recorder.Unsubscribe(real);
	follow_client();
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_EnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
					       CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	TURNS_CALL;
	CUptiResult result;

	if (!subscription_of(handle))
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	if (enable && turns_is_work(domain))
		turns_come(is_shared);
	result = want_callback(WANT_CLIENT, enable != 0, domain, id);
	follow_client();
	return answer(result);
}

static CUptiResult CUPTIAPI own_EnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
					     CUpti_CallbackDomain domain)
{
	TURNS_CALL;
	CUptiResult result;

	if (!subscription_of(handle))
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	if (enable && turns_is_work(domain))
		turns_come(is_shared);
	result = want_domain(WANT_CLIENT, enable != 0, domain);
	follow_client();
	return answer(result);
}

static CUptiResult CUPTIAPI own_EnableAllDomains(uint32_t enable, CUpti_SubscriberHandle handle)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (unsigned d = 1; d < CUPTI_CB_DOMAIN_SIZE && result == CUPTI_SUCCESS; d++)
		result = own_EnableDomain(enable, handle, (CUpti_CallbackDomain)d);
	return result;
}

static CUptiResult CUPTIAPI own_GetCallbackState(uint32_t *enable, CUpti_SubscriberHandle handle,
						 CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	if (!enable || !subscription_of(handle))
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	*enable = wants_callback(WANT_CLIENT, domain, id);
	return CUPTI_SUCCESS;
}

/* --- its records --- */

/* Buffers that CUPTI has requested from the one and hands over when the other is registered. */
static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	CUpti_BuffersCallbackCompleteFunc clients = copies_complete();

	if (buffers_has(buffer))
		buffers_on_complete(context, stream, buffer, size, valid);
	else if (clients)
		clients(context, stream, buffer, size, valid);
}

static CUptiResult CUPTIAPI own_ActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
	TURNS_CALL;

	if (!request || !complete)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	client_keep_loaded((void *)request);
	copies_register(request, complete);
	return is_shared() ? CUPTI_SUCCESS
			   : real_cupti.recorder.ActivityRegisterCallbacks(request, on_complete);
}

static CUptiResult CUPTIAPI own_ActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc read)
{
	TURNS_CALL;

	if (!read)
		return answer(CUPTI_ERROR_INVALID_PARAMETER);
	client_keep_loaded((void *)read);
	copies_register_clock(read);
	if (is_shared())
		return CUPTI_SUCCESS;
	atomic_store(&clock_passed, true);
	return real_cupti.ActivityRegisterTimestampCallback(read);
}

/* KERNEL serializes kernels, and records of graphs as a whole are in place of their nodes: both would change the recording. */
static bool is_refused(CUpti_ActivityKind kind)
{
	return is_shared() && !(wants_kinds(WANT_RECORDER) >> kind & 1) &&
	       (kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

static CUptiResult CUPTIAPI own_ActivityEnable(CUpti_ActivityKind kind)
{
	TURNS_CALL;
	CUptiResult result;

	if ((unsigned)kind >= COPIES_KINDS)
		return answer(CUPTI_ERROR_INVALID_KIND);
	turns_come(is_shared);
	if (is_refused(kind))
		return answer(CUPTI_ERROR_NOT_COMPATIBLE);
	if (is_shared() && !(wants_kinds(WANT_RECORDER) >> kind & 1))
		atomic_fetch_or(&left_out, UINT64_C(1) << kind);
	if (is_shared() || !turns_yield()) /* else nothing of the recorder's is its */
		copies_enable((uint32_t)kind, wants_any(WANT_RECORDER, CUPTI_CB_DOMAIN_DRIVER_API));
	result = want_kind(WANT_CLIENT, true, kind);
	if (result != CUPTI_SUCCESS)
		copies_disable((uint32_t)kind);
	follow_client();
	return answer(result);
}

static CUptiResult CUPTIAPI own_ActivityDisable(CUpti_ActivityKind kind)
{
	TURNS_CALL;
	CUptiResult result;

	if ((unsigned)kind >= COPIES_KINDS)
		return answer(CUPTI_ERROR_INVALID_KIND);
	copies_disable((uint32_t)kind);
	result = want_kind(WANT_CLIENT, false, kind);
	follow_client();
	return answer(result);
}

/* Of all contexts: which one a record is of is the client's to look at. */
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

/* Of every kernel, instead of what the recorder reads. */
static CUptiResult CUPTIAPI own_ActivityEnableHWTrace(uint8_t enable)
{
	return is_shared() ? answer(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
			   : real_cupti.ActivityEnableHWTrace(enable);
}

/* --- flushes --- */

/*
 * By the vendor thread, as all flushes: two at a time are more than some versions bear. Inside of a callback CUPTI may have locks that
 * its flush on another thread waits for, so there it is called here. A forced flush would give the recorder records that have not
 * ended, and is none.
 */
static void flush_records(void)
{
	uint64_t begun = clock_machine_ns();
	unsigned round;

	if (client_is_inside()) {
		real_cupti.recorder.ActivityFlushAll(0);
	} else {
		round = vendor_thread_request(VENDOR_FLUSH);
		while (!vendor_thread_done(round) && turns_look_again(begun, FLUSH_LIMIT_NS))
			;
	}
}

/* Until all that CUPTI has handed to the recorder is copied; also what it did before the recorder left. */
static void wait_for_copies(void)
{
	uint64_t begun = clock_machine_ns(), completed = buffers_completed();

	while (buffers_decoded() < completed && turns_look_again(begun, FLUSH_LIMIT_NS))
		;
}

static CUptiResult CUPTIAPI own_ActivityFlushAll(uint32_t flag)
{
	TURNS_CALL;
	CUptiResult result = CUPTI_SUCCESS;

	if (copies_is_inside() || !copies_registered())
		return answer(CUPTI_ERROR_INVALID_OPERATION);
	if (is_shared() && collector_running() && !api_calls_fatal())
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
	return is_shared() ? CUPTI_SUCCESS : real_cupti.ActivityFlushPeriod(ms);
}

/* A kind of which no record was copied yet is CUPTI's to know. */
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
	if (!is_shared())
		result = real_cupti.recorder.ActivityGetNumDroppedRecords(context, stream, dropped);
	*dropped += copies_dropped();
	return answer(result);
}

/* --- attributes --- */

static CUptiResult CUPTIAPI own_ActivitySetAttribute(CUpti_ActivityAttribute attribute,
						     size_t *size, void *value)
{
	uint64_t words[ATTRIBUTE_BYTES / 8] = { 0 };

	if (!is_shared())
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
	if (!is_shared())
		return real_cupti.recorder.SetThreadIdType(type);
	atomic_store(&thread_id_type, (int)type);
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI own_GetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	int own = atomic_load(&thread_id_type);

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

/* --- the client's end --- */

static CUptiResult CUPTIAPI own_Finalize(void)
{
	TURNS_CALL;
	struct subscription *s = client_subscription();
	CUptiResult result;

	if (s)
		own_Unsubscribe((CUpti_SubscriberHandle)(void *)s);
	for (unsigned kind = 0; kind < COPIES_KINDS; kind++)
		if (wants_kinds(WANT_CLIENT) >> kind & 1)
			own_ActivityDisable((CUpti_ActivityKind)kind);
	copies_deliver(COPIES_LAST);
	copies_reset();
	for (unsigned i = 0; i < ATTRIBUTES; i++)
		atomic_store(&attributes[i].size, 0);
	atomic_store(&thread_id_type, -1);
	if (is_shared())
		return CUPTI_SUCCESS;
	result = real_cupti.Finalize();
	atomic_store(&clock_passed, false);
	return answer(result);
}

/* --- the recorder's functions, and between the two --- */

static void set_zeroed(uint8_t zeroed)
{
	size_t size = sizeof(zeroed);

	real_cupti.recorder.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
						 &size, &zeroed);
}

/* CUPTI's buffers have to come back before another's are registered. */
static void end_buffers(void)
{
	wants_repeat_kinds(false);
	real_cupti.recorder.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

/* The recorder is not subscribed: the client is CUPTI's own again. */
static void hand_over(void)
{
	struct subscription *s = client_subscription();

	if (copies_registered()) {
		set_zeroed(0);
		real_cupti.recorder.ActivityRegisterCallbacks(copies_request(), on_complete);
	}
	if (turns_yield() && real_cupti.recorder.SetThreadIdType)
		real_cupti.recorder.SetThreadIdType(
			atomic_load(&thread_id_type) < 0
				? CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT
				: (CUpti_ActivityThreadIdType)atomic_load(&thread_id_type));
	if (copies_clock() && (s || wants_kinds(WANT_CLIENT) || turns_yield())) {
		atomic_store(&clock_passed, true);
		real_cupti.ActivityRegisterTimestampCallback(copies_clock());
	}
	if (s && subscribe_really(s) == CUPTI_SUCCESS)
		wants_repeat_callbacks(atomic_load(&s->real));
	if (copies_registered())
		wants_repeat_kinds(true);
	follow_client();
}

static void take_back(void)
{
	struct subscription *s = client_subscription();
	CUpti_SubscriberHandle real = s && !is_shared() ? atomic_exchange(&s->real, NULL) : NULL;

	if (real || (!is_shared() && copies_registered()))
		end_buffers();
	if (real)
		real_cupti.recorder.Unsubscribe(real);
}

/* As CUPTI's own clock, to which it does not return by itself. */
static uint64_t CUPTIAPI read_realtime(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

/* Else the recorder's times would be the client's. */
static CUptiResult come(void)
{
	bool is_replaced = atomic_load(&clock_passed);

	if (is_replaced && !turns_yield())
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	take_back();
	return is_replaced ? real_cupti.ActivityRegisterTimestampCallback(read_realtime)
			   : CUPTI_SUCCESS;
}

static CUptiResult subscribed(CUptiResult result, const CUpti_SubscriberHandle *handle)
{
	if (result == CUPTI_SUCCESS)
		atomic_store(&real_cupti.subscriber, *handle);
	else
		hand_over();
	return result;
}

static CUptiResult CUPTIAPI recorder_Subscribe(CUpti_SubscriberHandle *handle,
					       CUpti_CallbackFunc callback, void *user)
{
	CUptiResult result = come();

	return result == CUPTI_SUCCESS
		       ? subscribed(real_cupti.recorder.Subscribe(handle, callback, user), handle)
		       : result;
}

static CUptiResult CUPTIAPI recorder_Subscribe_v2(CUpti_SubscriberHandle *handle,
						  CUpti_CallbackFunc callback, void *user,
						  CUpti_SubscriberParams *parameters)
{
	CUptiResult result = come();

	return result == CUPTI_SUCCESS ? subscribed(real_cupti.recorder.Subscribe_v2(
							    handle, callback, user, parameters),
						    handle)
				       : result;
}

static CUptiResult CUPTIAPI recorder_Unsubscribe(CUpti_SubscriberHandle handle)
{
	CUptiResult result;

	atomic_store(&shared, false);
	end_buffers();
	result = real_cupti.recorder.Unsubscribe(handle);
	wants_forget(WANT_RECORDER);
	hand_over();
	return result;
}

static CUptiResult CUPTIAPI recorder_EnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
						    CUpti_CallbackDomain domain,
						    CUpti_CallbackId id)
{
	(void)handle;
	return want_callback(WANT_RECORDER, enable != 0, domain, id);
}

static CUptiResult CUPTIAPI recorder_EnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
						  CUpti_CallbackDomain domain)
{
	(void)handle;
	return want_domain(WANT_RECORDER, enable != 0, domain);
}

static CUptiResult CUPTIAPI recorder_ActivityEnable(CUpti_ActivityKind kind)
{
	CUptiResult result = want_kind(WANT_RECORDER, true, kind);

	if (result == CUPTI_SUCCESS)
		atomic_fetch_and(&left_out, ~(UINT64_C(1) << kind));
	return result;
}

static CUptiResult CUPTIAPI recorder_ActivityEnableAndDump(CUpti_ActivityKind kind)
{
	CUptiResult result = recorder_ActivityEnable(kind);

	return result == CUPTI_SUCCESS ? real_cupti.recorder.ActivityEnableAndDump(kind) : result;
}

static CUptiResult CUPTIAPI recorder_ActivityDisable(CUpti_ActivityKind kind)
{
	if (wants_kinds(WANT_CLIENT) >> kind & 1)
		atomic_fetch_or(&left_out, UINT64_C(1) << kind);
	return want_kind(WANT_RECORDER, false, kind);
}

/* Records that CUPTI has dropped are lost to both. */
static CUptiResult CUPTIAPI recorder_ActivityGetNumDroppedRecords(CUcontext context,
								  uint32_t stream, size_t *dropped)
{
	CUptiResult result =
		real_cupti.recorder.ActivityGetNumDroppedRecords(context, stream, dropped);

	if (result == CUPTI_SUCCESS && wants_kinds(WANT_CLIENT))
		copies_add_dropped(*dropped);
	return result;
}

/* --- what is routed --- */

static struct routed routed[] = {
#define F(name) { "cupti" #name, (void *)own_##name, NULL },
	SHARED_FUNCTIONS(F) CLIENTS_FUNCTIONS(F)
#undef F
};

/* The last step of a subscription: from here on the client's calls are ours. */
static CUptiResult CUPTIAPI recorder_ActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
	CUptiResult result;

	(void)complete; /* buffers_on_complete */
	result = real_cupti.recorder.ActivityRegisterCallbacks(request, on_complete);
	if (result != CUPTI_SUCCESS)
		return result;
	atomic_store(&left_out, wants_kinds(WANT_CLIENT));
	wants_repeat_callbacks(atomic_load(&real_cupti.subscriber));
	wants_repeat_kinds(true);
	atomic_store(&shared, true);
	follow_client();
	slots_route(routed, ARRAY_SIZE(routed), real_cupti.recorder.path,
		    real_cupti.recorder.version);
	return result;
}

static void read_real(const struct cupti *cupti, void *handle)
{
	real_cupti.recorder = *cupti;
#define F(name) *(void **)&real_cupti.name = dlsym(handle, "cupti" #name);
	CLIENTS_FUNCTIONS(F)
#undef F
	for (unsigned i = 0; i < ARRAY_SIZE(routed); i++)
		routed[i].real = dlsym(handle, routed[i].name);
	copies_start(&(struct copies_cupti){ cupti->GetTimestamp, cupti->ActivityGetNextRecord,
					     cupti->version });
}

void share_wrap(struct cupti *cupti, bool yield)
{
	void *handle;

	turns_set_yield(yield);
	if (cupti->Subscribe == recorder_Subscribe)
		return;
	handle = dlopen(cupti->path, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle) {
		capability_note("own_profiler", capability_state_unavailable, turns_mode(), "keep",
				"'%s' cannot be opened twice", cupti->path);
		return;
	}
	if (!atomic_exchange(&wrapped, true))
		read_real(cupti, handle);
#define F(name)                                                                                    \
	if (cupti->name)                                                                           \
		cupti->name = recorder_##name;
	RECORDERS_FUNCTIONS(F)
#undef F
}

/* --- what the recorder asks --- */

bool share_is_recorders(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return wants_callback(WANT_RECORDER, domain, id);
}

void share_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	const CUpti_CallbackData *data = info;
	bool begins =
		(domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) &&
		data->callbackSite == CUPTI_API_ENTER;

	client_call(domain, id, info);
	if (begins && !client_is_inside())
		copies_call(data->correlationId);
}

uint64_t share_left_out(void)
{
	return atomic_load_explicit(&left_out, memory_order_relaxed);
}

void share_copy(uint8_t *bytes, size_t valid)
{
	if (atomic_load(&wrapped))
		copies_add(bytes, valid);
}

void share_follow(void)
{
	if (!atomic_load(&wrapped))
		return;
	if (is_shared() || turns_yield())
		slots_follow();
	client_keep_all_loaded();
}

bool share_clock_is_clients(void)
{
	return !is_shared() && atomic_load(&clock_passed);
}

static void describe_copies(struct strbuf *text)
{
	struct copies_counts counts = copies_counts();

	strbuf_addf(text, "another client of CUPTI: %llu kernels copied (%llu records)",
		    (unsigned long long)counts.kernels, (unsigned long long)counts.records);
	if (counts.dropped)
		strbuf_addf(text, ", %llu dropped that it gave no buffers for",
			    (unsigned long long)counts.dropped);
}

void share_end(struct writer *w, const char *requested)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	bool has_gaps;

	if (!atomic_load(&wrapped))
		return;
	has_gaps = turns_end(w, &text);
	if (atomic_load(&noted) && (!has_gaps || copies_counts().records)) {
		strbuf_adds(&text, has_gaps ? "; " : "");
		describe_copies(&text);
	}
	rows_capability(w, "own_profiler",
			has_gaps              ? capability_state_degraded
			: atomic_load(&noted) ? capability_state_on
					      : capability_state_off,
			requested, turns_mode(),
			text.length ? strbuf_text(&text) : "no other client of CUPTI");
}

/* CUDA does not work here until exec(). */
void share_after_fork(void)
{
	if (!atomic_load(&wrapped))
		return;
	atomic_store(&shared, false);
	atomic_store(&left_out, 0);
	api_calls_with_client(false);
	wants_forget(WANT_RECORDER);
	wants_forget(WANT_CLIENT);
	client_after_fork();
	turns_after_fork();
	copies_after_fork();
	slots_after_fork();
}
