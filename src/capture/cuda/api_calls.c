#include "capture/cuda/api_calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/starts_with.h"
#include "capture/app/app_external.h"
#include "capture/cuda/call_handles.h"
#include "capture/cuda/call_polls.h"
#include "capture/cuda/correlation.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/hub/hub.h"
#include "capture/cuda/launch_names.h"
#include "capture/stack/stack_capture.h"
#include "capture/core/shared_area.h"
#include "format/rows.h"
#include "schema/event_words.h"

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

/* By domain and callback id; filled before callbacks are enabled. name NULL: CUPTI knows none. */
static struct hub_function functions[API_RUNTIME + 1][API_CALLBACK_IDS_MAX];
/* Of the same functions; what the launch path reads of them is apart. */
static struct call_handles handles[API_RUNTIME + 1][API_CALLBACK_IDS_MAX];
static uint8_t treatments[API_RUNTIME + 1][API_CALLBACK_IDS_MAX];
/* Frameworks make six calls about events for each collective, and their stacks say nothing. */
enum {
	WITH_HANDLES = 1,
	WITHOUT_STACK = 2,
	WAITS = 4,
	ALLOCATES = 8,
	LAUNCHES_KERNEL = 16,
	LAUNCHES_GRAPH = 32
};
/* Whether allocations are recorded that do not fail. */
static atomic_bool keep_allocations;

/* CUPTI's name of a function without "cu" or "cuda". */
static const char *bare_name(const char *name)
{
	return starts_with(name, "cuda") ? name + 4 : starts_with(name, "cu") ? name + 2 : "";
}

static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	if (!s)
		return false;
	switch (f->kind) {
	case api_kind_launch:
	case api_kind_graph_launch:
	case api_kind_event:
	case api_kind_host_function:
	case api_kind_stream_memory:
	case api_kind_begin_capture:
	case api_kind_end_capture:
	case api_kind_query:
		return f->is_driver;
	case api_kind_memcpy:
	case api_kind_memset:
	case api_kind_synchronize:
		return true;
	case api_kind_allocate: /* why a program runs out of memory */
		return s->memory || (f->is_driver && !strstr(f->name, "Async"));
	case api_kind_release:
		return s->memory;
	default:
		return false;
	}
}

/* Makes the event of a query that of a wait. False: it is of none. */
static bool end_poll(struct ring *r, struct ring_event *event, uint32_t result,
		     const CUpti_CallbackData *data)
{
	uint64_t since_ns;

	if ((result && result != CALL_NOT_READY) || !data->functionParams ||
	    atomic_load_explicit(&keep_nested, memory_order_relaxed))
		return true;
	since_ns = call_poll(r, load_u64(data->functionParams), !result, event->a, event->b);
	event->a = since_ns;
	event->e = since_ns ? stack_capture_call(r) : 0;
	return since_ns != 0;
}

/* Appends the call's handles to its event. Returns the number of slots; 0: there is no event. */
static NOINLINE uint32_t add_handles(struct ring *r, struct ring_event *event, uint32_t slots,
				     unsigned api, CUpti_CallbackId cbid,
				     const CUpti_CallbackData *data)
{
	if (functions[api][cbid].kind == api_kind_query &&
	    !end_poll(r, event, slots > 1 ? (uint32_t)event[1].a : 0, data))
		return 0;
	if (event->flags & CALL_HAS_RESULT)
		return slots;
	event->flags |= CALL_HAS_HANDLES;
	call_handles_read(&handles[api][cbid], subscribed, data, &event[slots]);
	return slots + 1;
}

static NOINLINE void note_launch(struct ring *r, unsigned api, CUpti_CallbackId cbid,
				 const CUpti_CallbackData *data)
{
	if (cbid < API_CALLBACK_IDS_MAX && functions[api][cbid].kind == api_kind_launch) {
		r->launch.count++;
		r->launch.correlation = data->correlationId;
		r->launch.kernel = data->symbolName;
	}
}

/* For recover/: a call that never returns has no event. */
static NOINLINE void note_wait(struct ring *r, unsigned api, CUpti_CallbackId cbid,
			       uint32_t correlation, uint64_t now)
{
	r->wait.function = api << 16 | cbid;
	r->wait.correlation = correlation;
	r->wait.stack = stack_capture_call(r);
	atomic_store_explicit(&r->wait.start_ns, now, memory_order_release);
}

/* Whether a call has no stack, or had none when it began to wait, which is counted then. */
static bool has_no_stack(const struct ring *r, uint8_t treatment, uint32_t correlation)
{
	return treatment & WITHOUT_STACK ||
	       (treatment & WAITS && r->wait.correlation == correlation && !r->wait.stack);
}

