#include "capture/engines/marked_ranges.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/range_schedule.h"
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

static bool describe(struct marked_range *r, CUcontext context, uint32_t domain, uint32_t level,
		     const char *name)
{
	*r = (struct marked_range){
		.kind = domain == NVTX_DOMAIN_SCOPES ? range_kind_scope : range_kind_nvtx,
		.start_ns = clock_monotonic_ns(),
		.domain = domain,
		.level = level,
	};
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->key = hash_bytes(r->name, strlen(r->name)) ^ hash_u64((uintptr_t)context);
	r->key = (r->key ^ hash_u64(place_on(0, domain, level))) | 1;
	if (!context || !range_schedule_begin(r->key, true, r->start_ns))
		return false;
	r->thread = thread_id();
	return true;
}

static void start(const struct cupti *cupti, uint32_t domain, uint32_t level, const char *name)
{
	/* Sessions change the patterns only as owners of the engine. */
	bool measured = nvtx_choice_has_name(name);
	CUcontext context = measured ? range_choice_current_context() : NULL;
	struct marked_range r;

	measured = measured && describe(&r, context, domain, level, name);
	if (!launch_engine_start(cupti, context, measured ? &r : NULL))
		return;
	atomic_store(&open_range, place_on(r.thread, domain, level));
	if (!launch_engine_is_active())
		marked_ranges_cancel(); /* which was called before there was a range to cancel */
}

static void begin(uint32_t domain, uint32_t level, const char *name)
{
	int saved = errno;
	const struct cupti *cupti = launch_engine_own();

	if (cupti)
		start(cupti, domain, level, name);
	errno = saved;
}

static void end(uint32_t domain, uint32_t level)
{
	uint64_t open = atomic_load_explicit(&open_range, memory_order_relaxed);
	int saved = errno;

	if ((uint32_t)open == (uint32_t)place_on(0, domain, level) &&
	    open == place_on(thread_id(), domain, level) &&
	    atomic_compare_exchange_strong(&open_range, &open, 0))
		launch_engine_stop(true);
	errno = saved;
}

const struct nvtx_watch marked_ranges_watch = { begin, end };

void marked_ranges_cancel(void)
{
	if (atomic_exchange(&open_range, 0))
		launch_engine_stop(false);
}

void marked_ranges_after_fork(void)
{
	atomic_store(&open_range, 0);
}

/* --- graphs --- */

bool marked_ranges_graph(const struct cupti *cupti, const CUpti_CallbackData *data,
			 uint64_t start_ns, struct marked_range *range)
{
	const cuGraphLaunch_params *p = data->functionParams;
	uint32_t id = 0;
	bool has_id;

	if (!p)
		return false;
	/* Addresses of executable graphs come again after their destruction; CUPTI's ids do not. */
	has_id = cupti->GetGraphExecId && cupti->GetGraphExecId(p->hGraph, &id) == CUPTI_SUCCESS;
	*range = (struct marked_range){ .kind = range_kind_graph, .start_ns = start_ns };
	range->key = hash_u64(has_id ? id : (uintptr_t)p->hGraph);
	range->key = (range->key ^ hash_u64((uintptr_t)data->context)) | 1;
	if (!range_schedule_begin(range->key, false, start_ns))
		return false;
	range->thread = thread_id();
	if (has_id)
		snprintf(range->name, sizeof(range->name), "graph %u", id);
	else
		snprintf(range->name, sizeof(range->name), "graph");
	return true;
}

#endif
