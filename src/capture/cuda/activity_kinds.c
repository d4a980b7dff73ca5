#include "capture/cuda/activity_kinds.h"

#include <stdatomic.h>

#include "base/compiler.h"
#include "capture/core/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/engines/launch_engine.h"
#include "capture/core/vendor_thread.h"

enum kind_state {
	KIND_OFF,
	KIND_ON,
	KIND_HELD, /* on, though no session wants it now */
	KIND_REFUSED, /* CUPTI cannot record it; not tried again while it is requested */
};

static const struct {
	CUpti_ActivityKind kind;
	enum feature name;
	bool essential;
} kinds[] = {
	{ CUPTI_ACTIVITY_KIND_CONTEXT, feature_context, false },
	{ CUPTI_ACTIVITY_KIND_STREAM, feature_stream, false },
	{ CUPTI_ACTIVITY_KIND_KERNEL, feature_kernel, true }, /* serializes kernels */
	{ CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, feature_kernel, true }, /* the alternative to it */
	{ CUPTI_ACTIVITY_KIND_MEMCPY, feature_memcpy, false },
	{ CUPTI_ACTIVITY_KIND_MEMCPY2, feature_memcpy_peer, false },
	{ CUPTI_ACTIVITY_KIND_MEMSET, feature_memset, false },
	{ CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, feature_synchronization, false },
	{ CUPTI_ACTIVITY_KIND_CUDA_EVENT, feature_cuda_event, false },
	{ CUPTI_ACTIVITY_KIND_MEMORY2, feature_allocation, false },
	{ CUPTI_ACTIVITY_KIND_MEMORY_POOL, feature_memory_pool, false },
	{ CUPTI_ACTIVITY_KIND_GRAPH_TRACE, feature_graph_launch, false },
	{ CUPTI_ACTIVITY_KIND_OVERHEAD, feature_overhead, false },
	{ CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, feature_external_correlation, false },
};

static enum kind_state states[ARRAY_SIZE(kinds)];
static _Atomic enum kind_state launch_records, serialized; /* copies for other threads */

/*
 * SYNCHRONIZATION and CUDA_EVENT each make every CUDA call more expensive: +4 ms on a 20 ms step of
 * eager PyTorch. Therefore they need --sync; which call waited how long is known from the calls
 * anyway.
 */
static bool is_requested(CUpti_ActivityKind kind, const struct settings *requested)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return !launch_engine_serializes() || atomic_load(&serialized) == KIND_REFUSED;
	case CUPTI_ACTIVITY_KIND_KERNEL:
		return launch_engine_serializes();
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return requested->sync;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return requested->memory;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return requested->graphs == SETTING_GRAPHS_LAUNCH;
	default:
		return true;
	}
}