/* Writes the end of a watched call: one event into the thread's ring. */
static void write_call(struct ring *r, unsigned api, CUpti_CallbackId cbid,
		       const CUpti_CallbackData *data, uint64_t start, uint64_t end)
{
	uint32_t result =
		data->functionReturnValue ? *(const uint32_t *)data->functionReturnValue : 0;
	uint32_t slots = result != 0 ? 2 : 1;
	uint8_t treatment = treatments[api][cbid % API_CALLBACK_IDS_MAX];
	struct ring_event event[2];

	if (unlikely(treatment & ALLOCATES) && !result &&
	    !atomic_load_explicit(&keep_allocations, memory_order_relaxed))
		return;
	event[0] = (struct ring_event){
		.a = start,
		.b = end,
		.c = data->correlationId,
		.d = api << 16 | cbid,
		.e = has_no_stack(r, treatment, data->correlationId) ? 0 : stack_capture_call(r),
		.kind = RING_API_CALL,
		.flags = result != 0 ? CALL_HAS_RESULT : 0,
	};
	event[1] = (struct ring_event){ 0 };
	if (treatment & (LAUNCHES_KERNEL | LAUNCHES_GRAPH) && !result)
		launch_names_note(r, data->correlationId,
				  treatment & LAUNCHES_KERNEL ? data->symbolName : NULL);
	if (unlikely(atomic_load_explicit(&ring_notes_launches, memory_order_relaxed)))
		note_launch(r, api, cbid, data);
	if (unlikely(treatment & WAITS))
		atomic_store_explicit(&r->wait.start_ns, 0, memory_order_relaxed);
	event[1].a = result;
	if (unlikely(treatment & WITH_HANDLES)) {
		slots = add_handles(r, event, slots, api, cbid, data);
		if (!slots)
			return;
	}
	ring_push(r, event, slots);
}

ALWAYS_INLINE void on_enter(unsigned api, CUpti_CallbackId cbid, const CUpti_CallbackData *data,
			    uint64_t now)
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
	if (r && unlikely(treatments[api][cbid % API_CALLBACK_IDS_MAX] & WAITS))
		note_wait(r, api, cbid, data->correlationId, now);
	if (r && (atomic_load_explicit(&r->calls, memory_order_relaxed) + 1) % RING_COST_EVERY == 0)
		counter_add(&r->sampled_ns, clock_monotonic_ns() - now);
}

ALWAYS_INLINE void on_exit_of_call(unsigned api, CUpti_CallbackId cbid,
				   const CUpti_CallbackData *data, uint64_t now)
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
}

static void on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		launch_names_module_unloaded();
		atomic_store(&module_unloaded, true);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		note_context(data);
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

ALWAYS_INLINE void on_call(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			   const CUpti_CallbackData *data)
{
	if (!atomic_load_explicit(&enabled, memory_order_relaxed))
		return;
	if (data->callbackSite == CUPTI_API_ENTER)
		on_enter((unsigned)domain, cbid, data, clock_monotonic_ns());
	else
		on_exit_of_call((unsigned)domain, cbid, data, clock_monotonic_ns());
}

static void on_call_of_all(const struct hub_call *call)
{
	on_call(call->domain, call->function->id, call->data);
}

static NOINLINE void call_all(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *info)
{
	static const struct hub_function beyond = { .id = API_CALLBACK_IDS_MAX };

	hub_call(&(struct hub_call){
		cbid < API_CALLBACK_IDS_MAX ? &functions[domain][cbid] : &beyond, domain, info });
}

/* Before the others, which ask for what this notes. */
static NOINLINE void on_notification(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
				     const void *info)
{
	if (!hub_is_own_call && domain == CUPTI_CB_DOMAIN_RESOURCE &&
	    hub_wants(&trace_client, domain, cbid))
		on_resource(cbid, info);
	else if (domain == CUPTI_CB_DOMAIN_STATE && cbid == CUPTI_CBID_STATE_FATAL_ERROR)
		on_fatal_error(info);
	hub_notify(domain, cbid, info);
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
				 const void *info)
{
	(void)user;
	switch (domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		if (unlikely(atomic_load_explicit(&hub_listeners, memory_order_relaxed)))
			call_all(domain, cbid, info);
		else
			on_call(domain, cbid, info);
		break;
	default:
		on_notification(domain, cbid, info);
	}
}

static struct hub_wishes wishes;
const struct hub_client trace_client = {
	.name = "trace",
	.wishes = &wishes,
	.wants_call = wants_call,
	.enter = on_call_of_all,
	.exit = on_call_of_all,
};

