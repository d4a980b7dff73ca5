/*
 * range_profiler.c: which launches are measured, and when. The callback of a launch that is wanted claims the engine, and that of its end
 * lets it go; in between, all that CUPTI is asked is asked on that thread. Nobody waits for a claim but a callback whose context is about to
 * go, and the vendor thread that is about to unsubscribe, both for a moment: a launch that finds the engine claimed is not measured, and
 * counted. If it is a launch in the same context, it was within the other's range: neither has values.
 *
 * A launch into a stream that captures a graph runs later, if ever, and is left alone; so are launches of graphs.
 */
#include "capture/engines/range_profiler.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "capture/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/range_choice.h"
#include "capture/engines/range_context.h"
#include "capture/log.h"
#include "format/rows.h"

#define ENGINE "range-profiler"

#ifdef PITOT_HAS_PROFILER_HOST

#define CONTEXTS_MAX 32u
#define METRICS_SETS_MAX 16u /* devices, times what sessions have asked for */
#define MEASURED_MAX 4096u /* launches that wait for the collector */
#define FAILURES_MAX 3u /* one after the other */
#define DESTROY_WAIT_NS (200 * NS_PER_MS)
#define DETACH_WAIT_NS (PITOT_SLOWNESS * NS_PER_S)

/* A launch on its way to the collector. */
struct measured {
	struct measured *next;
	uint32_t correlation;
	uint64_t end_ns;
	const struct range_metrics *metrics;
	double values[];
};

static struct {
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_uint inside; /* callbacks */
	atomic_bool
		active; /* a window of a session with this engine is open, and launches are still to be measured */
	atomic_bool wanted; /* by a session that is there */
	atomic_bool refuses, refused; /* for good */
	char refusal[400]; /* written between the two */
	atomic_bool missed, graphs_noted;

	char requested[OPTION_TEXT_MAX]; /* metrics; from before `wanted` is set */

	/* Of the thread that has claimed the engine. */
	atomic_uintptr_t owner; /* pthread_self(); 0: nobody */
	_Atomic(CUcontext) measuring; /* between start and stop */
	atomic_bool disturbed;
	uint32_t correlation;
	uint64_t begun_ns, ended_ns; /* ended: all its runs have */
	struct range_context *context;
	struct range_context contexts[CONTEXTS_MAX];
	struct range_metrics metrics[METRICS_SETS_MAX];
	unsigned failures;

	_Atomic(CUcontext) abandoned; /* gone while another thread measured in it */
	atomic_uint_fast64_t setups, setup_ns, replays, replay_ns, unmeasured, lost;

	pthread_mutex_t queue_lock; /* held for moments */
	struct measured *oldest, **end;
	unsigned queued;

	/* The collector's: */
	struct map numbers; /* of metrics in this recording, by address */
	struct map starts, ends; /* of measured kernels, by the 32-bit correlation id */
	uint64_t since_ns, setups_reported, setup_ns_reported, replays_reported, replay_ns_reported,
		unmeasured_reported, lost_reported;
} self = { .queue_lock = PTHREAD_MUTEX_INITIALIZER, .end = &self.oldest };

static __thread bool calling __attribute__((tls_model("initial-exec")));

__attribute__((format(printf, 1, 2))) static void refuse(const char *format, ...)
{
	va_list args;

	atomic_store(&self.active, false);
	if (atomic_exchange(&self.refuses, true))
		return;
	va_start(args, format);
	vsnprintf(self.refusal, sizeof(self.refusal), format, args);
	va_end(args);
	engine_note_trace(ENGINE, self.refusal);
	atomic_store(&self.refused, true);
}

/* --- the claim --- */

static bool is_owner(void)
{
	return atomic_load(&self.owner) == (uintptr_t)pthread_self();
}

static bool claim(void)
{
	uintptr_t nobody = 0;

	return atomic_compare_exchange_strong(&self.owner, &nobody, (uintptr_t)pthread_self());
}

static void release(void)
{
	self.context = NULL;
	atomic_store(&self.measuring, NULL);
	atomic_store(&self.owner, 0);
}

/* Until `ready` holds, or for so long. */
static bool wait_until(bool (*ready)(void), uint64_t most_ns)
{
	struct timespec t = { .tv_nsec = NS_PER_MS };

	for (uint64_t ns = 0; !ready(); ns += NS_PER_MS) {
		if (ns >= most_ns)
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return true;
}

/* --- contexts, of the owner --- */

static struct range_context *find_context(CUcontext handle)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (self.contexts[i].handle == handle)
			return &self.contexts[i];
	return NULL;
}

