#include "capture/cuda/api_calls.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/starts_with.h"
#include "capture/app/app_external.h"
#include "capture/cuda/correlation.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/share/share.h"
#include "capture/engines/launch_engine.h"
#include "capture/engines/launch_gate.h"
#include "capture/engines/pc_sampling.h"
#include "capture/engines/pm_sampling.h"
#include "capture/engines/stream_captures.h"
#include "capture/stack/stack_capture.h"
#include "capture/core/ring.h"
#include "format/rows.h"

_Static_assert((int)API_DRIVER == (int)CUPTI_CB_DOMAIN_DRIVER_API &&
		       (int)API_RUNTIME == (int)CUPTI_CB_DOMAIN_RUNTIME_API,
	       "the domain says which API");

static atomic_bool enabled, module_unloaded, fatal;
/* Both are written once, before `fatal`. */
static char fatal_text[160];
static uint64_t fatal_ns;
static atomic_bool keep_nested; /* --api all: also record driver calls inside runtime calls */

static atomic_uint_fast64_t devices; /* bit i: a context was created on device i */
static const struct cupti *subscribed;

/* Who else gets callbacks: usually nobody, so the launch path checks a single word. */
enum { LISTENER_CLIENT = 1, LISTENER_MODULES = 2, LISTENER_LAUNCHES = 4 };
static atomic_uint listeners;

/* Functions by domain and callback id, filled before their callbacks are enabled. */
static struct function {
	const char *name; /* NULL: CUPTI knows none */
	uint8_t kind; /* enum api_kind */
	bool watched;
	bool is_module; /* loads or unloads code */
	bool is_capture; /* begins or ends the capture of a graph */
	bool is_gated; /* launch_gate.h */
} functions[API_RUNTIME + 1][API_CALLBACK_IDS_MAX];

/* Classifies a function by its name. */
static enum api_kind api_kind_of(const char *name)
{
	static const struct {
		const char *prefix;
		enum api_kind kind;
	} rules[] = {
		{ "LaunchHostFunc", api_kind_other },
		{ "Launch", api_kind_launch },
		{ "GraphLaunch", api_kind_graph_launch },
		{ "Memcpy", api_kind_memcpy },
		{ "Memset", api_kind_memset },
		{ "CtxSynchronize", api_kind_synchronize },
		{ "DeviceSynchronize", api_kind_synchronize },
		{ "ThreadSynchronize", api_kind_synchronize },
		{ "StreamSynchronize", api_kind_synchronize },
		{ "EventSynchronize", api_kind_synchronize },
		{ "StreamWaitEvent", api_kind_event },
		{ "EventRecord", api_kind_event },
		{ "MemAlloc", api_kind_allocate },
		{ "MemHostAlloc", api_kind_allocate },
		{ "Malloc", api_kind_allocate },
		{ "HostAlloc", api_kind_allocate },
		{ "MemCreate", api_kind_allocate },
		{ "MemHostRegister", api_kind_allocate },
		{ "HostRegister", api_kind_allocate },
		{ "MemFree", api_kind_release },
		{ "Free", api_kind_release },
		{ "MemRelease", api_kind_release },
		{ "MemHostUnregister", api_kind_release },
		{ "HostUnregister", api_kind_release },
	};
	const char *rest = starts_with(name, "cuda") ? name + 4
			   : starts_with(name, "cu") ? name + 2
						     : "";

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (starts_with(rest, rules[i].prefix))
			return rules[i].kind;
	return api_kind_other;
}

static bool is_requested(unsigned api, enum api_kind kind, const struct settings *s)
{
	switch (kind) {
	case api_kind_launch:
	case api_kind_graph_launch:
		return api == API_DRIVER;
	case api_kind_memcpy:
	case api_kind_memset:
	case api_kind_synchronize:
		return true;
	case api_kind_event:
		return s->sync;
	case api_kind_allocate:
	case api_kind_release:
		return s->memory;
	default:
		return false;
	}
}

/* Writes the end of a watched call: one event into the thread's ring. */
static void write_call(struct ring *r, unsigned api, CUpti_CallbackId cbid,
		       const CUpti_CallbackData *data, uint64_t start, uint64_t end)
{
	uint32_t result =
		data->functionReturnValue ? *(const uint32_t *)data->functionReturnValue : 0;
	struct ring_event event[2] = { {
		.a = start,
		.b = end,
		.c = data->correlationId,
		.d = api << 16 | cbid,
		.e = stack_capture_call(r),
		.kind = RING_API_CALL,
		.flags = result != 0,
	} };

	event[1].a = result;
	ring_push(r, event, result != 0 ? 2 : 1);
}

