#include "capture/cuda/client/client_proxy.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/plural.h"
#include "base/strbuf.h"
#include "capture/core/capability_notes.h"
#include "capture/cuda/cupti_gap.h"
#include "capture/cuda/client/client_calls.h"
#include "capture/cuda/client/client_records.h"
#include "capture/cuda/client/import_redirect.h"
#include "format/rows.h"

static atomic_bool wrapped; /* the recorder's functions are redirected, permanently */

/* --- the recorder's functions, and moving CUPTI between the two --- */

static void set_zeroed(uint8_t zeroed)
{
	size_t size = sizeof(zeroed);

	real_cupti.recorder.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
						 &size, &zeroed);
}

/* Makes CUPTI return its buffers, which is necessary before other callbacks are registered. */
static void end_buffers(void)
{
	client_repeat_kinds(false);
	real_cupti.recorder.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

/* The recorder is no longer subscribed: subscribes the client at CUPTI itself. */
static void hand_over_to_client(void)
{
	CUpti_BuffersCallbackRequestFunc request = copies_request();
	struct subscription *s = client_subscription();

	if (request) {
		set_zeroed(0);
		client_register_really(request);
	}
	if (copies_clock() && (s || hub_kinds(&profiler_client))) {
		atomic_store(&client.has_clock, true);
		real_cupti.ActivityRegisterTimestampCallback(copies_clock());
	}
	if (s && client_subscribe_really(s) == CUPTI_SUCCESS)
		hub_repeat_callbacks(&profiler_client);
	if (copies_registered())
		client_repeat_kinds(true);
	client_update();
}

static void take_back_from_client(void)
{
	struct subscription *s = client_subscription();
	CUpti_SubscriberHandle real =
		s && !client_is_shared() ? atomic_exchange(&s->real, NULL) : NULL;

	if (real || (!client_is_shared() && copies_registered()))
		end_buffers();
	if (real)
		real_cupti.recorder.Unsubscribe(real);
}

static CUptiResult CUPTIAPI recorder_Subscribe_v2(CUpti_SubscriberHandle *handle,
						  CUpti_CallbackFunc callback, void *user,
						  CUpti_SubscriberParams *parameters)
{
	const struct cupti *real = &real_cupti.recorder;
	CUptiResult result;

	/* The recorder's times would be those of the client's clock: CUPTI cannot switch back. */
	if (atomic_load(&client.has_clock))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	take_back_from_client();
	result = parameters ? real->Subscribe_v2(handle, callback, user, parameters)
			    : real->Subscribe(handle, callback, user);
	if (result == CUPTI_SUCCESS)
		hub_subscribed(*handle);
	else
		hand_over_to_client();
	return result;
}

static CUptiResult CUPTIAPI recorder_Subscribe(CUpti_SubscriberHandle *handle,
					       CUpti_CallbackFunc callback, void *user)
{
	return recorder_Subscribe_v2(handle, callback, user, NULL);
}

static CUptiResult CUPTIAPI recorder_Unsubscribe(CUpti_SubscriberHandle handle)
{
	CUptiResult result;

	atomic_store(&client.is_shared, false);
	end_buffers();
	result = real_cupti.recorder.Unsubscribe(handle);
	hub_unsubscribed();
	hand_over_to_client();
	return result;
}

/* Records that CUPTI has dropped are lost to both. */
static CUptiResult CUPTIAPI recorder_ActivityGetNumDroppedRecords(CUcontext context,
								  uint32_t stream, size_t *dropped)
{
	CUptiResult result =
		real_cupti.recorder.ActivityGetNumDroppedRecords(context, stream, dropped);

	if (result == CUPTI_SUCCESS && hub_kinds(&profiler_client))
		copies_add_dropped(*dropped);
	return result;
}

/* The last step of subscribing: from here on the client's calls are redirected. */
static CUptiResult CUPTIAPI recorder_ActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
	CUptiResult result;

	(void)complete; /* buffers_on_complete */
	result = real_cupti.recorder.ActivityRegisterCallbacks(request, client_on_complete);
	if (result != CUPTI_SUCCESS)
		return result;
	hub_leave_out(UINT64_MAX, false);
	hub_leave_out(hub_kinds(&profiler_client) & ~hub_recorded_kinds(), true);
	hub_repeat_callbacks(&profiler_client);
	client_repeat_kinds(true);
	atomic_store(&client.is_shared, true);
	client_update();
	client_calls_route();
	return result;
}

