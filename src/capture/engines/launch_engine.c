/*
 * launch_engine.c: decides which launches are measured, and when. The callback at the begin of a
 * selected launch claims the engine (launch_claim.h), and the callback at its end releases it.
 * Meanwhile launches of other threads wait (launch_gate.h). A launch that finds the engine claimed
 * is counted and not measured. Nothing is measured while a stream captures a graph
 * (stream_captures.h).
 */
#include "capture/engines/launch_engine.h"

#include "base/plural.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_claim.h"
#include "capture/engines/launch_gate.h"
#include "capture/engines/launch_marks.h"
#include "capture/engines/launch_queue.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/core/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/marked_ranges.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_rows.h"
#include "capture/engines/pc_sampling.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/range_turns.h"
#include "capture/engines/engine_refusal.h"
#include "capture/engines/stream_captures.h"
#include "capture/nvtx/nvtx_choice.h"
#include "capture/core/own_work.h"
#include "format/rows.h"

#define FAILURES_MAX 3u /* in a row, until the engine refuses */
#define ABANDONED_MAX 32u /* contexts, as many as an engine uses */
#define DESTROY_WAIT_NS (200 * NS_PER_MS)
#define DETACH_WAIT_NS (PITOT_SLOWNESS * NS_PER_S / 2) /* less than the collector's for the end */
#define CHOOSE_WAIT_NS (200 * NS_PER_MS)
#define CODE_NS (100 * NS_PER_MS) /* period of finding modules' checksums and storing modules */

static const struct launch_engine *const engines[] = { &range_profiler_engine,
						       &sass_metrics_engine };

static struct {
	/* Chosen by this or an earlier session; set before `wanted`. */
	_Atomic(const struct launch_engine *) engine;
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_uint inside; /* callbacks in progress, except ends of launches */
	/* A window is open, and launches remain to be measured. */
	atomic_bool active;
	atomic_bool open; /* a session with this engine has an open window */
	atomic_bool wanted; /* a current session requests this engine */
	struct engine_refusal refusal;
	atomic_bool graphs_noted;
	bool keeps_code; /* copies the code of loaded modules */
	struct settings chosen; /* what is measured; changes only with the claim */
	atomic_bool is_next; /* `next` will be chosen as soon as the engine can be claimed */
	struct settings next;
	pthread_mutex_t lock; /* of `next` and of activate(), held briefly */
	atomic_int measure; /* SETTING_MEASURE_…, readable without the claim */
	atomic_uint sessions; /* so far */
	atomic_bool any; /* something was measured for `chosen` */
	atomic_bool finished; /* the last launch of `chosen` is over; until then `active` stays */
	atomic_bool selected; /* a kernel of `chosen` was launched, or its launch captured */

	/* Set by the owner of the claim: */
	uint32_t correlation;
	uint64_t begun_ns, ended_ns;
	unsigned failures;

	_Atomic(CUcontext) abandoned[ABANDONED_MAX]; /* destroyed while another thread measured */
	/* Counts since their last rows. */
	atomic_uint_fast64_t unmeasured, lost;

	/* Used by the collector only: */
	struct map numbers; /* ids of metrics in this recording, by address */
	uint64_t since_ns; /* when costs and losses were last written */
} self = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *launch_engine_metrics(void)
{
	return self.chosen.metrics;
}

unsigned launch_engine_session(void)
{
	return atomic_load(&self.sessions);
}

void launch_engine_refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	engine_refuse_with(&self.refusal, &launches_client, self.engine->name, format, args);
	va_end(args);
	atomic_store(&self.active, false);
	launch_gate_use(false);
}

static const char *advice_without_memory(void)
{
	if (self.engine->patches || atomic_load(&self.measure) != SETTING_MEASURE_KERNEL)
		return ": out of memory on the GPU or the host";
	return ": out of memory, probably for saving the kernel's output between passes; exclude "
	       "it "
	       "with --kernels, or measure what runs once with --measure range";
}

bool launch_engine_failed(const struct cupti *cupti, const char *function, int result, bool last)
{
	launch_engine_count_unmeasured();
	if (++self.failures < FAILURES_MAX && !last)
		return false;
	launch_engine_refuse("%s: %s, at %u launch%s%s", function,
			     cupti_result_text(cupti, (CUptiResult)result), self.failures,
			     plural_of(self.failures, "", "es in a row"),
			     result == CUPTI_ERROR_OUT_OF_MEMORY ? advice_without_memory() : "");
	return true;
}