static void set_state(size_t i, enum kind_state state)
{
	states[i] = state;
	if (kinds[i].kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
		atomic_store(&launch_records, state);
	if (kinds[i].kind == CUPTI_ACTIVITY_KIND_KERNEL)
		atomic_store(&serialized, state);
}

static CUptiResult switch_kind(const struct cupti *cupti, size_t i, bool on, bool has_past)
{
	bool dump = has_past && cupti->ActivityEnableAndDump &&
		    (kinds[i].kind == CUPTI_ACTIVITY_KIND_CONTEXT ||
		     kinds[i].kind == CUPTI_ACTIVITY_KIND_STREAM);
	CUptiResult result;

	vendor_enter(on ? "cuptiActivityEnable" : "cuptiActivityDisable");
	if (on && dump)
		result = cupti->ActivityEnableAndDump(kinds[i].kind);
	else
		result = (on ? cupti->ActivityEnable : cupti->ActivityDisable)(kinds[i].kind);
	vendor_leave();
	return result;
}

static void disable_kind(const struct cupti *cupti, size_t i)
{
	if (states[i] == KIND_ON || states[i] == KIND_HELD)
		switch_kind(cupti, i, false, false);
	set_state(i, KIND_OFF);
}

/*
 * CUPTI 13.0 crashes in cuGraphLaunch if its launch records are enabled after cuGraphInstantiate.
 */
static bool is_too_late(CUpti_ActivityKind kind)
{
	return kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && graph_nodes_graphs_exist();
}

static void note_refused(size_t i, const char *why)
{
	if (kinds[i].kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
		capability_note(feature_graph_launch, capability_state_unavailable, "launch",
				"node", "%s; nodes are recorded",
				is_too_late(kinds[i].kind)
					? "one record per launch must be requested before graphs "
					  "are instantiated"
					: "cuptiActivityEnable refuses records of launches");
	else if (kinds[i].kind == CUPTI_ACTIVITY_KIND_KERNEL)
		launch_engine_refuse("cuptiActivityEnable refuses records of serialized kernels "
				     "(%s), without which CUPTI counts nothing",
				     why);
	else
		capability_note(kinds[i].name, capability_state_unavailable, "activity", "none",
				"cuptiActivityEnable: %s%s", why,
				kinds[i].essential ? "; there will be no kernels" : "");
}

static void note_serialized(bool is_late)
{
	capability_note(
		feature_kernel, capability_state_degraded, "activity", "serialized",
		"kernels are serialized, because CUPTI counts no instructions while it records "
		"concurrent kernels; kernels whose instructions it counts have no end time%s",
		is_late ? "; CUDA was in use before, so CUPTI may count nothing at all" : "");
}

static void enable_kind(const struct cupti *cupti, bool has_past, size_t i)
{
	bool was_held = states[i] == KIND_HELD;
	CUptiResult result = is_too_late(kinds[i].kind) ? CUPTI_ERROR_NOT_COMPATIBLE
			     : was_held                 ? CUPTI_SUCCESS
							: switch_kind(cupti, i, true, has_past);

	if (result == CUPTI_SUCCESS && is_too_late(kinds[i].kind)) { /* made in between */
		result = CUPTI_ERROR_NOT_COMPATIBLE;
		switch_kind(cupti, i, false, false);
	}
	set_state(i, result == CUPTI_SUCCESS ? KIND_ON : KIND_REFUSED);
	if (result != CUPTI_SUCCESS) {
		note_refused(i, cupti_result_text(cupti, result));
		return;
	}
	if (kinds[i].kind == CUPTI_ACTIVITY_KIND_KERNEL)
		note_serialized(has_past || (!was_held && api_calls_devices()));
	else
		capability_note(kinds[i].name, capability_state_on, "activity", "activity", "%s",
				"");
}

void activity_kinds_note_unwanted(const struct settings *requested)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!is_requested(kinds[i].kind, requested) && !kinds[i].essential)
			capability_note(kinds[i].name, capability_state_off, NULL, NULL,
					"not requested");
}

/* Disables before it enables, because some kinds exclude each other. */
void activity_kinds_apply(const struct cupti *cupti, const struct settings *requested,
			  bool has_past)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (states[i] != KIND_OFF && !is_requested(kinds[i].kind, requested))
			disable_kind(cupti, i);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((states[i] == KIND_OFF || states[i] == KIND_HELD) &&
		    is_requested(kinds[i].kind, requested))
			enable_kind(cupti, has_past, i);
}

static bool is_kernel(size_t i)
{
	return kinds[i].kind == (launch_engine_serializes()
					 ? CUPTI_ACTIVITY_KIND_KERNEL
					 : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

void activity_kinds_hold_kernels(const struct cupti *cupti)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (is_kernel(i) && states[i] == KIND_OFF &&
		    switch_kind(cupti, i, true, false) == CUPTI_SUCCESS)
			set_state(i, KIND_HELD);
}

bool activity_kinds_are_held(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (states[i] == KIND_HELD)
			return true;
	return false;
}

void activity_kinds_disable(const struct cupti *cupti, bool hold)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (hold && is_kernel(i) && states[i] == KIND_ON)
			set_state(i, KIND_HELD);
		if (!hold || states[i] != KIND_HELD)
			disable_kind(cupti, i);
	}
}

bool activity_kinds_launch_records(void)
{
	return atomic_load_explicit(&launch_records, memory_order_relaxed) == KIND_ON;
}

bool activity_kinds_serialized(void)
{
	return atomic_load_explicit(&serialized, memory_order_relaxed) == KIND_ON;
}

bool activity_kinds_launch_records_refused(void)
{
	return atomic_load_explicit(&launch_records, memory_order_relaxed) == KIND_REFUSED;
}

void activity_kinds_reset(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		set_state(i, KIND_OFF);
}
