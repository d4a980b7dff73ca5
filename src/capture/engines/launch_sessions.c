/*
 * launch_sessions.c: what is measured, and when: the sessions, their windows, and the rows of their
 * measurements.
 */
#include "capture/engines/launch_engine_state.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdlib.h>
#include <string.h>

#include "capture/cuda/api_calls.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/launch_times.h"
#include "capture/engines/marked_ranges.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_rows.h"
#include "capture/engines/kernel_choice.h"
#include "capture/engines/range_schedule.h"
#include "capture/engines/stream_captures.h"
#include "capture/nvtx/nvtx_choice.h"
#include "format/rows.h"

#define CHOOSE_WAIT_NS (200 * NS_PER_MS)
#define CODE_NS (100 * NS_PER_MS) /* period of finding modules' checksums and storing modules */

static const struct launch_engine *const engines[] = { &range_profiler_engine,
						       &sass_metrics_engine };

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	const struct cupti *cupti = atomic_load(&launches.cupti);

	(void)reasons, (void)now;
	if (!atomic_load(&launches.active))
		marked_ranges_cancel();
	if (!launch_engine_serializes() || api_calls_fatal())
		return UINT64_MAX;
	pc_cubins_identify(cupti);
	pc_cubins_store();
	return CODE_NS;
}

/* --- the sessions --- */

static bool is_engine_of(const struct settings *wanted)
{
	return settings_trace_gpus(wanted) && launches.engine &&
	       launch_engine_of(wanted->engine) == launches.engine->engine;
}

/* A session that begins and the collector may do this at the same time. */
static void activate(void)
{
	bool may_measure;

	pthread_mutex_lock(&launches.lock);
	may_measure = atomic_load(&launches.wanted) && !atomic_load(&launches.finished);
	launch_barrier_use(may_measure && atomic_load(&launches.measure) != SETTING_MEASURE_RANGE);
	atomic_store(&launches.active, may_measure && atomic_load(&launches.open));
	/* engine_refuse() may have run since the flags were read. */
	if (refusal_exists(&launches.refusal)) {
		atomic_store(&launches.active, false);
		launch_barrier_use(false);
	}
	pthread_mutex_unlock(&launches.lock);
}

static void window(const struct settings *wanted, struct writer *w)
{
	bool open = wanted && is_engine_of(wanted) &&
		    (atomic_load(&launches.wanted) || atomic_load(&launches.is_next));

	(void)w;
	if (open && launches.engine->patches)
		pc_cubins_use(wanted);
	atomic_store(&launches.open, open);
	activate();
}

/*
 * An engine that replaces an earlier session's does not inherit its refusal. The earlier engine is
 * not replaced while it is attached to CUPTI.
 */
static void choose_engine(const struct settings *wanted)
{
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		if (engines[i]->engine != launch_engine_of(wanted->engine) ||
		    engines[i] == launches.engine ||
		    (launches.engine && atomic_load(&launches.cupti)))
			continue;
		launches.engine = engines[i];
		refusal_clear(&launches.refusal);
	}
}

/* Called as the owner. The reason of a refusal may not apply to other metrics. */
static void choose(const struct settings *s)
{
	if (atomic_load(&launches.cupti) && strcmp(launches.chosen.metrics, s->metrics) != 0) {
		refusal_clear(&launches.refusal);
	}
	if (!atomic_load(&launches.wanted))
		launch_queue_clear(); /* what was measured for longer than its session lasted */
	launches.failures = 0;
	atomic_store(&launches.any, false);
	atomic_store(&launches.finished, false);
	atomic_store(&launches.selected, false);
	launches.chosen = *s;
	atomic_fetch_add(&launches.sessions, 1);
	kernel_choice_set(s);
	range_schedule_set(s);
	atomic_store(&launches.measure, s->engine == SETTING_ENGINE_RANGE_PROFILER
						? s->measure
						: SETTING_MEASURE_KERNEL);
	nvtx_choice_set(s, atomic_load(&launches.measure) == SETTING_MEASURE_RANGE
				   ? &marked_ranges_watch
				   : NULL);
	atomic_store(&launches.graphs_noted, false);
	atomic_store(&launches.wanted, true);
	engine_note_refusal(&launches.refusal, launches.engine->name);
}

/*
 * Chooses for this session or, with NULL, for the one that is next. Returns false if the engine
 * stays owned for longer than wait_ns.
 */
static bool choose_within(const struct settings *s, uint64_t wait_ns)
{
	if (!launch_owner_wait(wait_ns))
		return false;
	pthread_mutex_lock(&launches.lock);
	if (atomic_exchange(&launches.is_next, false) || s)
		choose(s ? s : &launches.next);
	pthread_mutex_unlock(&launches.lock);
	launch_owner_release();
	activate();
	return true;
}

/* The engine that the session requests could not replace the one that is attached. */
static void note_other_engine(const struct settings *s)
{
	if (settings_trace_gpus(s) && launch_engine_is(s->engine))
		engine_note_trace(setting_engine_names[launch_engine_of(s->engine)],
				  "the other engine that measures launches is still attached in "
				  "this process: record with each in a run of its own");
}

