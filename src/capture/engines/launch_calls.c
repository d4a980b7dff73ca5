/*
 * launch_calls.c: decides which launches are measured. The callback at the begin of a selected
 * launch acquires the engine (launch_owner.h), and the callback at its end releases it. Meanwhile
 * launches of other threads wait (launch_barrier.h). A launch that finds an owner is counted and
 * not measured. Nothing is measured while a stream captures a graph (stream_captures.h).
 */
#include "capture/engines/launch_calls.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include "capture/core/capability_notes.h"
#include "capture/core/own_work.h"
#include "capture/cuda/api_calls.h"
#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_engine_state.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/marked_ranges.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/kernel_choice.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/stream_captures.h"
#include "capture/nvtx/nvtx_choice.h"

#define DESTROY_WAIT_NS (200 * NS_PER_MS)
#define CAPTURE_WAIT_NS (5 * NS_PER_S) /* the first measurement sets up for up to 0.7 s */

static void note_graphs(void)
{
	if (!atomic_load(&launches.graphs_noted) && !atomic_exchange(&launches.graphs_noted, true))
		capability_note(feature_graph_metrics, capability_state_unavailable,
				launches.engine->name, "none",
				"kernels of CUDA graphs are not measured");
}

static bool runs_at_once(const CUpti_CallbackData *data, const char *function)
{
	bool at_once;

	hub_is_own_call = true;
	at_once = range_choice_runs_at_once(data, function);
	hub_is_own_call = false;
	return at_once;
}

/* The end of this thread's measured launch was not seen. */
static void end_unseen(void)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);

	if (atomic_load(&launches.measure) == SETTING_MEASURE_RANGE)
		return;
	if (cupti && !api_calls_fatal())
		launch_measure_end(cupti, false);
	launch_owner_release();
}

/* Begins to measure a launch that is selected by its name, or a launch of a graph. */
static void enter(const CUpti_CallbackData *data, const char *function, int measure)
{
	bool graph = measure == SETTING_MEASURE_GRAPH;
	const struct cupti *cupti;
	struct marked_range range;

	if (launches.engine->patches && !hub_is_serialized())
		return;
	if (!data->context || !runs_at_once(data, function) || (!graph && !kernel_choice_is_turn()))
		return;
	cupti = launch_measure_owned(measure, launch_owner_beside_flushes());
	if (cupti && !launch_barrier_close()) {
		launch_owner_release();
		cupti = NULL;
	}
	if (!cupti) {
		launch_engine_count_unmeasured();
		return;
	}
	launch_owner_watch(end_unseen);
	launches.begun_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	if ((graph && !marked_ranges_graph(cupti, data, launches.begun_ns, &range)) ||
	    !launch_measure_begin(cupti, data->context, data->correlationId, graph ? &range : NULL))
		launch_owner_release();
	hub_is_own_call = false;
}

void launch_calls_enter(const CUpti_CallbackData *data, const char *function, bool graph)
{
	const struct cupti *cupti = atomic_load_explicit(&launches.cupti, memory_order_relaxed);
	int measure = atomic_load_explicit(&launches.measure, memory_order_relaxed);

	if (!atomic_load_explicit(&launches.active, memory_order_relaxed) || !cupti ||
	    measure == SETTING_MEASURE_RANGE || api_calls_fatal())
		return;
	if (unlikely(launch_owner_exists()) && launch_owner_is_me())
		end_unseen();
	if (graph && measure == SETTING_MEASURE_KERNEL)
		note_graphs();
	if (graph != (measure == SETTING_MEASURE_GRAPH) || !function ||
	    (!graph && !kernel_choice_has_name(data->symbolName)) || !nvtx_choice_is_wanted())
		return;
	if (!graph && !atomic_load_explicit(&launches.selected, memory_order_relaxed))
		atomic_store_explicit(&launches.selected, true, memory_order_relaxed);
	atomic_fetch_add(&launches.inside, 1);
	enter(data, function, measure);
	atomic_fetch_sub(&launches.inside, 1);
}

void launch_calls_exit(const CUpti_CallbackData *data)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);
	CUcontext context;
	bool launched;

	if (!launch_owner_exists() || !launch_owner_is_me() || !cupti ||
	    atomic_load(&launches.measure) == SETTING_MEASURE_RANGE ||
	    launches.correlation != data->correlationId || api_calls_fatal())
		return;
	context = launch_owner_context();
	launches.ended_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	launched = !data->functionReturnValue || *(const uint32_t *)data->functionReturnValue == 0;
	/* When the window has closed, the launch's call and kernel may not be recorded. */
	launch_measure_end(cupti, launched && atomic_load(&launches.open));
	if (!launched)
		launch_measure_unmark();
	if (kernel_choice_is_done()) {
		atomic_store(&launches.finished, true);
		atomic_store(&launches.active, false);
		launches.engine->leave_context(cupti, context, false);
		launch_barrier_use(false);
	}
	hub_is_own_call = false;
	own_work_add(cost_kind_replay, launches.begun_ns, 1);
	launch_owner_release();
}

/* --- captures of graphs --- */

/* Ends the measurement in progress: a range's at once; a launch's is waited for, not for long. */
static void make_way(void)
{
	marked_ranges_cancel();
	if (launch_owner_exists() && !launch_owner_is_me() && launch_owner_wait(CAPTURE_WAIT_NS))
		launch_owner_release();
}

void launch_calls_stream(const CUpti_CallbackData *data, const char *function)
{
	int rc = stream_captures_call(data, function);

	if (rc < 0)
		launch_engine_refuse("more than %u streams capture graphs at once",
				     STREAM_CAPTURES_MAX);
	if (rc)
		make_way();
}

/* --- destroyed contexts, loaded modules --- */

static void abandon(CUcontext handle)
{
	for (size_t i = 0; i < ABANDONED_MAX; i++) {
		CUcontext none = NULL;

		if (atomic_compare_exchange_strong(&launches.abandoned[i], &none, handle) ||
		    none == handle)
			return;
	}
}

static void remove_context(const struct cupti *cupti, CUcontext handle)
{
	bool nested;

	stream_captures_forget(handle);
	if (launch_owner_context() == handle)
		marked_ranges_cancel();
	nested = launch_owner_is_me();
	if (!nested && !launch_owner_wait(DESTROY_WAIT_NS)) {
		abandon(handle);
		return;
	}
	if (nested && launch_owner_context() == handle)
		launch_measure_end(cupti, false);
	launches.engine->leave_context(cupti, handle, false);
	if (!nested)
		launch_owner_release();
}

static void add_code(const CUpti_ModuleResourceData *module)
{
	if (module)
		pc_cubins_add(module->pCubin, module->cubinSize);
}

void launch_calls_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);

	if (!cupti || !data || api_calls_fatal())
		return;
	atomic_fetch_add(&launches.inside, 1);
	if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
		kernel_choice_forget_names();
	else if (cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED && launches.keeps_code)
		add_code(data->resourceDescriptor);
	else if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && data->context)
		remove_context(cupti, data->context);
	atomic_fetch_sub(&launches.inside, 1);
}

#endif
