/*
 * launch_engine.c: a measurement of a launch (launch_calls.c) or of a range (marked_ranges.c), from
 * its begin to the queue that the collector reads.
 */
#include "capture/engines/launch_engine_state.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdarg.h>

#include "base/plural.h"
#include "capture/core/own_work.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/launch_times.h"
#include "capture/engines/stream_captures.h"

#define FAILURES_MAX 3u /* in a row, until the engine refuses */

struct launch_engine_state launches = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *launch_engine_metrics(void)
{
	return launches.chosen.metrics;
}

unsigned launch_engine_session(void)
{
	return atomic_load(&launches.sessions);
}

void launch_engine_refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	engine_refuse_with(&launches.refusal, &launches_client, launches.engine->name, format,
			   args);
	va_end(args);
	atomic_store(&launches.active, false);
	launch_barrier_use(false);
}

static const char *advice_without_memory(void)
{
	if (launches.engine->patches || atomic_load(&launches.measure) != SETTING_MEASURE_KERNEL)
		return ": out of memory on the GPU or the host";
	return ": out of memory, probably for saving the kernel's output between passes; exclude "
	       "it with --kernels, or measure what runs once with --measure range";
}

bool launch_engine_failed(const struct cupti *cupti, const char *function, int result, bool last)
{
	launch_engine_count_unmeasured();
	if (++launches.failures < FAILURES_MAX && !last)
		return false;
	launch_engine_refuse("%s: %s, at %u launch%s%s", function,
			     cupti_result_text(cupti, (CUptiResult)result), launches.failures,
			     plural_of(launches.failures, "", "es in a row"),
			     result == CUPTI_ERROR_OUT_OF_MEMORY ? advice_without_memory() : "");
	return true;
}

void launch_engine_count_pass(void)
{
	launches.failures = 0;
}

void launch_engine_count_unmeasured(void)
{
	atomic_fetch_add(&launches.unmeasured, 1);
}

bool launch_engine_serializes(void)
{
	return atomic_load(&launches.cupti) && launches.engine->patches;
}

void launch_engine_push(struct measured *m, size_t bytes)
{
	launches.failures = 0;
	atomic_store_explicit(&launches.any, true, memory_order_relaxed);
	if (m) {
		m->correlation = launches.correlation;
		m->end_ns = launches.ended_ns;
	}
	if (!m || !launch_queue_push(m, bytes))
		atomic_fetch_add(&launches.lost, 1);
}

/* --- a measurement --- */

static void leave_abandoned(const struct cupti *cupti)
{
	for (size_t i = 0; i < ABANDONED_MAX; i++)
		if (atomic_load(&launches.abandoned[i]))
			launches.engine->leave_context(
				cupti, atomic_exchange(&launches.abandoned[i], NULL), true);
}

void launch_measure_end(const struct cupti *cupti, bool valid)
{
	leave_abandoned(cupti);
	launches.engine->stop(cupti, valid);
}

void launch_measure_unmark(void)
{
	uint64_t any;

	launch_times_take(LAUNCH_PATCHED, launches.correlation, CORRELATION_NOW, &any);
}

bool launch_measure_begin(const struct cupti *cupti, CUcontext context, uint32_t correlation,
			  const struct marked_range *marked)
{
	launches.correlation = correlation;
	leave_abandoned(cupti); /* destroyed after the last measurement had stopped */
	launch_owner_begin(context);
	if (launches.engine->patches &&
	    !launch_times_add(LAUNCH_PATCHED, launches.correlation, launches.begun_ns)) {
		launch_engine_count_unmeasured();
		return false;
	}
	if (launches.engine->start(cupti, context, marked))
		return true;
	launch_measure_unmark();
	return false;
}

const struct cupti *launch_measure_owned(int measure, bool owned)
{
	const struct cupti *cupti;

	if (!owned)
		return NULL;
	cupti = atomic_load(&launches.cupti);
	if (cupti && atomic_load(&launches.active) && atomic_load(&launches.measure) == measure &&
	    !stream_captures_any())
		return cupti;
	launch_owner_release();
	return NULL;
}

/* --- for marked_ranges.c --- */

bool launch_engine_is_active(void)
{
	return atomic_load(&launches.active);
}

const struct cupti *launch_engine_own(void)
{
	const struct cupti *cupti = NULL;

	atomic_fetch_add(&launches.inside, 1);
	if (atomic_load(&launches.active) && !hub_is_own_call && !api_calls_fatal())
		cupti = launch_measure_owned(SETTING_MEASURE_RANGE, launch_owner_try());
	if (cupti) {
		hub_is_own_call = true;
		launches.begun_ns = clock_monotonic_ns();
	} else {
		atomic_fetch_sub(&launches.inside, 1);
	}
	return cupti;
}

bool launch_engine_start(const struct cupti *cupti, CUcontext context,
			 const struct marked_range *range)
{
	bool started = range && launch_measure_begin(cupti, context, 0, range);

	if (started)
		own_work_add(cost_kind_replay, launches.begun_ns, 1);
	else
		launch_owner_release();
	hub_is_own_call = false;
	atomic_fetch_sub(&launches.inside, 1);
	return started;
}

void launch_engine_stop(bool valid)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);

	launch_owner_take_over();
	launches.ended_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	if (cupti && !api_calls_fatal())
		launch_measure_end(cupti, valid);
	hub_is_own_call = false;
	own_work_add(cost_kind_replay, launches.ended_ns, 0);
	launch_owner_release();
}

#endif