static void extend(const struct source_start *how)
{
	const struct settings *s = how->wanted;

	/* Concurrent sessions share what the oldest one chose. */
	if (!(how->vendors & VENDOR_BIT(nvidia)) ||
	    (atomic_load(&launches.wanted) &&
	     atomic_load(how->armed ? &launches.active : &launches.open) &&
	     settings_measure_alike(&launches.chosen, s)))
		return;
	choose_engine(s);
	if (!is_engine_of(s)) {
		note_other_engine(s);
		return;
	}
	atomic_store(&launches.active, false);
	marked_ranges_cancel();
	if (choose_within(s, CHOOSE_WAIT_NS))
		return;
	pthread_mutex_lock(&launches.lock);
	launches.next = *s;
	atomic_store(&launches.is_next, true);
	pthread_mutex_unlock(&launches.lock);
	engine_note_trace(launches.engine->name, "still measuring a launch of an earlier "
						 "session; this session starts when it has ended");
}

static void start(const struct source_start *how)
{
	extend(how);
	if ((how->vendors & VENDOR_BIT(nvidia)) && how->open)
		window(how->wanted, NULL);
}

static void begin(struct writer *w, const struct source_start *how)
{
	(void)w, (void)how;
	launches.since_ns = clock_monotonic_ns();
	map_clear(&launches.numbers);
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct measured *m;
	uint64_t rows = 0;

	(void)now;
	if (unlikely(atomic_load_explicit(&launches.is_next, memory_order_relaxed)))
		choose_within(NULL, 0);
	if (!atomic_load_explicit(&launches.wanted, memory_order_relaxed))
		return 0;
	for (; (m = launch_queue_take()); rows++, free(m))
		launches.engine->write(w, m, &launches.numbers);
	return rows + (launches.engine->patches ? pc_rows_write(w) : 0);
}

static bool take_times(uint32_t correlation, uint64_t *start_ns, uint64_t *end_ns)
{
	return launch_times_take(LAUNCH_START, correlation, CORRELATION_NOW, start_ns) &&
	       launch_times_take(LAUNCH_END, correlation, CORRELATION_NOW, end_ns);
}

bool launch_sessions_adjust(struct writer *w, uint32_t correlation, uint64_t began_ns,
			    uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t any;

	if (!atomic_load_explicit(&launches.wanted, memory_order_relaxed))
		return false;
	if (began_ns)
		return launches.engine->patches &&
		       launch_times_take(LAUNCH_PATCHED, correlation, began_ns, &any);
	if (take_times(correlation, start_ns, end_ns))
		return true;
	collect(w, 0);
	return take_times(correlation, start_ns, end_ns);
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	(void)since_ns;
	rows_loss(w, loss_reason_unmeasured, atomic_exchange(&launches.unmeasured, 0),
		  launches.since_ns, now,
		  "launches concurrent with a measured launch or a graph capture, or without "
		  "counters from CUPTI");
	rows_loss(w, loss_reason_unmeasured, range_schedule_refused(), launches.since_ns, now,
		  "occurrences of ranges beyond the number that can be scheduled");
	rows_loss(w, loss_reason_no_memory, atomic_exchange(&launches.lost, 0), launches.since_ns,
		  now, "measured launches");
	if (launches.engine && launches.engine->periodic)
		launches.engine->periodic(w, launches.since_ns, now);
	launches.since_ns = now;
}

static void stopped(struct writer *w)
{
	atomic_store(&launches.active, false);
	launch_barrier_use(false);
	if (atomic_load(&launches.wanted) && !refusal_exists(&launches.refusal) &&
	    !atomic_load(&launches.any) &&
	    (kernel_choice_matched() || !atomic_load(&launches.selected)))
		engine_note_nothing(launches.engine->name, &launches.chosen,
				    kernel_choice_matched());
	atomic_store(&launches.is_next, false);
	collect(w, 0);
	pc_cubins_store();
	collect(w, 0);
	atomic_store(&launches.wanted, false);
	launch_times_clear();
	nvtx_choice_clear();
}

static void after_fork(void)
{
	nvtx_choice_clear();
	launch_owner_after_fork();
	launch_barrier_after_fork();
	marked_ranges_after_fork();
	stream_captures_after_fork();
	launch_times_after_fork();
	range_schedule_refused();
	memset(&launches, 0, sizeof(launches));
	pthread_mutex_init(&launches.lock, NULL);
	launch_queue_after_fork();
	hub_is_own_call = false;
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
		memset(engines[i]->state, 0, engines[i]->state_bytes);
}

const struct source launch_engine_source = {
	.name = "launches",
	.start = start,
	.extend = extend,
	.begin = begin,
	.window = window,
	.collect = collect,
	.vendor = vendor,
	.periodic = periodic,
	.stopped = stopped,
	.after_fork = after_fork,
};

#else

const struct source launch_engine_source = { .name = "launches" };

#endif