void launch_engine_count_pass(void)
{
	self.failures = 0;
}

void launch_engine_count_unmeasured(void)
{
	atomic_fetch_add(&self.unmeasured, 1);
}

bool launch_engine_hold(void)
{
	return !launch_engine_serializes() || launch_claim_hold();
}

void launch_engine_resume(void)
{
	if (launch_engine_serializes() && launch_claim_is_mine())
		launch_claim_let();
}

void launch_engine_push(struct measured *m, size_t bytes)
{
	self.failures = 0;
	atomic_store_explicit(&self.any, true, memory_order_relaxed);
	if (m) {
		m->correlation = self.correlation;
		m->end_ns = self.ended_ns;
	}
	if (!m || !launch_queue_push(m, bytes))
		atomic_fetch_add(&self.lost, 1);
}

/* --- a launch --- */

static void leave_abandoned(const struct cupti *cupti)
{
	for (size_t i = 0; i < ABANDONED_MAX; i++)
		if (atomic_load(&self.abandoned[i]))
			self.engine->leave_context(cupti, atomic_exchange(&self.abandoned[i], NULL),
						   true);
}

static void stop_measuring(const struct cupti *cupti, bool valid)
{
	leave_abandoned(cupti);
	self.engine->stop(cupti, valid);
}

/* The launch failed and has no record, or its kernel runs unpatched. */
static void unmark(void)
{
	uint64_t any;

	launch_marks_take(LAUNCH_PATCHED, self.correlation, CORRELATION_NOW, &any);
}

/* Called by the owner. Returns whether the launch or range that begins is measured. */
static bool start_measuring(const struct cupti *cupti, CUcontext context, uint32_t correlation,
			    const struct marked_range *marked)
{
	self.correlation = correlation;
	leave_abandoned(cupti); /* destroyed after the last measurement had stopped */
	launch_claim_begin(context);
	if (self.engine->patches &&
	    !launch_marks_add(LAUNCH_PATCHED, self.correlation, self.begun_ns)) {
		launch_engine_count_unmeasured();
		return false;
	}
	if (self.engine->start(cupti, context, marked))
		return true;
	unmark();
	return false;
}

static void note_graphs(void)
{
	if (!atomic_load(&self.graphs_noted) && !atomic_exchange(&self.graphs_noted, true))
		capability_note(feature_graph_metrics, capability_state_unavailable,
				self.engine->name, "none",
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

/* Releases the claim if there is no measurement with this --measure now, and returns NULL. */
static const struct cupti *claimed_for(int measure, bool claimed)
{
	const struct cupti *cupti;

	if (!claimed)
		return NULL;
	cupti = atomic_load(&self.cupti);
	if (cupti && atomic_load(&self.active) && atomic_load(&self.measure) == measure &&
	    !stream_captures_any())
		return cupti;
	launch_claim_release();
	return NULL;
}

/* The end of this thread's measured launch was not seen. */
static void end_unseen(void)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	if (atomic_load(&self.measure) == SETTING_MEASURE_RANGE)
		return;
	if (cupti && !api_calls_fatal())
		stop_measuring(cupti, false);
	launch_claim_release();
}

/* Begins to measure a launch that is selected by its name, or a launch of a graph. */
static void enter(const CUpti_CallbackData *data, const char *function, int measure)
{
	bool graph = measure == SETTING_MEASURE_GRAPH;
	const struct cupti *cupti;
	struct marked_range range;

	if (self.engine->patches && !hub_is_serialized())
		return;
	if (!data->context || !runs_at_once(data, function) || (!graph && !range_choice_is_turn()))
		return;
	cupti = claimed_for(measure, launch_claim_beside_flushes());
	if (cupti && !launch_gate_close()) {
		launch_claim_release();
		cupti = NULL;
	}
	if (!cupti) {
		launch_engine_count_unmeasured();
		return;
	}
	launch_claim_watch(end_unseen);
	self.begun_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	if ((graph && !marked_ranges_graph(cupti, data, self.begun_ns, &range)) ||
	    !start_measuring(cupti, data->context, data->correlationId, graph ? &range : NULL))
		launch_claim_release();
	hub_is_own_call = false;
}

void launch_engine_enter(const CUpti_CallbackData *data, const char *function, bool graph)
{
	const struct cupti *cupti = atomic_load_explicit(&self.cupti, memory_order_relaxed);
	int measure = atomic_load_explicit(&self.measure, memory_order_relaxed);

	if (!atomic_load_explicit(&self.active, memory_order_relaxed) || !cupti ||
	    measure == SETTING_MEASURE_RANGE || api_calls_fatal())
		return;
	if (unlikely(launch_claim_exists()) && launch_claim_is_mine())
		end_unseen();
	if (graph && measure == SETTING_MEASURE_KERNEL)
		note_graphs();
	if (graph != (measure == SETTING_MEASURE_GRAPH) || !function ||
	    (!graph && !range_choice_has_name(data->symbolName)) || !nvtx_choice_is_wanted())
		return;
	if (!graph && !atomic_load_explicit(&self.selected, memory_order_relaxed))
		atomic_store_explicit(&self.selected, true, memory_order_relaxed);
	atomic_fetch_add(&self.inside, 1);
	enter(data, function, measure);
	atomic_fetch_sub(&self.inside, 1);
}

void launch_engine_exit(const CUpti_CallbackData *data)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	CUcontext context;
	bool launched;

	if (!launch_claim_exists() || !launch_claim_is_mine() || !cupti ||
	    atomic_load(&self.measure) == SETTING_MEASURE_RANGE ||
	    self.correlation != data->correlationId || api_calls_fatal())
		return;
	context = launch_claim_context();
	self.ended_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	launched = !data->functionReturnValue || *(const uint32_t *)data->functionReturnValue == 0;
	/* When the window has closed, the launch's call and kernel may not be recorded. */
	stop_measuring(cupti, launched && atomic_load(&self.open));
	if (!launched)
		unmark();
	if (range_choice_is_done()) {
		atomic_store(&self.finished, true);
		atomic_store(&self.active, false);
		self.engine->leave_context(cupti, context, false);
		launch_gate_use(false);
	}
	hub_is_own_call = false;
	own_work_add(cost_kind_replay, self.begun_ns, 1);
	launch_claim_release();
}