static void note_metrics(const struct range_metrics *m, unsigned device, uint64_t ns)
{
	capability_note("engine", capability_state_on, ENGINE, ENGINE,
			"device %u (%s): %zu metric%s in %zu pass%s; set up in %.3f s", device,
			m->chip, m->set.names.count, m->set.names.count == 1 ? "" : "s",
			m->set.passes, m->set.passes == 1 ? "" : "es", (double)ns / 1e9);
	if (m->set.left_out.length)
		capability_note("metrics", capability_state_degraded, ENGINE, ENGINE, "%s",
				strbuf_text(&m->set.left_out));
	else if (m->set.lacking)
		capability_note("metrics", capability_state_on, ENGINE, ENGINE,
				"%s lacks %u of the metrics of these sets", m->chip,
				m->set.lacking);
}

static const struct range_metrics *metrics_of(const struct cupti *cupti, CUcontext context,
					      unsigned device)
{
	static unsigned devices[METRICS_SETS_MAX];
	uint64_t begun = clock_monotonic_ns();
	struct error e = { 0 };

	for (size_t i = 0; i < METRICS_SETS_MAX; i++) {
		struct range_metrics *m = &self.metrics[i];

		if (m->host && (devices[i] != device || strcmp(m->requested, self.requested) != 0))
			continue;
		if (m->host)
			return m;
		if (range_metrics_make(m, cupti, context, device, self.requested, &e) < 0) {
			refuse("%s", e.text);
			return NULL;
		}
		devices[i] = device;
		note_metrics(m, device, clock_monotonic_ns() - begun);
		return m;
	}
	refuse("more than %u sets of metrics in one process", METRICS_SETS_MAX);
	return NULL;
}

static struct range_context *open_context(const struct cupti *cupti, CUcontext handle)
{
	struct range_context *c = find_context(NULL);
	const struct range_metrics *m;
	uint64_t begun = clock_monotonic_ns();
	uint32_t device = 0;
	int result;

	if (!c) {
		refuse("more than %u contexts at once", CONTEXTS_MAX);
		return NULL;
	}
	cupti->GetDeviceId(handle, &device);
	m = metrics_of(cupti, handle, device);
	if (!m)
		return NULL;
	result = range_context_open(c, cupti, handle, m);
	if (result) {
		refuse("%s: %s: %s", c->failed, cupti_result_text(cupti, (CUptiResult)result),
		       engine_advice((CUptiResult)result));
		return NULL;
	}
	atomic_fetch_add(&self.setups, 1);
	atomic_fetch_add(&self.setup_ns, clock_monotonic_ns() - begun);
	return c;
}

/* A call about one launch has failed. One that did not end what it had started is the last. */
static void count_failure(const struct cupti *cupti, struct range_context *c, int result)
{
	atomic_fetch_add(&self.unmeasured, 1);
	if (++self.failures < FAILURES_MAX && !c->started)
		return;
	refuse("%s: %s, at %u launch%s one after the other", c->failed,
	       cupti_result_text(cupti, (CUptiResult)result), self.failures,
	       self.failures == 1 ? "" : "es");
	range_context_close(c, cupti, false);
}

/* --- a launch --- */

static void push(const struct range_context *c, const double *values)
{
	size_t bytes = c->metrics->set.names.count * sizeof(*values);
	struct measured *m = calloc(1, sizeof(*m) + bytes);

	if (m) {
		m->correlation = self.correlation;
		m->end_ns = self.ended_ns;
		m->metrics = c->metrics;
		memcpy(m->values, values, bytes);
	}
	pthread_mutex_lock(&self.queue_lock);
	if (m && self.queued < MEASURED_MAX) {
		*self.end = m;
		self.end = &m->next;
		self.queued++;
		m = NULL;
	} else {
		atomic_fetch_add(&self.lost, 1);
	}
	pthread_mutex_unlock(&self.queue_lock);
	free(m);
}

static struct measured *take(void)
{
	struct measured *m;

