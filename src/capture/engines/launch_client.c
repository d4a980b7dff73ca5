/*
 * launch_client.c: the engines that measure launches, as a client of the hub: sorts calls by their
 * function, and hands them to the launch gate, the captures of graphs, and the engine.
 */
#include "capture/cuda/api_calls.h"
#include "capture/engines/launch_engine.h"
#include "capture/engines/launch_gate.h"
#include "capture/engines/stream_captures.h"

static struct hub_wishes wishes;

#ifdef PITOT_HAS_PROFILER_HOST

enum { LAUNCHES = 1, LAUNCHES_GRAPH = 2, IS_CAPTURE = 4, IS_GATED = 8 };
static uint8_t roles[HUB_CALLBACK_IDS_MAX]; /* of the driver's functions */

/* Launches are measured in windows only; captures and loaded code must be known then. */
static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	uint8_t role = 0;

	if (!f->is_driver)
		return false;
	if (f->kind == api_kind_launch)
		role = LAUNCHES | IS_GATED;
	if (f->kind == api_kind_graph_launch)
		role = LAUNCHES | LAUNCHES_GRAPH | IS_GATED;
	if (stream_captures_is_function(f->name))
		role |= IS_CAPTURE;
	if (launch_gate_is_function(f->name))
		role |= IS_GATED;
	roles[f->id] = role;
	return role && (s || !(role & LAUNCHES));
}

static void enter(const struct hub_call *call)
{
	uint8_t role = roles[call->function->id];

	if (role & IS_GATED)
		launch_gate_enter(call->data->correlationId);
	if (role & IS_CAPTURE)
		stream_captures_call(call->data, call->function->name);
	if (role & LAUNCHES && api_calls_are_enabled())
		launch_engine_enter(call->data, call->function->name, role & LAUNCHES_GRAPH);
}

static void leave(const struct hub_call *call)
{
	uint8_t role = roles[call->function->id];

	if (role & IS_CAPTURE)
		stream_captures_call(call->data, call->function->name);
	if (role & LAUNCHES)
		launch_engine_exit(call->data);
	if (role & IS_GATED)
		launch_gate_leave(call->data->correlationId);
}

static void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	(void)domain;
	launch_engine_callback(id, info);
}

#endif

const struct hub_client launches_client = {
	.name = "launches",
	.wishes = &wishes,
	.takes_counters = true,
	.is_engine = launch_engine_is,
	.attach = launch_engine_attach,
#ifdef PITOT_HAS_PROFILER_HOST
	.detach = launch_engine_detach,
	.wants_call = wants_call,
	.enter = enter,
	.exit = leave,
	.notify = notify,
	.hold = launch_engine_hold,
	.let = launch_engine_resume,
	.adjust_kernel = launch_engine_adjust,
#endif
};