/* --- for marked_ranges.c --- */

bool launch_engine_is_active(void)
{
	return atomic_load(&self.active);
}

const struct cupti *launch_engine_claim(void)
{
	const struct cupti *cupti = NULL;

	atomic_fetch_add(&self.inside, 1);
	if (atomic_load(&self.active) && !hub_is_own_call && !api_calls_fatal())
		cupti = claimed_for(SETTING_MEASURE_RANGE, launch_claim());
	if (cupti) {
		hub_is_own_call = true;
		self.begun_ns = clock_monotonic_ns();
	} else {
		atomic_fetch_sub(&self.inside, 1);
	}
	return cupti;
}

bool launch_engine_start(const struct cupti *cupti, CUcontext context,
			 const struct marked_range *range)
{
	bool started = range && start_measuring(cupti, context, 0, range);

	if (started)
		own_work_add(cost_kind_replay, self.begun_ns, 1);
	else
		launch_claim_release();
	hub_is_own_call = false;
	atomic_fetch_sub(&self.inside, 1);
	return started;
}

void launch_engine_stop(bool valid)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	launch_claim_take_over();
	self.ended_ns = clock_monotonic_ns();
	hub_is_own_call = true;
	if (cupti && !api_calls_fatal())
		stop_measuring(cupti, valid);
	hub_is_own_call = false;
	own_work_add(cost_kind_replay, self.ended_ns, 0);
	launch_claim_release();
}

/* --- destroyed contexts, loaded modules --- */

static void abandon(CUcontext handle)
{
	for (size_t i = 0; i < ABANDONED_MAX; i++) {
		CUcontext none = NULL;

		if (atomic_compare_exchange_strong(&self.abandoned[i], &none, handle) ||
		    none == handle)
			return;
	}
}

static void remove_context(const struct cupti *cupti, CUcontext handle)
{
	bool nested;

	stream_captures_forget(handle);
	if (launch_claim_context() == handle)
		marked_ranges_cancel();
	nested = launch_claim_is_mine();
	if (!nested && !launch_claim_wait(DESTROY_WAIT_NS)) {
		abandon(handle);
		return;
	}
	if (nested && launch_claim_context() == handle)
		stop_measuring(cupti, false);
	self.engine->leave_context(cupti, handle, false);
	if (!nested)
		launch_claim_release();
}

static void add_code(const CUpti_ModuleResourceData *module)
{
	if (module)
		pc_cubins_add(module->pCubin, module->cubinSize);
}

void launch_engine_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	if (!cupti || !data || api_calls_fatal())
		return;
	atomic_fetch_add(&self.inside, 1);
	if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
		range_choice_forget_names();
	else if (cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED && self.keeps_code)
		add_code(data->resourceDescriptor);
	else if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && data->context)
		remove_context(cupti, data->context);
	atomic_fetch_sub(&self.inside, 1);
}

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

