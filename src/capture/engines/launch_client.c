/*
 * launch_client.c: the engines that measure launches, as a client of the hub: attaches them to
 * CUPTI, sorts calls by their function, and hands them to the launch barrier and to launch_calls.c.
 */
#include "capture/cuda/api_calls.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_calls.h"
#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_engine_state.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/marked_ranges.h"
#include "capture/engines/pc_sampling.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/stream_captures.h"

static struct hub_wishes wishes;

#ifdef PITOT_HAS_PROFILER_HOST

#define DETACH_WAIT_NS (PITOT_SLOWNESS * NS_PER_S / 2) /* less than the collector's for the end */

/* --- attaching --- */

/*
 * CUPTI's own thread reads at any time what kernels have written, and deadlocks with launches that
 * are measured with patched code (in 6 of 10 runs of 12,000 launches; H100, CUPTI 13.0). With a
 * flush period set, it leaves reading to our flushes, which never run beside such launches.
 */
static bool stop_worker(const struct cupti *cupti)
{
	CUptiResult result = cupti->ActivityFlushPeriod(UINT32_MAX);

	if (result != CUPTI_SUCCESS)
		launch_engine_refuse("cuptiActivityFlushPeriod: %s",
				     cupti_result_text(cupti, result));
	return result == CUPTI_SUCCESS;
}

/* CUPTI counts instructions only while it records serialized kernels. */
static bool serialize(const struct cupti *cupti, bool late)
{
	CUptiResult result = hub_serialize(&launches_client, late);

	if (result != CUPTI_SUCCESS)
		launch_engine_refuse("cuptiActivityEnable refuses records of serialized kernels "
				     "(%s), without which CUPTI counts nothing",
				     cupti_result_text(cupti, result));
	return result == CUPTI_SUCCESS;
}

static bool attach(const struct cupti *cupti, int engine, bool late)
{
	const char *missing, *needs;

	if (refusal_text(&launches.refusal))
		return false;
	if (!launches.engine || launches.engine->engine != launch_engine_of(engine) ||
	    atomic_load(&launches.cupti))
		return true;
	missing = launches.engine->missing(cupti, &needs);
	if (!cupti->GetDeviceId)
		missing = "cuptiGetDeviceId";
	if (missing) {
		launch_engine_refuse("this CUPTI lacks %s: %s", missing, needs);
		return false;
	}
	if (!range_choice_find_driver()) {
		launch_engine_refuse("the driver lacks cuStreamIsCapturing: which launches run at "
				     "once is not known");
		return false;
	}
	if (launches.engine->patches && (!stop_worker(cupti) || !serialize(cupti, late)))
		return false;
	stream_captures_forget(NULL); /* those whose ends were not seen */
	launches.keeps_code =
		launches.engine->patches && !pc_sampling_is(engine); /* it does that */
	hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	if (launches.keeps_code)
		hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
				 CUPTI_CBID_RESOURCE_MODULE_LOADED);
	atomic_store(&launches.cupti, cupti);
	return true;
}

static bool detach(void)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);
	bool leave;

	atomic_store(&launches.active, false);
	if (!cupti)
		return !atomic_load(&launches.inside);
	marked_ranges_cancel();
	if (!launch_owner_wait(DETACH_WAIT_NS))
		return false;
	leave = !launches.engine->has_contexts();
	if (leave && launches.engine->patches)
		cupti->ActivityFlushPeriod(0);
	if (leave)
		atomic_store(&launches.cupti, NULL);
	launch_owner_release();
	/* A callback may have loaded `cupti` before it was cleared. */
	return leave && !atomic_load(&launches.inside);
}

/* --- flushes --- */

/*
 * cuptiActivityFlushAll hangs beside a launch that is being measured with patched code (H100, CUPTI
 * 13.0): nothing is measured meanwhile. Launches wait for that briefly and then go unmeasured,
 * because the flush may be waiting for them.
 */
static bool hold(void)
{
	return !launch_engine_serializes() || launch_owner_hold();
}

static void resume(void)
{
	if (launch_engine_serializes() && launch_owner_is_me())
		launch_owner_resume();
}

/* --- callbacks --- */

enum { LAUNCHES = 1, LAUNCHES_GRAPH = 2, IS_CAPTURE = 4, NEEDS_BARRIER = 8 };
static uint8_t roles[HUB_CALLBACK_IDS_MAX]; /* of the driver's functions */

/* Launches are measured in windows only; captures and loaded code must be known then. */
static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	uint8_t role = 0;

	if (!f->is_driver)
		return false;
	if (f->kind == api_kind_launch)
		role = LAUNCHES | NEEDS_BARRIER;
	if (f->kind == api_kind_graph_launch)
		role = LAUNCHES | LAUNCHES_GRAPH | NEEDS_BARRIER;
	if (stream_captures_is_function(f->name))
		role |= IS_CAPTURE;
	if (launch_barrier_is_function(f->name))
		role |= NEEDS_BARRIER;
	roles[f->id] = role;
	return role && (s || !(role & LAUNCHES));
}

static void enter(const struct hub_call *call)
{
	uint8_t role = roles[call->function->id];

	if (role & NEEDS_BARRIER && !launch_barrier_enter(call->data->correlationId))
		launch_engine_refuse("a launch waited %u s for another thread's measured launch; "
				     "the kernels may depend on each other: exclude one with "
				     "--kernels",
				     (unsigned)(LAUNCH_BARRIER_WAIT_NS / NS_PER_S));
	if (role & IS_CAPTURE)
		launch_calls_stream(call->data, call->function->name);
	if (role & LAUNCHES && api_calls_are_enabled())
		launch_calls_enter(call->data, call->function->name, role & LAUNCHES_GRAPH);
}

static void leave(const struct hub_call *call)
{
	uint8_t role = roles[call->function->id];

	if (role & IS_CAPTURE)
		launch_calls_stream(call->data, call->function->name);
	if (role & LAUNCHES)
		launch_calls_exit(call->data);
	if (role & NEEDS_BARRIER)
		launch_barrier_leave(call->data->correlationId);
}

static void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	(void)domain;
	launch_calls_resource(id, info);
}

#else

static bool attach(const struct cupti *cupti, int engine, bool late)
{
	(void)cupti, (void)late;
	engine_note_trace(setting_engine_names[engine],
			  "this libpitot.so was built without the headers of CUDA 12.6 "
			  "Update 2 or later");
	return false;
}

#endif

const struct hub_client launches_client = {
	.name = "launches",
	.wishes = &wishes,
	.takes_counters = true,
	.is_engine = launch_engine_is,
	.attach = attach,
#ifdef PITOT_HAS_PROFILER_HOST
	.detach = detach,
	.wants_call = wants_call,
	.enter = enter,
	.exit = leave,
	.notify = notify,
	.hold = hold,
	.let = resume,
	.adjust_kernel = launch_sessions_adjust,
#endif
};