	pthread_mutex_lock(&self.queue_lock);
	m = self.oldest;
	if (m) {
		self.oldest = m->next;
		self.queued--;
		if (!self.oldest)
			self.end = &self.oldest;
	}
	pthread_mutex_unlock(&self.queue_lock);
	return m;
}

static void stop_measuring(const struct cupti *cupti, bool valid)
{
	CUcontext abandoned = atomic_exchange(&self.abandoned, NULL);
	struct range_context *c = self.context, *gone = abandoned ? find_context(abandoned) : NULL;
	double values[METRICS_MAX];
	size_t ranges = 0;
	int result;

	if (gone)
		range_context_close(gone, cupti, true);
	if (!c->handle) {
		atomic_fetch_add(&self.unmeasured, 1);
		return;
	}
	result = range_context_stop(c, cupti, &ranges, values);
	if (result) {
		count_failure(cupti, c, result);
		return;
	}
	self.failures = 0;
	if (valid && ranges == 1 && !atomic_load(&self.disturbed))
		push(c, values);
	else
		atomic_fetch_add(&self.unmeasured, 1);
}

/* Of the owner. true: the launch that follows is measured. */
static bool start_measuring(const struct cupti *cupti, const CUpti_CallbackData *data)
{
	struct range_context *c = find_context(data->context);
	int result;

	/* Of an earlier session, which wanted other metrics. */
	if (c && strcmp(c->metrics->requested, self.requested) != 0) {
		range_context_close(c, cupti, false);
		c = NULL;
	}
	if (!c)
		c = open_context(cupti, data->context);
	if (!c)
		return false;
	self.correlation = data->correlationId;
	self.context = c;
	atomic_store(&self.disturbed, false);
	atomic_store(&self.measuring, data->context);
	result = range_context_start(c, cupti);
	if (result)
		count_failure(cupti, c, result);
	return !result;
}

/* The end of a launch that never came, of this thread. */
static void leave_unfinished(const struct cupti *cupti)
{
	if (self.context && self.context->started)
		stop_measuring(cupti, false);
	release();
}

static void note_graphs(void)
{
	if (!atomic_load(&self.graphs_noted) && !atomic_exchange(&self.graphs_noted, true))
		capability_note("graph_metrics", capability_state_unavailable, ENGINE, "none",
				"kernels of CUDA graphs are not measured");
}

static bool runs_at_once(const CUpti_CallbackData *data, const char *function)
{
	bool at_once;

	calling = true;
	at_once = range_choice_runs_at_once(data, function);
	calling = false;
	return at_once;
}

/* A launch while the engine is claimed: of the thread that has, or of another one. */
static void meet(const struct cupti *cupti, CUcontext context)
{
	if (is_owner())
		leave_unfinished(cupti);
	else if (atomic_load(&self.measuring) == context)
		atomic_store(&self.disturbed, true);
}

/* A launch whose name is wanted. */
static void enter(const struct cupti *cupti, const CUpti_CallbackData *data, const char *function)
{
	if (!data->context || !runs_at_once(data, function) || !range_choice_is_turn())
		return;
	if (!claim()) {
		atomic_fetch_add(&self.unmeasured, 1);
		return;
	}
	self.begun_ns = clock_monotonic_ns();
	calling = true;
	if (!start_measuring(cupti, data))
		release();
	calling = false;
}

/* Launches that are not wanted cost a few loads: nothing is written that threads share. */
void range_profiler_enter(const CUpti_CallbackData *data, const char *function, bool graph)
{
	const struct cupti *cupti = atomic_load_explicit(&self.cupti, memory_order_relaxed);

	if (!atomic_load_explicit(&self.active, memory_order_relaxed) || !cupti ||
	    api_calls_fatal())
		return;
	if (unlikely(atomic_load_explicit(&self.owner, memory_order_relaxed)))
		meet(cupti, data->context);
	if (graph)
		note_graphs();
	if (graph || !function || !range_choice_has_name(data->symbolName))
		return;
	atomic_fetch_add(&self.inside, 1);
	cupti = atomic_load(&self.cupti);
	if (cupti)
		enter(cupti, data, function);
	atomic_fetch_sub(&self.inside, 1);
}