bool launch_engine_attach(const struct cupti *cupti, int engine, bool late)
{
	const char *missing, *needs;

	if (engine_refusal_text(&self.refusal))
		return false;
	if (!self.engine || self.engine->engine != launch_engine_of(engine) ||
	    atomic_load(&self.cupti))
		return true;
	missing = self.engine->missing(cupti, &needs);
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
	if (self.engine->patches && (!stop_worker(cupti) || !serialize(cupti, late)))
		return false;
	stream_captures_forget(NULL); /* those whose ends were not seen */
	self.keeps_code = self.engine->patches && !pc_sampling_is(engine); /* it does that */
	hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	if (self.keeps_code)
		hub_set_callback(&launches_client, true, CUPTI_CB_DOMAIN_RESOURCE,
				 CUPTI_CBID_RESOURCE_MODULE_LOADED);
	atomic_store(&self.cupti, cupti);
	return true;
}

bool launch_engine_detach(void)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	bool leave;

	atomic_store(&self.active, false);
	if (!cupti)
		return !atomic_load(&self.inside);
	marked_ranges_cancel();
	if (!launch_claim_wait(DETACH_WAIT_NS))
		return false;
	leave = !self.engine->has_contexts();
	if (leave && self.engine->patches)
		cupti->ActivityFlushPeriod(0);
	if (leave)
		atomic_store(&self.cupti, NULL);
	launch_claim_release();
	/* A callback may have loaded `cupti` before it was cleared. */
	return leave && !atomic_load(&self.inside);
}

bool launch_engine_serializes(void)
{
	return atomic_load(&self.cupti) && self.engine->patches;
}

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	(void)reasons, (void)now;
	if (!atomic_load(&self.active))
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
	return settings_trace_gpus(wanted) && self.engine &&
	       launch_engine_of(wanted->engine) == self.engine->engine;
}

/* A session that begins and the collector may do this at the same time. */
static void activate(void)
{
	bool may_measure;

	pthread_mutex_lock(&self.lock);
	may_measure = atomic_load(&self.wanted) && !atomic_load(&self.finished);
	launch_gate_use(may_measure && atomic_load(&self.measure) != SETTING_MEASURE_RANGE);
	atomic_store(&self.active, may_measure && atomic_load(&self.open));
	if (atomic_load(
		    &self.refusal
			     .begun)) { /* engine_refuse() may have run since the flags were read */
		atomic_store(&self.active, false);
		launch_gate_use(false);
	}
	pthread_mutex_unlock(&self.lock);
}

static void window(const struct settings *wanted, struct writer *w)
{
	bool open = wanted && is_engine_of(wanted) &&
		    (atomic_load(&self.wanted) || atomic_load(&self.is_next));

	(void)w;
	if (open && self.engine->patches)
		pc_cubins_use(wanted);
	atomic_store(&self.open, open);
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
		    engines[i] == self.engine || (self.engine && atomic_load(&self.cupti)))
			continue;
		self.engine = engines[i];
		engine_refusal_clear(&self.refusal);
	}
}

/* Called with the claim. The reason of a refusal may not apply to other metrics. */
static void choose(const struct settings *s)
{
	if (atomic_load(&self.cupti) && strcmp(self.chosen.metrics, s->metrics) != 0) {
		engine_refusal_clear(&self.refusal);
	}
	if (!atomic_load(&self.wanted))
		launch_queue_clear(); /* what was measured for longer than its session lasted */
	self.failures = 0;
	atomic_store(&self.any, false);
	atomic_store(&self.finished, false);
	atomic_store(&self.selected, false);
	self.chosen = *s;
	atomic_fetch_add(&self.sessions, 1);
	range_choice_set(s);
	range_turns_set(s);
	atomic_store(&self.measure, s->engine == SETTING_ENGINE_RANGE_PROFILER
					    ? s->measure
					    : SETTING_MEASURE_KERNEL);
	nvtx_choice_set(s, atomic_load(&self.measure) == SETTING_MEASURE_RANGE
				   ? &marked_ranges_watch
				   : NULL);
	atomic_store(&self.graphs_noted, false);
	atomic_store(&self.wanted, true);
	engine_refusal_note(&self.refusal, self.engine->name);
}

/*
 * Chooses for this session or, with NULL, for the one that is next. Returns false if the engine
 * stays claimed for longer than wait_ns.
 */
