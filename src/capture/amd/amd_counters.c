#include "capture/amd/amd_counters.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/globs.h"
#include "base/plural.h"
#include "base/strbuf.h"
#include "capture/amd/amd_devices.h"
#include "capture/amd/amd_kernels.h"
#include "capture/amd/amd_sdk.h"
#include "capture/amd/amd_work.h"
#include "capture/core/capability_notes.h"
#include "capture/engines/kernel_choice.h"
#include "format/rows.h"

#define ENGINE "range-profiler"
#define METRICS_MAX 64u /* of all GPUs */
#define INFO_VERSION 0
/* CUPTI's metrics are numbered from 1 in the same recording. */
#define METRIC_ID(index) ((UINT32_C(1) << 30) + (index))

/* Sets of names; what a GPU lacks or cannot count beside the others is left out. */
static const char *const sets[][2] = {
	{ "default", "GRBM_COUNT,GRBM_GUI_ACTIVE,SQ_WAVES,SQ_BUSY_CYCLES,SQ_INSTS_VALU,"
		     "SQ_INSTS_SALU,SQ_INSTS_VMEM_RD,SQ_INSTS_VMEM_WR,SQ_INSTS_LDS" },
	{ "memory", "GRBM_GUI_ACTIVE,FETCH_SIZE,WRITE_SIZE,TCC_HIT_sum,TCC_MISS_sum,"
		    "TCC_EA_RDREQ_sum,TCC_EA_WRREQ_sum,TCC_EA0_RDREQ_sum,TCC_EA0_WRREQ_sum" },
};

static struct {
	const struct amd_sdk *sdk;
	struct metric {
		char *name, *description; /* kept for the life of the process */
	} metrics[METRICS_MAX];
	unsigned metric_count;
	struct gpu {
		uint64_t agent, config; /* config 0: nothing is counted */
		uint64_t counters[METRICS_MAX]; /* by metric; 0: not on this GPU */
	} gpus[AMD_GPUS_MAX];
	unsigned gpu_count;
	struct strbuf left_out;
	const char *refusal; /* why nothing is counted */
	atomic_uint_fast64_t unknown;
	uint64_t written; /* bits of metrics that the recording has; the collector's */
} self;

/* --- while the SDK initializes --- */

/* Returns the number of a counter among the metrics; if it is none, that of the next one. */
static unsigned metric_of(const char *name)
{
	unsigned i = 0;

	while (i < self.metric_count && strcmp(self.metrics[i].name, name) != 0)
		i++;
	return i;
}

static bool add_metric(const struct amd_counter *counter)
{
	struct metric m = { strdup(counter->name),
			    strdup(counter->description ? counter->description : "") };

	if (!m.name || !m.description) {
		free(m.name);
		free(m.description);
		return false;
	}
	self.metrics[self.metric_count++] = m;
	return true;
}

struct search {
	struct gpu *gpu;
	const char *item;
	size_t length;
	bool found, fits;
};

/* The SDK extends the configuration by the counter, or refuses what cannot be counted with it. */
static void add(struct search *s, const struct amd_counter *counter)
{
	unsigned metric = metric_of(counter->name);
	uint64_t id = counter->id, config = s->gpu->config;

	s->found = true;
	if (metric == METRICS_MAX)
		return;
	s->fits |= s->gpu->counters[metric] != 0;
	if (s->gpu->counters[metric] ||
	    self.sdk->create_counter_config(s->gpu->agent, &id, 1, &config) != AMD_SUCCESS ||
	    (metric == self.metric_count && !add_metric(counter)))
		return;
	s->fits = true;
	s->gpu->config = config;
	s->gpu->counters[metric] = id;
}

static int on_counters(uint64_t agent, uint64_t *counters, size_t count, void *data)
{
	struct search *s = data;

	(void)agent;
	for (size_t i = 0; i < count; i++) {
		struct amd_counter counter = { .name = NULL };

		if (self.sdk->query_counter_info(counters[i], INFO_VERSION, &counter) ==
			    AMD_SUCCESS &&
		    counter.name && glob_matches(s->item, s->length, counter.name)) {
			counter.id = counters[i];
			add(s, &counter);
		}
	}
	return AMD_SUCCESS;
}

static const char *set_of(const char *item, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (strlen(sets[i][0]) == length && memcmp(sets[i][0], item, length) == 0)
			return sets[i][1];
	return NULL;
}

/* Of a set, what the GPU has; a name of the user's that it lacks is noted. */
static void add_list(struct gpu *gpu, const char *list, bool is_set)
{
	const char *item, *set;
	size_t length;

	while ((item = globs_next(&list, &length))) {
		struct search s = { .gpu = gpu, .item = item, .length = length };

		if (!length)
			continue;
		set = is_set ? NULL : set_of(item, length);
		if (set) {
			add_list(gpu, set, true);
			continue;
		}
		self.sdk->iterate_agent_supported_counters(gpu->agent, on_counters, &s);
		if (s.fits || (is_set && !s.found))
			continue;
		strbuf_addf(&self.left_out, "%s%.*s: %s", self.left_out.length ? "; " : "",
			    (int)length, item,
			    s.found ? "cannot be counted with the others" : "no such counter");
	}
}

static bool configure_gpus(const char *requested)
{
	bool any = false;

	self.gpu_count = amd_devices_count();
	for (unsigned i = 0; i < self.gpu_count; i++) {
		self.gpus[i].agent = amd_devices_agent(i);
		add_list(&self.gpus[i], requested, false);
		any |= self.gpus[i].config != 0;
	}
	return any;
}

static struct gpu *gpu_of(uint64_t agent)
{
	for (unsigned i = 0; i < self.gpu_count; i++)
		if (self.gpus[i].agent == agent)
			return &self.gpus[i];
	return NULL;
}

