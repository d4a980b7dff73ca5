/*
 * range_profiler.c: the engine that measures hardware counters of single launches, ranges and
 * graphs (launch_engine.h).
 */
#include "capture/engines/launch_engine.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/launch_times.h"
#include "capture/engines/range_context.h"
#include "capture/engines/range_schedule.h"
#include "capture/engines/replay_memory.h"
#include "capture/core/log.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/core/own_work.h"
#include "format/rows.h"

#define ENGINE "range-profiler"
#define CONTEXTS_MAX 32u

struct launch {
	struct measured head;
	const struct engine_metrics *metrics;
	struct marked_range range; /* key 0: the measurement is of a kernel's launch */
	uint32_t passes; /* of the range */
	double values[];
};

static struct {
	/* Accessed only by the thread that owns the engine. */
	struct range_context *context; /* the one being measured in; NULL: none */
	struct marked_range range; /* the one being measured; key 0: a kernel's launch */
	struct range_context contexts[CONTEXTS_MAX];
	struct engine_metrics metrics[ENGINE_METRICS_MAX];
	unsigned session; /* the last one for which metrics were noted */
} self;

/* --- contexts, used by the owner --- */

static struct range_context *find_context(CUcontext handle)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (self.contexts[i].handle == handle)
			return &self.contexts[i];
	return NULL;
}

static struct range_context *open_context(const struct cupti *cupti, CUcontext handle,
					  enum profiler_kind kind)
{
	struct range_context *c = find_context(NULL);
	const struct engine_metrics *m;
	uint64_t begun = clock_monotonic_ns();
	struct error e = { 0 };
	uint32_t device = 0;
	int result;

	if (!c) {
		launch_engine_refuse("more than %u contexts at once", CONTEXTS_MAX);
		return NULL;
	}
	cupti->GetDeviceId(handle, &device);
	m = engine_metrics_find(self.metrics, ENGINE, cupti, kind, handle, device,
				launch_engine_metrics(), &e);
	if (!m) {
		launch_engine_refuse("%s", e.text);
		return NULL;
	}
	result = range_context_open(c, cupti, handle, m);
	if (result) {
		launch_engine_refuse("%s: %s: %s", c->failed,
				     cupti_result_text(cupti, (CUptiResult)result),
				     engine_advice((CUptiResult)result));
		return NULL;
	}
	own_work_add(cost_kind_setup, begun, 1);
	return c;
}

/* Counts a failed call about one launch. A profiler that cannot be stopped is a final failure. */
static void count_failure(const struct cupti *cupti, struct range_context *c, int result)
{
	range_schedule_end(false);
	if (launch_engine_failed(cupti, c->failed, result, c->started))
		range_context_close(c, cupti, false);
}

/* --- a launch --- */

static void push(const struct range_context *c, const double *values)
{
	size_t bytes = c->metrics->set.names.count * sizeof(*values);
	struct launch *l = malloc(sizeof(*l) + bytes);

	if (l) {
		l->metrics = c->metrics;
		l->range = self.range;
		l->passes = c->passes;
		memcpy(l->values, values, bytes);
	}
	launch_engine_push(l ? &l->head : NULL, sizeof(*l) + bytes);
}

static void stop(const struct cupti *cupti, bool valid)
{
	struct range_context *c = self.context;
	double values[METRICS_MAX];
	size_t ranges = 0;
	int result;

	self.context = NULL;
	if (!c)
		return;
	if (!c->handle) { /* the context was destroyed */
		launch_engine_count_unmeasured();
		return;
	}
	result = range_context_stop(c, cupti, &ranges, values);
	c->passes++;
	valid = valid && !launch_barrier_was_passed();
	if (result) {
		count_failure(cupti, c, result);
	} else if (c->is_underway && valid) {
		launch_engine_count_pass();
	} else if (ranges == 1 && valid) {
		push(c, values);
		range_schedule_end(true);
	} else {
		c->is_underway = false;
		launch_engine_count_unmeasured();
		range_schedule_end(false);
	}
}

/* Notes, for a new session, the metrics that an earlier one has set up, and ends its passes. */
static void begin_session(void)
{
	if (self.session == launch_engine_session())
		return;
	self.session = launch_engine_session();
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		self.contexts[i].is_underway = false;
	for (size_t i = 0; i < ENGINE_METRICS_MAX; i++)
		if (self.metrics[i].host &&
		    strcmp(self.metrics[i].requested, launch_engine_metrics()) == 0)
			engine_metrics_note(&self.metrics[i], ENGINE, 0);
}

/* Continues the range's measurement, or begins it and gives up an unfinished one of another. */
static void begin_measurement(struct range_context *c, uint64_t key)
{
	if (c->is_underway && c->key == key)
		return;
	if (c->is_underway)
		launch_engine_count_unmeasured();
	c->is_underway = false;
	c->key = key;
	c->passes = 0;
}