static void on_enter(unsigned api, const CUpti_CallbackData *data, uint64_t now)
{
	struct ring *r = ring_get();

	correlation_enter(data->correlationId, now);
	if (r && !atomic_load_explicit(&keep_nested, memory_order_relaxed)) {
		/* 0 means no outer call; it is also the id of one call in 2^32. */
		if (api == API_DRIVER && r->outer_correlation == data->correlationId &&
		    data->correlationId) {
			*data->correlationData = 0;
			return;
		}
		if (api == API_RUNTIME)
			r->outer_correlation = data->correlationId;
	}
	if (r)
		r->instantiating = false; /* the instantiation has ended, perhaps with an error */
	*data->correlationData = now;
	if (r && (atomic_load_explicit(&r->calls, memory_order_relaxed) + 1) % RING_COST_EVERY == 0)
		counter_add(&r->sampled_ns, clock_monotonic_ns() - now);
}

static void on_exit_of_call(unsigned api, CUpti_CallbackId cbid, const CUpti_CallbackData *data,
			    uint64_t now)
{
	uint64_t start = *data->correlationData;
	struct ring *r = ring_of_thread; /* NULL was counted when the call began */

	if (!r)
		return;
	if (api == API_RUNTIME)
		r->outer_correlation = 0;
	if (start == 0)
		return;
	write_call(r, api, cbid, data, start, now);
	ring_count_call(r, now);
}

static void note_context(const CUpti_ResourceData *data)
{
	uint32_t device;

	if (data && subscribed->GetDeviceId && !atomic_load(&fatal) &&
	    subscribed->GetDeviceId(data->context, &device) == CUPTI_SUCCESS &&
	    device < DEVICES_MAX)
		atomic_fetch_or(&devices, UINT64_C(1) << device);
	pm_sampling_context_created();
}

static void on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		atomic_store(&module_unloaded, true);
		pc_sampling_callback(cbid, data);
		launch_engine_callback(cbid, data);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		note_context(data);
		__attribute__((fallthrough));
	case CUPTI_CBID_RESOURCE_MODULE_LOADED:
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
		pc_sampling_callback(cbid, data);
		launch_engine_callback(cbid, data);
		break;
	default:
		graph_nodes_callback(cbid, data);
	}
}

static void on_fatal_error(const CUpti_StateData *state)
{
	static atomic_flag seen = ATOMIC_FLAG_INIT;
	const char *text = state ? state->notification.message : NULL;

	if (atomic_flag_test_and_set(&seen))
		return;
	fatal_ns = clock_monotonic_ns();
	for (size_t i = 0; text && text[i] && i < sizeof(fatal_text) - 1; i++)
		fatal_text[i] = text[i];
	atomic_store(&fatal, true);
}

ALWAYS_INLINE void on_own_callback(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
				   const void *info)
{
	const CUpti_CallbackData *data = info;

	switch (domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		if (!atomic_load_explicit(&enabled, memory_order_relaxed))
			return;
		if (data->callbackSite == CUPTI_API_ENTER)
			on_enter((unsigned)domain, data, clock_monotonic_ns());
		else
			on_exit_of_call((unsigned)domain, cbid, data, clock_monotonic_ns());
		break;
	case CUPTI_CB_DOMAIN_RESOURCE:
		on_resource(cbid, info);
		break;
	case CUPTI_CB_DOMAIN_STATE:
		if (cbid == CUPTI_CBID_STATE_FATAL_ERROR)
			on_fatal_error(info);
		break;
	default:
		break;
	}
}

/* Calls the client's callback within ours, as if it were a part of the CUDA call. */
static void on_shared_callback(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *info)
{
	const CUpti_CallbackData *data = info;
	bool is_call =
		     domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API,
	     ends = is_call && data->callbackSite == CUPTI_API_EXIT;

	if (ends)
		share_callback(domain, cbid, info);
	if (share_is_recorders(domain, cbid))
		on_own_callback(domain, cbid, info);
	if (!ends)
		share_callback(domain, cbid, info);
}

static bool is_module_function(const char *name)
{
	return starts_with(name, "cuModuleLoad") || starts_with(name, "cuModuleUnload") ||
	       starts_with(name, "cuLibraryLoad") || starts_with(name, "cuLibraryUnload");
}

/*
 * Samples must not be read while code is loaded or unloaded, and an engine's own work for a launch
 * must lie outside the recorded call. An engine may be armed during a call, of which it then sees
 * only the end.
 */
