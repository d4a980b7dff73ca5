#include "capture/cuda/activity_kinds.h"

#include <stdatomic.h>

#include "base/compiler.h"
#include "capture/core/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/core/vendor_thread.h"

static const struct {
	CUpti_ActivityKind kind;
	enum feature name;
	bool essential;
} kinds[] = {
	{ CUPTI_ACTIVITY_KIND_CONTEXT, feature_context, false },
	{ CUPTI_ACTIVITY_KIND_STREAM, feature_stream, false },
	{ HUB_KERNELS, feature_kernel, true },
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

/* By kind, as bits: CUPTI cannot record it; not tried again while it is requested. */
static atomic_uint_fast64_t refused;
static bool noted_serialized; /* that kernels are serialized */

/*
 * SYNCHRONIZATION and CUDA_EVENT each make every CUDA call more expensive: +4 ms on a 20 ms step of
 * eager PyTorch. Therefore they need --sync; which call waited how long is known from the calls
 * anyway.
 */
static bool is_requested(CUpti_ActivityKind kind, const struct settings *requested)
{
	switch (kind) {
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

static uint64_t bit_of(CUpti_ActivityKind kind)
{
	return UINT64_C(1) << kind;
}

static bool is_on(CUpti_ActivityKind kind)
{
	return hub_kinds(&trace_client) & bit_of(kind);
}

static CUptiResult switch_kind(const struct cupti *cupti, CUpti_ActivityKind kind, bool on,
			       bool has_past)
{
	bool dump = on && has_past && cupti->ActivityEnableAndDump &&
		    (kind == CUPTI_ACTIVITY_KIND_CONTEXT || kind == CUPTI_ACTIVITY_KIND_STREAM);
	CUptiResult result;

	vendor_enter(on ? "cuptiActivityEnable" : "cuptiActivityDisable");
	result = hub_set_kind(&trace_client, on, kind);
	if (dump && result == CUPTI_SUCCESS)
		result = cupti->ActivityEnableAndDump(kind);
	vendor_leave();
	return result;
}

static void disable_kind(CUpti_ActivityKind kind)
{
	if (is_on(kind))
		switch_kind(NULL, kind, false, false);
	atomic_fetch_and(&refused, ~bit_of(kind));
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
	CUpti_ActivityKind kind = kinds[i].kind;
	CUptiResult result = is_too_late(kind) ? CUPTI_ERROR_NOT_COMPATIBLE
					       : switch_kind(cupti, kind, true, has_past);

	if (result == CUPTI_SUCCESS && is_too_late(kind)) { /* made in between */
		result = CUPTI_ERROR_NOT_COMPATIBLE;
		switch_kind(cupti, kind, false, false);
	}
	if (result != CUPTI_SUCCESS) {
		atomic_fetch_or(&refused, bit_of(kind));
		note_refused(i, cupti_result_text(cupti, result));
		return;
	}
	if (kind == HUB_KERNELS)
		noted_serialized = false;
	if (kind != HUB_KERNELS || !hub_is_serialized())
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
		if (!is_requested(kinds[i].kind, requested))
			disable_kind(kinds[i].kind);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (is_requested(kinds[i].kind, requested) && !is_on(kinds[i].kind) &&
		    !(atomic_load(&refused) & bit_of(kinds[i].kind)))
			enable_kind(cupti, has_past, i);
	if (hub_is_serialized() && !noted_serialized && is_on(HUB_KERNELS))
		note_serialized(hub_is_serialized_late());
	noted_serialized = hub_is_serialized();
}

void activity_kinds_disable(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		disable_kind(kinds[i].kind);
}

bool activity_kinds_launch_records(void)
{
	return is_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

bool activity_kinds_launch_records_refused(void)
{
	return atomic_load_explicit(&refused, memory_order_relaxed) &
	       bit_of(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

void activity_kinds_reset(void)
{
	atomic_store(&refused, 0);
}