static bool start(const struct cupti *cupti, CUcontext context, const struct marked_range *marked)
{
	enum profiler_kind kind = marked ? PROFILER_OF_RANGES : PROFILER_OF_LAUNCHES;
	struct range_context *c = find_context(context);
	int result;

	begin_session();
	/* An earlier session had other metrics or another --measure. */
	if (c && (c->metrics->kind != kind ||
		  strcmp(c->metrics->requested, launch_engine_metrics()) != 0)) {
		range_context_close(c, cupti, false);
		c = NULL;
	}
	if (!c)
		c = open_context(cupti, context, kind);
	if (!c)
		return false;
	if (!marked && c->metrics->set.passes > 1 && !replay_memory_suffices(self.session)) {
		launch_engine_count_unmeasured();
		return false;
	}
	self.range = marked ? *marked : (struct marked_range){ 0 };
	begin_measurement(c, self.range.key);
	result = range_context_start(c, cupti, self.range.name);
	if (result)
		count_failure(cupti, c, result);
	else
		self.context = c;
	return !result;
}

static void leave_context(const struct cupti *cupti, CUcontext handle, bool gone)
{
	struct range_context *c = find_context(handle);

	if (c)
		range_context_close(c, cupti, gone);
}

static const char *missing(const struct cupti *cupti, const char **needs)
{
	*needs = "hardware counters need CUDA 12.6 Update 2 or later";
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	RANGE_PROFILER_FUNCTIONS(F)
#undef F
	return NULL;
}

static bool has_contexts(void)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (self.contexts[i].handle)
			return true;
	return false;
}

/* --- rows --- */

static void write_range(struct writer *w, const struct launch *m, struct map *numbers)
{
	bool is_graph = m->range.kind == range_kind_graph;

	for (size_t i = 0; i < m->metrics->set.names.count; i++) {
		struct row_range_value row = {
			.start_ns = m->range.start_ns,
			.end_ns = m->head.end_ns,
			.thread = m->range.thread,
			.kind = m->range.kind,
			.name = rows_text(w, m->range.name),
			.correlation = correlation_widen(m->head.correlation, m->head.end_ns),
			.passes = m->passes,
			.metric = engine_metrics_number(numbers, w, &m->metrics->texts[i]),
			.device = m->metrics->device,
			.domain = m->range.domain,
			.level = (uint8_t)m->range.level,
		};

		memcpy(&row.value, &m->values[i], sizeof(row.value));
		ROW_MISSING_IF(&row, range_value, domain, is_graph);
		ROW_MISSING_IF(&row, range_value, level,
			       is_graph || m->range.level >= NVTX_EVENT_NO_LEVEL);
		ROW_MISSING_IF(&row, range_value, correlation, !m->head.correlation);
		ROW_MISSING_IF(&row, range_value, value, !isfinite(m->values[i]));
		writer_append(w, TABLE_range_value, &row);
	}
}

/*
 * Sets the duration of a measured launch's kernel. CUPTI's record of it has no times, because the
 * kernel ran several times. Collector's thread.
 */
static void set_duration(const struct measured *m, uint64_t ns)
{
	if (ns && ns < m->end_ns &&
	    launch_times_add(LAUNCH_START, m->correlation, m->end_ns - ns) &&
	    !launch_times_add(LAUNCH_END, m->correlation, m->end_ns))
		log_line("no memory for the times of a measured kernel");
}

static void write_launch(struct writer *w, const struct measured *head, struct map *numbers)
{
	const struct launch *m = (const struct launch *)head;
	uint64_t correlation = correlation_widen(head->correlation, head->end_ns);
	size_t duration = m->metrics->duration;

	if (m->range.key) {
		write_range(w, m, numbers);
		return;
	}
	if (duration != SIZE_MAX && m->values[duration] > 0)
		set_duration(head, (uint64_t)m->values[duration]);
	for (size_t i = 0; i < m->metrics->set.names.count; i++) {
		struct row_metric_value row = {
			.correlation = correlation,
			.metric = engine_metrics_number(numbers, w, &m->metrics->texts[i]),
		};

		memcpy(&row.value, &m->values[i], sizeof(row.value));
		ROW_MISSING_IF(&row, metric_value, value, !isfinite(m->values[i]));
		writer_append(w, TABLE_metric_value, &row);
	}
}

const struct launch_engine range_profiler_engine = {
	.engine = SETTING_ENGINE_RANGE_PROFILER,
	.name = ENGINE,
	.missing = missing,
	.start = start,
	.stop = stop,
	.leave_context = leave_context,
	.has_contexts = has_contexts,
	.write = write_launch,
	.state = &self,
	.state_bytes = sizeof(self),
};

#endif