static NOINLINE void on_callback_with_listeners(unsigned who, CUpti_CallbackDomain domain,
						CUpti_CallbackId cbid, const void *info)
{
	const CUpti_CallbackData *data = info;
	const struct function *f =
		domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < API_CALLBACK_IDS_MAX
			? &functions[API_DRIVER][cbid]
			: NULL;
	bool for_launches = who & LISTENER_LAUNCHES && f,
	     is_module = who & LISTENER_MODULES && f && f->is_module,
	     is_graph = for_launches && f->kind == api_kind_graph_launch,
	     is_launch = is_graph || (for_launches && f->kind == api_kind_launch),
	     is_gated = is_launch || (for_launches && f->is_gated);

	if (who & LISTENER_LAUNCHES && launch_engine_calls())
		return;
	if (is_module && data->callbackSite == CUPTI_API_ENTER)
		pc_sampling_module_call(true, data->correlationId);
	if (is_gated && data->callbackSite == CUPTI_API_ENTER)
		launch_gate_enter(data->correlationId);
	if (for_launches && f->is_capture)
		stream_captures_call(data, f->name);
	if (is_launch && data->callbackSite == CUPTI_API_ENTER && atomic_load(&enabled))
		launch_engine_enter(data, f->name, is_graph);
	if (who & LISTENER_CLIENT)
		on_shared_callback(domain, cbid, info);
	else
		on_own_callback(domain, cbid, info);
	if (is_launch && data->callbackSite == CUPTI_API_EXIT)
		launch_engine_exit(data);
	if (is_gated && data->callbackSite == CUPTI_API_EXIT)
		launch_gate_leave(data->correlationId);
	if (is_module && data->callbackSite == CUPTI_API_EXIT)
		pc_sampling_module_call(false, data->correlationId);
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
				 const void *info)
{
	unsigned who = atomic_load_explicit(&listeners, memory_order_relaxed);

	(void)user;
	if (unlikely(who))
		on_callback_with_listeners(who, domain, cbid, info);
	else
		on_own_callback(domain, cbid, info);
}

bool api_calls_add_engine(int engine)
{
	unsigned who = (pc_sampling_is(engine) ? LISTENER_MODULES : 0) |
		       (launch_engine_is(engine) ? LISTENER_LAUNCHES : 0);

	return who & ~atomic_fetch_or(&listeners, who);
}

static void find_functions(const struct cupti *cupti)
{
	for (unsigned api = API_DRIVER; api <= API_RUNTIME; api++) {
		for (CUpti_CallbackId id = 1; id < API_CALLBACK_IDS_MAX; id++) {
			struct function *f = &functions[api][id];

			if (cupti->GetCallbackName((CUpti_CallbackDomain)api, id, &f->name) !=
			    CUPTI_SUCCESS)
				f->name = NULL;
			f->kind = f->name ? (uint8_t)api_kind_of(f->name) : api_kind_other;
			if (!f->name || api != API_DRIVER)
				continue;
			f->is_module = is_module_function(f->name);
			f->is_capture = stream_captures_is_function(f->name);
			f->is_gated = launch_gate_is_function(f->name);
		}
	}
}

static void count_watched(struct api_watched *watched, CUptiResult result)
{
	if (result == CUPTI_SUCCESS) {
		watched->functions++;
	} else {
		watched->failed++;
		watched->why = result;
	}
}

static void enable_one(const struct cupti *cupti, CUpti_SubscriberHandle subscriber, unsigned api,
		       CUpti_CallbackId id, bool on, struct api_watched *watched)
{
	struct function *f = &functions[api][id];
	CUptiResult result;

	if (f->watched == on)
		return;
	result = cupti->EnableCallback(on, subscriber, (CUpti_CallbackDomain)api, id);
	f->watched = on && result == CUPTI_SUCCESS;
	if (on)
		count_watched(watched, result);
}