static bool choose_within(const struct settings *s, uint64_t wait_ns)
{
	if (!launch_claim_wait(wait_ns))
		return false;
	pthread_mutex_lock(&self.lock);
	if (atomic_exchange(&self.is_next, false) || s)
		choose(s ? s : &self.next);
	pthread_mutex_unlock(&self.lock);
	launch_claim_release();
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
	    (atomic_load(&self.wanted) && atomic_load(how->armed ? &self.active : &self.open) &&
	     settings_measure_alike(&self.chosen, s)))
		return;
	choose_engine(s);
	if (!is_engine_of(s)) {
		note_other_engine(s);
		return;
	}
	atomic_store(&self.active, false);
	marked_ranges_cancel();
	if (choose_within(s, CHOOSE_WAIT_NS))
		return;
	pthread_mutex_lock(&self.lock);
	self.next = *s;
	atomic_store(&self.is_next, true);
	pthread_mutex_unlock(&self.lock);
	engine_note_trace(self.engine->name, "still measuring a launch of an earlier "
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
	self.since_ns = clock_monotonic_ns();
	map_clear(&self.numbers);
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct measured *m;
	uint64_t rows = 0;

	(void)now;
	if (unlikely(atomic_load_explicit(&self.is_next, memory_order_relaxed)))
		choose_within(NULL, 0);
	if (!atomic_load_explicit(&self.wanted, memory_order_relaxed))
		return 0;
	for (; (m = launch_queue_take()); rows++, free(m))
		self.engine->write(w, m, &self.numbers);
	return rows + (self.engine->patches ? pc_rows_write(w) : 0);
}

static bool take_times(uint32_t correlation, uint64_t *start_ns, uint64_t *end_ns)
{
	return launch_marks_take(LAUNCH_START, correlation, CORRELATION_NOW, start_ns) &&
	       launch_marks_take(LAUNCH_END, correlation, CORRELATION_NOW, end_ns);
}

bool launch_engine_adjust(struct writer *w, uint32_t correlation, uint64_t began_ns,
			  uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t any;

	if (!atomic_load_explicit(&self.wanted, memory_order_relaxed))
		return false;
	if (began_ns)
		return self.engine->patches &&
		       launch_marks_take(LAUNCH_PATCHED, correlation, began_ns, &any);
	if (take_times(correlation, start_ns, end_ns))
		return true;
	collect(w, 0);
	return take_times(correlation, start_ns, end_ns);
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	(void)since_ns;
	rows_loss(w, loss_reason_unmeasured, atomic_exchange(&self.unmeasured, 0), self.since_ns,
		  now,
		  "launches concurrent with a measured launch or a graph capture, or without "
		  "counters "
		  "from CUPTI");
	rows_loss(w, loss_reason_unmeasured, range_turns_refused(), self.since_ns, now,
		  "occurrences of ranges beyond the number that can take turns");
	rows_loss(w, loss_reason_no_memory, atomic_exchange(&self.lost, 0), self.since_ns, now,
		  "measured launches");
	if (self.engine && self.engine->periodic)
		self.engine->periodic(w, self.since_ns, now);
	self.since_ns = now;
}

static void stopped(struct writer *w)
{
	atomic_store(&self.active, false);
	launch_gate_use(false);
	if (atomic_load(&self.wanted) && !atomic_load(&self.refusal.begun) &&
	    !atomic_load(&self.any) && (range_choice_matched() || !atomic_load(&self.selected)))
		engine_note_nothing(self.engine->name, &self.chosen, range_choice_matched());
	atomic_store(&self.is_next, false);
	collect(w, 0);
	pc_cubins_store();
	collect(w, 0);
	atomic_store(&self.wanted, false);
	launch_marks_clear();
	nvtx_choice_clear();
}

static void after_fork(void)
{
	nvtx_choice_clear();
	launch_claim_after_fork();
	launch_gate_after_fork();
	marked_ranges_after_fork();
	stream_captures_after_fork();
	launch_marks_after_fork();
	range_turns_refused();
	memset(&self, 0, sizeof(self));
	pthread_mutex_init(&self.lock, NULL);
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

bool launch_engine_attach(const struct cupti *cupti, int engine, bool late)
{
	(void)cupti, (void)late;
	engine_note_trace(setting_engine_names[engine],
			  "this libpitot.so was built without the headers of CUDA 12.6 "
			  "Update 2 or later");
	return false;
}

const struct source launch_engine_source = { .name = "launches" };

#endif