void range_profiler_exit(const CUpti_CallbackData *data)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	if (!atomic_load_explicit(&self.owner, memory_order_relaxed) || !is_owner() || !cupti ||
	    self.correlation != data->correlationId || api_calls_fatal())
		return;
	calling = true;
	self.ended_ns = clock_monotonic_ns();
	if (self.context && self.context->started)
		stop_measuring(cupti, !data->functionReturnValue ||
					      *(const uint32_t *)data->functionReturnValue == 0);
	if (range_choice_is_done()) {
		atomic_store(&self.active, false);
		if (self.context)
			range_context_close(self.context, cupti, false);
	}
	calling = false;
	atomic_fetch_add(&self.replays, 1);
	atomic_fetch_add(&self.replay_ns, clock_monotonic_ns() - self.begun_ns);
	release();
}

bool range_profiler_calls(void)
{
	return calling;
}

/* --- contexts that go --- */

static void remove_context(const struct cupti *cupti, CUcontext handle)
{
	bool nested = is_owner();
	struct range_context *c;

	if (!nested && !wait_until(claim, DESTROY_WAIT_NS)) {
		atomic_store(&self.abandoned, handle);
		return;
	}
	c = find_context(handle);
	if (c && c->started)
		stop_measuring(cupti, false);
	if (c && c->handle)
		range_context_close(c, cupti, false);
	if (!nested)
		release();
}

void range_profiler_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	if (!cupti || !data || api_calls_fatal())
		return;
	atomic_fetch_add(&self.inside, 1);
	if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
		range_choice_forget_names();
	else if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && data->context)
		remove_context(cupti, data->context);
	atomic_fetch_sub(&self.inside, 1);
}

/* --- attaching --- */

static const char *missing_function(const struct cupti *cupti)
{
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	RANGE_PROFILER_FUNCTIONS(F)
#undef F
	return cupti->GetDeviceId ? NULL : "cuptiGetDeviceId";
}

void range_profiler_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber)
{
	const char *missing = missing_function(cupti);

	if (atomic_load(&self.cupti) || atomic_load(&self.refused))
		return;
	if (missing) {
		refuse("this CUPTI lacks %s: hardware counters need CUDA 12.6 Update 2 or later",
		       missing);
		return;
	}
	if (!range_choice_find_driver()) {
		refuse("the driver lacks cuStreamIsCapturing: which launches run at once is not "
		       "known");
		return;
	}
	cupti->EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
			      CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	atomic_store(&self.cupti, cupti);
}

void range_profiler_missed(void)
{
	if (!atomic_load(&self.cupti) && !atomic_load(&self.refused) &&
	    !atomic_exchange(&self.missed, true))
		engine_note_trace(ENGINE, "CUPTI was subscribed to without it: start the session "
					  "before others, or before CUDA is initialized");
}

static bool has_contexts(void)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (self.contexts[i].handle)
			return true;
	return false;
}

bool range_profiler_detach(void)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	bool leave;

	atomic_store(&self.active, false);
	if (!cupti)
		return true;
	if (!wait_until(claim, DETACH_WAIT_NS))
		return false;
	leave = !has_contexts();
	if (leave)
		atomic_store(&self.cupti, NULL);
	release();
	/* A callback may have been faster. */
	return leave && !atomic_load(&self.inside);
}

/* --- the sessions --- */

static bool is_engine_of(const struct settings *wanted)
{
	return settings_use_cupti(wanted) && wanted->engine == SETTING_ENGINE_RANGE_PROFILER;
}

static void window(const struct settings *wanted, struct writer *w)
{
	bool open = wanted && is_engine_of(wanted) && atomic_load(&self.wanted);

	(void)w;
	atomic_store(&self.active, open && !atomic_load(&self.refuses) && !range_choice_is_done());
}

static void extend(const struct source_start *how)
{
	const struct settings *s = how->wanted;

	if (!how->with_cuda || !is_engine_of(s) || atomic_load(&self.wanted))
		return;
	memcpy(self.requested, s->metrics, sizeof(self.requested));
	range_choice_set(s);
	atomic_store(&self.graphs_noted, false);
	atomic_store(&self.wanted, true);
	if (atomic_load(&self.refused))
		engine_note_trace(ENGINE, self.refusal);
}

static void start(const struct source_start *how)
{
	extend(how);
	if (how->with_cuda && how->open)
		window(how->wanted, NULL);
}

static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	(void)how;
	self.since_ns = clock_monotonic_ns();
	map_clear(&self.numbers);
	map_clear(&self.starts);
	map_clear(&self.ends);
}