static bool waits_for_gpu(const struct hub_function *f)
{
	bool copies = f->kind == api_kind_memcpy || f->kind == api_kind_memset;

	return f->kind == api_kind_synchronize || (copies && !strstr(f->name, "Async"));
}

/* For recover/, which reads calls that the collector has not seen. */
static void share_function(const struct hub_function *f, unsigned api)
{
	struct area_function *shared = shared_area_part(AREA_FUNCTIONS);

	_Static_assert(API_CALLBACK_IDS_MAX == AREA_CALLBACKS, "one of the area for each");
	if (!shared || !f->name)
		return;
	shared += api * AREA_CALLBACKS + f->id;
	shared->kind = (uint8_t)f->kind;
	shared->waits_for = (uint8_t)handles[api][f->id].waits_for;
	snprintf(shared->name, sizeof(shared->name), "%s", f->name);
}

static void find_functions(const struct cupti *cupti)
{
	for (unsigned api = API_DRIVER; api <= API_RUNTIME; api++) {
		for (CUpti_CallbackId id = 0; id < API_CALLBACK_IDS_MAX; id++) {
			struct hub_function *f = &functions[api][id];

			*f = (struct hub_function){ .is_driver = api == API_DRIVER,
						    .id = id,
						    .kind = api_kind_other };
			if (id && cupti->GetCallbackName((CUpti_CallbackDomain)api, id, &f->name) !=
					  CUPTI_SUCCESS)
				f->name = NULL;
			if (f->name)
				f->kind = api_kind_of_function(f->name);
			handles[api][id] = call_handles_of(f->name ? bare_name(f->name) : "");
			treatments[api][id] =
				(handles[api][id].has_any ? WITH_HANDLES : 0) |
				(f->kind == api_kind_event || f->kind == api_kind_query
					 ? WITHOUT_STACK
					 : 0) |
				(waits_for_gpu(f) ? WAITS : 0) |
				(f->kind == api_kind_allocate ? ALLOCATES : 0) |
				(f->kind == api_kind_launch ? LAUNCHES_KERNEL : 0) |
				(f->kind == api_kind_graph_launch ? LAUNCHES_GRAPH : 0);
			share_function(f, api);
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

static void watch_function(const struct hub_function *f, const struct settings *requested,
			   struct api_watched *watched)
{
	CUpti_CallbackDomain domain =
		f->is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;

	FOR_EACH_HUB_CLIENT(c)
	{
		bool is_trace = c == &trace_client, on;
		CUptiResult result;

		if (!c->wants_call || (!is_trace && !hub_is_attached(c)))
			continue;
		on = (is_trace && atomic_load(&keep_nested)) || c->wants_call(f, requested);
		if (on == hub_wants(c, domain, f->id))
			continue;
		result = hub_set_callback(c, on, domain, f->id);
		if (is_trace && on)
			count_watched(watched, result);
	}
}

struct api_watched api_calls_watch(const struct settings *requested)
{
	struct api_watched watched = { 0 };
	bool all = requested && requested->api == SETTING_API_ALL,
	     fewer = atomic_load(&keep_nested) && !all;

	atomic_store(&keep_nested, all);
	atomic_store(&keep_allocations, all || (requested && requested->memory));
	for (unsigned api = API_DRIVER; api <= API_RUNTIME; api++) {
		if (fewer)
			hub_set_domain(&trace_client, false, (CUpti_CallbackDomain)api);
		if (all)
			count_watched(&watched, hub_set_domain(&trace_client, true,
							       (CUpti_CallbackDomain)api));
		for (CUpti_CallbackId id = 1; id < API_CALLBACK_IDS_MAX; id++)
			if (functions[api][id].name)
				watch_function(&functions[api][id], requested, &watched);
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
	hub_subscribed(*subscriber);
	launch_names_module_unloaded(); /* perhaps, while nobody listened */
	atomic_store(&devices, 0);
	subscribed = cupti;
	find_functions(cupti);
	hub_set_callback(&trace_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	hub_set_callback(&trace_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	hub_set_callback(&trace_client, true, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR);
	return CUPTI_SUCCESS;
}

void api_calls_enable(bool on)
{
	atomic_store(&enabled, on);
	atomic_store(&app_external_on, on);
}

bool api_calls_are_enabled(void)
{
	return atomic_load(&enabled);
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
	unsigned index = api_function_index(function);

	row.waits_for = (uint8_t)handles[index / API_CALLBACK_IDS_MAX][index % API_CALLBACK_IDS_MAX]
				.waits_for;
	ROW_MISSING_IF(&row, api_function, waits_for, !row.waits_for);
	known[index] = true;
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