static void wrap(struct cupti *cupti)
{
	atomic_store(&wrapped, true);
#define F(name)                                                                                    \
	if (cupti->name)                                                                           \
		cupti->name = recorder_##name;
	RECORDERS_FUNCTIONS(F)
#undef F
}

void client_proxy_wrap(struct cupti *cupti, const struct settings *settings)
{
	bool keeps = settings->own_profiler == SETTING_OWN_PROFILER_KEEP;
	void *handle;

	if (atomic_load(&wrapped))
		return;
	handle = dlopen(cupti->path, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle) {
		capability_note(feature_own_profiler, capability_state_unavailable,
				setting_own_profiler_names[settings->own_profiler], "keep",
				"'%s' cannot be opened twice", cupti->path);
		return;
	}
	client_calls_find(cupti, handle);
	atomic_store(&client.is_kept, keeps);
	if (keeps)
		client_calls_route();
	else
		wrap(cupti);
}

/* --- called by the recorder --- */

static void enter(const struct hub_call *call)
{
	client_call(call->domain, call->function->id, call->data);
	if (!client_is_inside())
		copies_begin_call(call->data->correlationId);
}

static void leave(const struct hub_call *call)
{
	client_call(call->domain, call->function->id, call->data);
}

static struct hub_wishes wishes;
const struct hub_client profiler_client = {
	.name = "the program's own profiler",
	.wishes = &wishes,
	.is_profiler = true,
	.enter = enter,
	.exit = leave,
	.notify = client_call,
};

void client_proxy_copy(uint8_t *bytes, size_t valid)
{
	if (atomic_load(&wrapped))
		copies_add(bytes, valid);
}

void client_proxy_update(void)
{
	if (client_is_shared() || atomic_load(&client.is_kept))
		import_redirect_update();
	client_keep_all_loaded();
}

bool client_proxy_clock_is_clients(void)
{
	return !client_is_shared() && atomic_load(&client.has_clock);
}

static void describe_client(struct strbuf *text, const struct copies_counts *counts)
{
	const char *engine = atomic_exchange(&client.refused_for, NULL);
	unsigned refused = atomic_exchange(&client.refused, 0);

	strbuf_adds(text, text->length ? "; another client of CUPTI" : "another client of CUPTI");
	if (counts->records || (!engine && !atomic_load(&client.is_kept)))
		strbuf_addf(text, ": %llu kernel%s copied (%llu record%s)",
			    (unsigned long long)counts->kernels, plural(counts->kernels),
			    (unsigned long long)counts->records, plural(counts->records));
	if (counts->dropped)
		strbuf_addf(text, ", %llu dropped because it provided no buffers",
			    (unsigned long long)counts->dropped);
	if (engine)
		strbuf_addf(text, "; its counters were refused, because --engine %s uses them",
			    engine);
	if (refused)
		strbuf_adds(text, ": refused, so it saw nothing of the GPU; with --own-profiler "
				  "share both see everything");
	else if (atomic_load(&client.is_kept))
		strbuf_adds(text, ": it had CUPTI while Pitot did not");
}

void client_proxy_end(struct writer *w, const char *requested)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct copies_counts counts = copies_take_counts();
	bool is_kept = atomic_load(&client.is_kept), has_gaps, noted;

	if (!atomic_load(&wrapped) && !is_kept)
		return;
	has_gaps = cupti_gap_end(w, &text);
	noted = atomic_exchange(&client.is_noted, hub_wants_anything(&profiler_client));
	if (noted && (!has_gaps || counts.records))
		describe_client(&text, &counts);
	rows_capability(w, feature_own_profiler,
			has_gaps ? capability_state_degraded
			: noted  ? capability_state_on
				 : capability_state_off,
			requested, is_kept ? "keep" : "share",
			text.length ? strbuf_text(&text) : "no other client of CUPTI");
}

/* CUDA does not work in the child until exec(). */
void client_proxy_after_fork(void)
{
	if (!atomic_load(&wrapped) && !atomic_load(&client.is_kept))
		return;
	atomic_store(&client.is_shared, false);
	client_after_fork();
	cupti_gap_after_fork();
	copies_after_fork();
	import_redirect_after_fork();
}