/* --- on the threads that launch, or HIP's --- */

static void on_dispatch(struct amd_counted dispatch, uint64_t *config, uint64_t *user, void *data)
{
	const struct gpu *gpu = gpu_of(dispatch.agent);
	const struct amd_kernel *kernel = amd_kernel_find(dispatch.kernel);

	(void)user;
	(void)data;
	if (gpu && gpu->config && kernel_choice_has_name(kernel ? kernel->name : NULL) &&
	    kernel_choice_is_turn())
		*config = gpu->config;
}

/* --- on a thread of the SDK --- */

/* Returns METRICS_MAX if the counter was not asked for. */
static unsigned find_metric(const struct gpu *gpu, uint64_t instance)
{
	uint64_t counter = 0;
	unsigned i = 0;

	if (!gpu || self.sdk->query_record_counter_id(instance, &counter) != AMD_SUCCESS ||
	    !counter)
		return METRICS_MAX;
	while (i < self.metric_count && gpu->counters[i] != counter)
		i++;
	return i < self.metric_count ? i : METRICS_MAX;
}

static void on_values(struct amd_counted dispatch, struct amd_counter_value *values, size_t count,
		      uint64_t user, void *data)
{
	const struct gpu *gpu = gpu_of(dispatch.agent);
	double sums[METRICS_MAX] = { 0 };
	uint64_t has = 0;

	(void)user;
	(void)data;
	for (size_t i = 0; i < count; i++) {
		unsigned metric = find_metric(gpu, values[i].id);

		if (metric == METRICS_MAX) {
			atomic_fetch_add(&self.unknown, 1);
			continue;
		}
		sums[metric] += values[i].value;
		has |= UINT64_C(1) << metric;
	}
	for (unsigned i = 0; i < self.metric_count; i++) {
		struct ring_event event = { .a = dispatch.correlation.internal,
					    .c = i,
					    .kind = RING_HIP_VALUE };

		memcpy(&event.b, &sums[i], sizeof(event.b));
		if (has >> i & 1)
			amd_work_push(&event, 1);
	}
}

/* --- sessions --- */

static const char *refusal_of(const struct settings *wanted)
{
	if (wanted->measure != SETTING_MEASURE_KERNEL)
		return "of AMD's GPUs, only kernels are measured, not ranges or graphs";
	if (*wanted->nvtx_include || *wanted->nvtx_exclude)
		return "ranges of ROCTx do not select what is measured";
	return NULL;
}

/* Returns why nothing can be counted; NULL: *context counts. */
static const char *make_context(const struct settings *wanted, uint64_t *context)
{
	static char text[256];
	const char *refusal = refusal_of(wanted);

	if (refusal)
		return refusal;
	if (amd_lacks_counters()) {
		snprintf(text, sizeof(text), "ROCprofiler-SDK %s lacks %s", amd_version(),
			 amd_lacks_counters());
		return text;
	}
	if (!configure_gpus(wanted->metrics)) {
		snprintf(text, sizeof(text), "no GPU has the counters (%s)",
			 strbuf_text(&self.left_out));
		return text;
	}
	if (self.sdk->create_context(context) == AMD_SUCCESS &&
	    self.sdk->configure_callback_dispatch_counting_service(*context, on_dispatch, NULL,
								   on_values, NULL) == AMD_SUCCESS)
		return NULL;
	*context = 0;
	return "ROCprofiler-SDK refuses to count";
}

uint64_t amd_counters_configure(const struct amd_sdk *sdk)
{
	struct settings wanted = SETTINGS_INIT;
	uint64_t context = 0;

	(void)!settings_read(&wanted, NULL, false, NULL);
	self.sdk = sdk;
	self.refusal = "ROCprofiler-SDK takes counters only when HIP is initialized, and this "
		       "engine was asked for later";
	if (wanted.engine == SETTING_ENGINE_RANGE_PROFILER)
		self.refusal = make_context(&wanted, &context);
	return context;
}

void amd_counters_start(const struct settings *wanted)
{
	if (wanted->engine == SETTING_ENGINE_TRACE)
		return;
	if (wanted->engine != SETTING_ENGINE_RANGE_PROFILER || self.refusal) {
		capability_note(feature_engine, capability_state_unavailable, NULL, "trace", "%s",
				wanted->engine == SETTING_ENGINE_RANGE_PROFILER
					? self.refusal
					: "of AMD's GPUs only --engine range-profiler measures");
		return;
	}
	kernel_choice_set(wanted);
	capability_note(feature_engine, capability_state_on, ENGINE, ENGINE,
			"%u counter%s of AMD's GPUs, in one pass; kernels run one after the other",
			self.metric_count, plural(self.metric_count));
	if (self.left_out.length)
		capability_note(feature_metrics, capability_state_degraded, ENGINE, ENGINE, "%s",
				strbuf_text(&self.left_out));
}

/* --- the collector's thread --- */

void amd_counters_begin(void)
{
	self.written = 0;
}

uint64_t amd_counters_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct row_metric_value row = { .correlation = event->a, .metric = METRIC_ID(event->c) };

	if (event->c >= self.metric_count)
		return 1;
	if (!(self.written >> event->c & 1)) {
		struct row_metric metric = {
			.id = METRIC_ID(event->c),
			.name = rows_text(w, self.metrics[event->c].name),
			.unit = rows_text(w, ""),
			.description = rows_text(w, self.metrics[event->c].description),
		};

		writer_append(w, TABLE_metric, &metric);
		self.written |= UINT64_C(1) << event->c;
	}
	memcpy(&row.value, &event->b, sizeof(row.value));
	writer_append(w, TABLE_metric_value, &row);
	return 1;
}

uint64_t amd_counters_unknown(void)
{
	return atomic_load(&self.unknown);
}