static uint32_t number_of(struct writer *w, const struct metric_texts *texts)
{
	size_t before = self.numbers.count;
	struct row_metric row = { .id = (uint32_t)map_number(&self.numbers, (uintptr_t)texts) };

	if (self.numbers.count != before) {
		row.name = rows_text(w, texts->name);
		row.unit = rows_text(w, texts->unit);
		row.description = rows_text(w, texts->description);
		writer_append(w, TABLE_metric, &row);
	}
	return row.id;
}

/* Of its last run. */
static void keep_times(const struct measured *m)
{
	size_t i = m->metrics->duration;

	if (i != SIZE_MAX && m->values[i] > 0 && m->values[i] < (double)m->end_ns &&
	    map_put(&self.starts, m->correlation, m->end_ns - (uint64_t)m->values[i]) == 0 &&
	    map_put(&self.ends, m->correlation, m->end_ns) < 0)
		log_line("no memory for the times of a measured kernel");
}

static void write_measured(struct writer *w, const struct measured *m)
{
	uint64_t correlation = correlation_widen(m->correlation, m->end_ns);

	keep_times(m);

	for (size_t i = 0; i < m->metrics->set.names.count; i++) {
		struct row_metric_value row = {
			.correlation = correlation,
			.metric = number_of(w, &m->metrics->texts[i]),
		};

		memcpy(&row.value, &m->values[i], sizeof(row.value));
		ROW_MISSING_IF(&row, metric_value, value, !isfinite(m->values[i]));
		writer_append(w, TABLE_metric_value, &row);
	}
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct measured *m;
	uint64_t rows = 0;

	(void)now;
	if (!atomic_load_explicit(&self.wanted, memory_order_relaxed))
		return 0;
	for (; (m = take()); rows++, free(m))
		write_measured(w, m);
	return rows;
}

static bool find_times(uint32_t correlation, uint64_t *start_ns, uint64_t *end_ns)
{
	return map_get(&self.starts, correlation, start_ns) &&
	       map_get(&self.ends, correlation, end_ns);
}

bool range_profiler_times(struct writer *w, uint32_t correlation, uint64_t *start_ns,
			  uint64_t *end_ns)
{
	if (!atomic_load_explicit(&self.wanted, memory_order_relaxed))
		return false;
	if (find_times(correlation, start_ns, end_ns))
		return true;
	collect(w, 0);
	return find_times(correlation, start_ns, end_ns);
}

static void write_cost(struct writer *w, enum cost_kind kind, atomic_uint_fast64_t *count,
		       atomic_uint_fast64_t *ns, uint64_t *count_reported, uint64_t *ns_reported,
		       uint64_t now)
{
	uint64_t n = atomic_load(count), total = atomic_load(ns);

	rows_cost(w, kind, self.since_ns, now, n - *count_reported, total - *ns_reported);
	*count_reported = n;
	*ns_reported = total;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	(void)since_ns;
	write_cost(w, cost_kind_setup, &self.setups, &self.setup_ns, &self.setups_reported,
		   &self.setup_ns_reported, now);
	write_cost(w, cost_kind_replay, &self.replays, &self.replay_ns, &self.replays_reported,
		   &self.replay_ns_reported, now);
	rows_loss_more(
		w, loss_reason_unmeasured, atomic_load(&self.unmeasured), &self.unmeasured_reported,
		self.since_ns, now,
		"launches at the same time as another one, or whose counters CUPTI did not give");
	rows_loss_more(w, loss_reason_no_memory, atomic_load(&self.lost), &self.lost_reported,
		       self.since_ns, now, "launches whose counters were measured");
	self.since_ns = now;
}

static void stopped(struct writer *w)
{
	atomic_store(&self.active, false);
	collect(w, 0);
	atomic_store(&self.wanted, false);
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
	pthread_mutex_init(&self.queue_lock, NULL);
	self.end = &self.oldest;
	calling = false;
}

const struct source range_profiler_source = {
	.name = ENGINE,
	.start = start,
	.extend = extend,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.stopped = stopped,
	.after_fork = after_fork,
};

#else

void range_profiler_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber)
{
	(void)cupti, (void)subscriber;
	engine_note_trace(ENGINE, "this libpitot.so was built without the headers of CUDA 12.6 "
				  "Update 2 or later");
}

const struct source range_profiler_source = { .name = ENGINE };

#endif
