#include "capture/engines/marked_ranges.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/range_turns.h"
#include "capture/nvtx/nvtx_choice.h"
#include "capture/nvtx/nvtx_names.h"

/* place_on() of the measured range; 0: none. The thread that resets it ends the measurement. */
static atomic_uint_fast64_t open_range;

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static uint64_t place_on(uint32_t thread, uint32_t domain, uint32_t level)
{
	return (uint64_t)thread << 32 | domain << 16 | (uint16_t)level;
}

/* --- the program's ranges --- */

static bool describe(struct marked_range *r, CUcontext context, uint32_t domain, const char *name)
{
	*r = (struct marked_range){
		.kind = domain == NVTX_DOMAIN_SCOPES ? range_kind_scope : range_kind_nvtx,
		.thread = thread_id(),
		.start_ns = clock_monotonic_ns(),
	};
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->key = hash_bytes(r->name, strlen(r->name)) ^ hash_u64((uintptr_t)context ^ domain);
	r->key |= 1;
	return context && range_turns_begin(r->key, true, r->start_ns);
}

static void begin(uint32_t domain, uint32_t level, const char *name)
{
	const struct cupti *cupti = launch_engine_claim();
	struct marked_range r;
	CUcontext context;
	bool measured;

	if (!cupti)
		return;
	/* The patterns cannot change here, because sessions set them only with the claim. */
	measured = nvtx_choice_has_name(name);
	context = measured ? range_choice_current_context() : NULL;
	measured = measured && describe(&r, context, domain, name);
	if (!launch_engine_start(cupti, context, measured ? &r : NULL))
		return;
	atomic_store(&open_range, place_on(r.thread, domain, level));
	if (!launch_engine_is_active())
		marked_ranges_cancel(); /* an earlier call found no range to cancel */
}

static void end(uint32_t domain, uint32_t level)
{
	uint64_t open = atomic_load_explicit(&open_range, memory_order_relaxed);

	if ((uint32_t)open == (uint32_t)place_on(0, domain, level) &&
	    open == place_on(thread_id(), domain, level) &&
	    atomic_compare_exchange_strong(&open_range, &open, 0))
		launch_engine_stop(true);
}

static const struct nvtx_watch watch = { begin, end };

void marked_ranges_watch(bool on)
{
	atomic_store(&nvtx_watch, on ? &watch : NULL);
}

void marked_ranges_cancel(void)
{
	if (atomic_exchange(&open_range, 0))
		launch_engine_stop(false);
}

void marked_ranges_after_fork(void)
{
	marked_ranges_watch(false);
	atomic_store(&open_range, 0);
}

/* --- graphs --- */

/* Writes "graph 7", or "graph" if CUPTI does not provide the number. */
static void name_graph(const struct cupti *cupti, CUgraphExec graph, char *name, size_t size)
{
	uint32_t id;

	if (cupti->GetGraphExecId && cupti->GetGraphExecId(graph, &id) == CUPTI_SUCCESS)
		snprintf(name, size, "graph %u", id);
	else
		snprintf(name, size, "graph");
}

bool marked_ranges_graph(const struct cupti *cupti, const CUpti_CallbackData *data,
			 uint64_t start_ns, struct marked_range *range)
{
	const cuGraphLaunch_params *p = data->functionParams;

	*range = (struct marked_range){ .kind = range_kind_graph, .start_ns = start_ns };
	if (!p)
		return false;
	range->key = hash_u64((uintptr_t)p->hGraph ^ hash_u64((uintptr_t)data->context)) | 1;
	if (!range_turns_begin(range->key, false, start_ns))
		return false;
	range->thread = thread_id();
	name_graph(cupti, p->hGraph, range->name, sizeof(range->name));
	return true;
}

#endif