struct api_watched api_calls_watch(const struct cupti *cupti, CUpti_SubscriberHandle subscriber,
				   const struct settings *requested)
{
	struct api_watched watched = { 0 };
	bool all = requested && requested->api == SETTING_API_ALL,
	     fewer = atomic_load(&keep_nested) && !all,
	     modules = atomic_load(&listeners) & LISTENER_MODULES,
	     launches = atomic_load(&listeners) & LISTENER_LAUNCHES;

	atomic_store(&keep_nested, all);
	for (unsigned api = API_DRIVER; api <= API_RUNTIME; api++) {
		if (fewer) {
			cupti->EnableDomain(0, subscriber, (CUpti_CallbackDomain)api);
			for (CUpti_CallbackId id = 1; id < API_CALLBACK_IDS_MAX; id++)
				functions[api][id].watched = false;
		}
		if (all) {
			count_watched(&watched, cupti->EnableDomain(1, subscriber,
								    (CUpti_CallbackDomain)api));
			continue;
		}
		for (CUpti_CallbackId id = 1; id < API_CALLBACK_IDS_MAX; id++)
			if (functions[api][id].name)
				enable_one(cupti, subscriber, api, id,
					   (requested && is_requested(api, functions[api][id].kind,
								      requested)) ||
						   (modules && functions[api][id].is_module) ||
						   (launches && (functions[api][id].is_capture ||
								 functions[api][id].is_gated)),
					   &watched);
	}
	return watched;
}

/* Uses cuptiSubscribe_v2 if possible, because it names the tool that is in the way. */
static CUptiResult subscribe(const struct cupti *cupti, CUpti_SubscriberHandle *subscriber,
			     char *other, size_t room)
{
	other[0] = '\0';
#if CUPTI_API_VERSION >= 130000
	if (cupti->Subscribe_v2) {
		CUpti_SubscriberParams params = { .structSize =
							  CUpti_SubscriberParams_STRUCT_SIZE };

		params.subscriberName = "Pitot";
		params.oldSubscriberName = other;
		params.oldSubscriberSize = room;
		CUptiResult result = cupti->Subscribe_v2(subscriber, on_callback, NULL, &params);

		if (result == CUPTI_SUCCESS ||
		    result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
			return result;
	}
#else
	(void)room;
#endif
	return cupti->Subscribe(subscriber, on_callback, NULL);
}

CUptiResult api_calls_subscribe(const struct cupti *cupti, CUpti_SubscriberHandle *subscriber,
				char *other_tool, size_t other_tool_room)
{
	CUptiResult result = subscribe(cupti, subscriber, other_tool, other_tool_room);

	if (result != CUPTI_SUCCESS)
		return result;
	atomic_fetch_and(&listeners, LISTENER_CLIENT);
	atomic_store(&devices, 0);
	subscribed = cupti;
	memset(functions, 0, sizeof(functions));
	find_functions(cupti);
	cupti->EnableCallback(1, *subscriber, CUPTI_CB_DOMAIN_RESOURCE,
			      CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	cupti->EnableCallback(1, *subscriber, CUPTI_CB_DOMAIN_RESOURCE,
			      CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	cupti->EnableCallback(1, *subscriber, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR);
	return CUPTI_SUCCESS;
}

void api_calls_enable(bool on)
{
	atomic_store(&enabled, on);
	atomic_store(&app_external_on, on);
}

void api_calls_with_client(bool there)
{
	if (there)
		atomic_fetch_or(&listeners, LISTENER_CLIENT);
	else
		atomic_fetch_and(&listeners, ~(unsigned)LISTENER_CLIENT);
}

const char *api_function_name(uint32_t function, enum api_kind *kind)
{
	unsigned api = function >> 16, id = function & 0xffff;

	*kind = api_kind_other;
	if (api < API_DRIVER || api > API_RUNTIME || id >= API_CALLBACK_IDS_MAX ||
	    !functions[api][id].name)
		return NULL;
	*kind = functions[api][id].kind;
	return functions[api][id].name;
}

static bool known[API_FUNCTIONS_MAX]; /* functions whose rows were written */

void api_functions_begin(void)
{
	memset(known, 0, sizeof(known));
}

static NOINLINE void write_function(struct writer *w, uint32_t function, const char *name,
				    enum api_kind kind)
{
	struct row_api_function row = { .id = function,
					.name = rows_text(w, name ? name : "?"),
					.kind = (uint8_t)kind };

	known[api_function_index(function)] = true;
	writer_api_function(w, function, &row);
}

enum api_kind api_function_write(struct writer *w, uint32_t function)
{
	enum api_kind kind;
	const char *name = api_function_name(function, &kind);

	if (!name || !known[api_function_index(function)])
		write_function(w, function, name, kind);
	return kind;
}

bool api_calls_take_module_unloaded(void)
{
	return atomic_exchange(&module_unloaded, false);
}

uint64_t api_calls_devices(void)
{
	return atomic_load(&devices);
}

bool api_calls_fatal(void)
{
	return atomic_load(&fatal);
}

uint64_t api_calls_fatal_ns(void)
{
	return fatal_ns;
}

const char *api_calls_fatal_text(void)
{
	return fatal_text;
}
