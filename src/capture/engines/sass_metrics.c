/*
 * sass_metrics.c: the engine that measures the instructions of single launches through CUPTI's SASS
 * metrics: the kernel runs with patched code that counts.
 *
 * All calls are made in callbacks on the launching thread (selected by launch_engine.h), in this
 * order: cuptiSassMetricsSetConfig, once per device and process, because a second call runs out of
 * memory (CUPTI 13.0); before a launch cuCtxSynchronize (a kernel must be patched while none runs)
 * and …Enable, with lazy patching, so that only the launched kernel is patched; after the launch
 * cuCtxSynchronize, …GetDataProperties, …FlushData, and …Disable, which restores the code.
 *
 * If CUPTI records concurrent kernels, all values are 0; if it records no kernels, only the first
 * …Enable of a process counts (H100, CUPTI 13.0). Therefore it records serialized kernels
 * (activity_kinds.c), from before the first context.
 */
#include "base/plural.h"
#include "capture/engines/launch_engine.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/core/capability_notes.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_metrics.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_readings.h"
#include "capture/core/own_work.h"
#include "format/rows.h"

#define ENGINE "sass-metrics"
#define DEVICES_MAX 64u
#define CHOSEN_MAX 32u /* metrics */
#define VALUES_MAX ((size_t)4 << 20) /* of one launch */
#define EMPTY_MAX 3u /* launches in a row in which nothing was counted */
#define NO_METRIC UINT64_MAX
#define EXECUTED "smsp__sass_inst_executed" /* is never 0 */

/*
 * The metrics that the report reads. Chips that lack the last one have …_op_ld_ideal and
 * …_op_st_ideal instead, which are far slower.
 */
#define DEFAULT                                                                                    \
	EXECUTED ",smsp__sass_thread_inst_executed,smsp__sass_thread_inst_executed_pred_on,"       \
		 "smsp__sass_sectors_mem_global,smsp__sass_sectors_mem_global_ideal"

/* The metrics of a device, as requested by the first session that measures on it. */
struct device {
	bool is_made, has_executed;
	unsigned session; /* the last one for which they were noted */
	char requested[OPTION_TEXT_MAX];
	const char *chip;
	struct strbuf left_out;
	size_t count;
	CUpti_SassMetrics_Config configs[CHOSEN_MAX];
	struct metric_texts metrics[CHOSEN_MAX];
};

/* CUPTI's counts of a launch, in its own structures; names come from pc_text(). */
struct launch {
	struct measured head;
	const struct device *device;
	size_t records, stride; /* stride: values per record */
	CUpti_SassMetrics_InstanceValue *values;
	CUpti_SassMetrics_Data data[];
};

static struct {
	/* Accessed only by the thread that owns the engine: */
	const struct device *device; /* the one being measured */
	CUcontext context; /* in which the metrics are enabled; NULL: none */
	struct device devices[DEVICES_MAX];
	unsigned empty; /* launches in a row without counts */
	bool stuck; /* enabled, and cannot be disabled */

	CUresult (*synchronize)(void);
	atomic_uint_fast64_t dropped; /* since the last row of them */
} self;

/* --- metrics --- */

/* Returns false, after making the engine refuse, if the call failed. */
static bool succeeded(const struct cupti *cupti, const char *function, CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		launch_engine_refuse("%s: %s: %s", function, cupti_result_text(cupti, result),
				     engine_advice(result));
	return result == CUPTI_SUCCESS;
}

/* Returns false if the chip lacks the metric, or there is no room for it. */
static bool add_metric(struct device *d, const struct cupti *cupti, const char *name)
{
	CUpti_SassMetrics_GetProperties_Params p =
		PARAMETERS(SassMetrics_GetProperties, .pChipName = d->chip, .pMetricName = name);
	const char *text;

	if (cupti->SassMetricsGetProperties(&p) != CUPTI_SUCCESS)
		return false;
	for (size_t i = 0; i < d->count; i++)
		if (d->configs[i].metricId == p.metric.metricId)
			return true;
	if (d->count == CHOSEN_MAX)
		return false;
	text = p.metric.pMetricDescription;
	d->metrics[d->count] =
		(struct metric_texts){ pc_text(name), "", pc_text(text ? text : "") };
	d->configs[d->count++] =
		(CUpti_SassMetrics_Config){ p.metric.metricId,
					    CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU };
	d->has_executed |= strcmp(name, EXECUTED) == 0;
	return true;
}

/* Adds the metrics of "default,NAME,…" that the chip has. */
static void choose_metrics(struct device *d, const struct cupti *cupti, const char *list,
			   bool is_default)
{
	char names[OPTION_TEXT_MAX + sizeof(DEFAULT)], *end;

	snprintf(names, sizeof(names), "%s", list);
	for (char *name = strtok_r(names, ",", &end); name; name = strtok_r(NULL, ",", &end))
		if (!is_default && strcmp(name, "default") == 0)
			choose_metrics(d, cupti, DEFAULT, true);
		else if (!add_metric(d, cupti, name) && !is_default)
			strbuf_addf(&d->left_out, "%schip %s has no instruction metric '%s'",
				    d->left_out.length ? "; " : "", d->chip, name);
}

static bool configure(struct device *d, const struct cupti *cupti, uint32_t index)
{
	CUpti_Profiler_Initialize_Params initialize = PARAMETERS(Profiler_Initialize, );
	CUpti_SassMetricsSetConfig_Params p =
		PARAMETERS(SassMetricsSetConfig, .pConfigs = d->configs, .deviceIndex = index);
	struct error e = { 0 };

	if (!succeeded(cupti, "cuptiProfilerInitialize", cupti->ProfilerInitialize(&initialize)))
		return false;
	d->chip = profiler_host_chip_of(cupti->handle, index, &e);
	if (!d->chip) {
		launch_engine_refuse("%s", e.text);
		return false;
	}
	d->chip = pc_text(d->chip) ?: "?";
	memcpy(d->requested, launch_engine_metrics(), sizeof(d->requested));
	choose_metrics(d, cupti, d->requested, false);
	p.numOfMetricConfig = d->count;
	if (d->count)
		return succeeded(cupti, "cuptiSassMetricsSetConfig",
				 cupti->SassMetricsSetConfig(&p));
	if (!d->left_out.length)
		strbuf_addf(&d->left_out, "none is known of chip %s", d->chip);
	launch_engine_refuse("no metric of '%s': %s", d->requested, strbuf_text(&d->left_out));
	return false;
}

static void note(struct device *d, uint32_t index)
{
	d->session = launch_engine_session();
	capability_note(feature_engine, capability_state_on, ENGINE, ENGINE,
			"device %u (%s): %zu instruction metric%s; measured kernels run patched "
			"code, so their durations are unknown",
			index, d->chip, d->count, plural(d->count));
	if (strcmp(d->requested, launch_engine_metrics()) != 0)
		capability_note(feature_metrics, capability_state_degraded, ENGINE, ENGINE,
				"CUPTI cannot be configured again in this process, which measures "
				"'%s'",
				d->requested);
	else if (d->left_out.length)
		capability_note(feature_metrics, capability_state_degraded, ENGINE, ENGINE, "%s",
				strbuf_text(&d->left_out));
}

static const struct device *find_device(const struct cupti *cupti, CUcontext context)
{
	uint64_t begun = clock_monotonic_ns();
	uint32_t index = 0;
	struct device *d;

	cupti->GetDeviceId(context, &index);
	d = &self.devices[MIN(index, DEVICES_MAX - 1)];
	if (!d->is_made) {
		d->is_made = configure(d, cupti, index);
		own_work_add(cost_kind_setup, begun, 1);
	}
	if (d->is_made && d->session != launch_engine_session())
		note(d, index);
	return d->is_made ? d : NULL;
}

/* --- a launch --- */

static bool start(const struct cupti *cupti, CUcontext context, const struct marked_range *marked)
{
	CUpti_SassMetricsEnable_Params p =
		PARAMETERS(SassMetricsEnable, .ctx = context, .enableLazyPatching = 1);
	const char *failed = "cuCtxSynchronize";
	CUptiResult result = CUPTI_ERROR_UNKNOWN;

	(void)marked;
	self.device = find_device(cupti, context);
	if (!self.device)
		return false;
	if (self.synchronize() == CUDA_SUCCESS) {
		failed = "cuptiSassMetricsEnable";
		result = cupti->SassMetricsEnable(&p);
	}
	if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES || result == CUPTI_ERROR_NOT_SUPPORTED)
		succeeded(cupti, failed, result);
	else if (result != CUPTI_SUCCESS)
		launch_engine_failed(cupti, failed, (int)result, false);
	self.context = result == CUPTI_SUCCESS ? context : NULL;
	return self.context;
}

/*
 * CUPTI's header can be read in two ways about the room for an instruction's values if there are
 * several metrics: this room suffices for both.
 */
static struct launch *make_room(size_t records, size_t instances)
{
	size_t stride = instances * self.device->count;
	struct launch *l;

	if (records > VALUES_MAX || instances > VALUES_MAX / self.device->count / records)
		return NULL;
	l = calloc(1,
		   sizeof(*l) + records * sizeof(*l->data) + records * stride * sizeof(*l->values));
	if (!l)
		return NULL;
	l->device = self.device;
	l->records = records;
	l->stride = stride;
	l->values = (CUpti_SassMetrics_InstanceValue *)&l->data[records];
	for (size_t i = 0; i < records * stride; i++)
		l->values[i].metricId = NO_METRIC;
	for (size_t i = 0; i < records; i++) {
		l->data[i].structSize = sizeof(*l->data);
		l->data[i].pInstanceValues = &l->values[i * stride];
	}
	return l;
}

/*
 * Replaces CUPTI's names by lasting ones. NVIDIA's sample frees the name of each record; they are
 * freed here only if the first two records have separate copies of one name.
 */
static void keep_names(struct launch *l)
{
	const char *first = l->data[0].functionName,
		   *second = l->records > 1 ? l->data[1].functionName : NULL;
	bool are_ours = first && second && first != second && strcmp(first, second) == 0;
	struct map freed = { 0 };

	for (size_t i = 0; i < l->records; i++) {
		const char *name = l->data[i].functionName;

		l->data[i].functionName = pc_text(name ? name : "");
		if (are_ours && map_add(&freed, (uintptr_t)name) == 1)
			free((char *)(uintptr_t)name);
	}
	map_release(&freed);
}

/* Leaves *out as it is if there are no records. *failed is the function that failed. */
static CUptiResult flush(const struct cupti *cupti, struct launch **out, const char **failed)
{
	CUpti_SassMetricsGetDataProperties_Params p =
		PARAMETERS(SassMetricsGetDataProperties, .ctx = self.context);
	CUpti_SassMetricsFlushData_Params params =
		PARAMETERS(SassMetricsFlushData, .ctx = self.context);
	CUptiResult result = cupti->SassMetricsGetDataProperties(&p);
	struct launch *l;

	*failed = "cuptiSassMetricsGetDataProperties";
	if (result != CUPTI_SUCCESS || !p.numOfPatchedInstructionRecords || !p.numOfInstances)
		return result;
	*failed = "cuptiSassMetricsFlushData";
	l = make_room(p.numOfPatchedInstructionRecords, p.numOfInstances);
	if (!l)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	params.numOfPatchedInstructionRecords = p.numOfPatchedInstructionRecords;
	params.numOfInstances = p.numOfInstances;
	params.pMetricsData = l->data;
	result = cupti->SassMetricsFlushData(&params);
	if (result == CUPTI_SUCCESS) {
		keep_names(l);
		*out = l;
	} else {
		free(l);
	}
	return result;
}

/*
 * Whether CUPTI counted the launch: code that was not patched in time has no records, and values
 * that were not counted are 0. Without EXECUTED, values of 0 may be correct.
 */
static bool has_counts(const struct launch *l)
{
	for (size_t i = 0; l && i < l->records * l->stride; i++)
		if (l->values[i].metricId != NO_METRIC &&
		    (l->values[i].value || !l->device->has_executed))
			return true;
	return false;
}

/* Takes ownership of `l`, which may be NULL. */
static void finish(struct launch *l, bool valid)
{
	if (valid && has_counts(l) && !launch_barrier_was_passed()) {
		self.empty = 0;
		launch_engine_push(&l->head, sizeof(*l) + l->records * sizeof(*l->data) +
						     l->records * l->stride * sizeof(*l->values));
		return;
	}
	launch_engine_count_unmeasured();
	if (valid && !has_counts(l) && ++self.empty == EMPTY_MAX)
		launch_engine_refuse("CUPTI counted no instruction in %u launches in a row: "
				     "start the session before CUDA is initialized",
				     EMPTY_MAX);
	free(l);
}

static void stop(const struct cupti *cupti, bool valid)
{
	CUpti_SassMetricsDisable_Params p = PARAMETERS(SassMetricsDisable, .ctx = self.context);
	const char *failed = "cuCtxSynchronize";
	CUptiResult result = CUPTI_ERROR_UNKNOWN, disabled;
	struct launch *l = NULL;

	if (!self.context)
		return;
	if (self.synchronize() == CUDA_SUCCESS)
		result = flush(cupti, &l, &failed);
	disabled = cupti->SassMetricsDisable(&p);
	self.stuck = disabled != CUPTI_SUCCESS;
	if (self.stuck)
		launch_engine_failed(cupti, "cuptiSassMetricsDisable", (int)disabled, true);
	else if (result != CUPTI_SUCCESS && valid)
		launch_engine_failed(cupti, failed, (int)result, false);
	else
		finish(l, valid);
	if (!self.stuck)
		atomic_fetch_add(&self.dropped, p.numOfDroppedRecords);
	else
		free(l);
	self.context = NULL;
}

static void leave_context(const struct cupti *cupti, CUcontext handle, bool gone)
{
	(void)cupti;
	if (!gone || self.context != handle)
		return;
	self.context = NULL;
	launch_engine_count_unmeasured();
}

static bool has_contexts(void)
{
	return self.stuck;
}

static const char *missing(const struct cupti *cupti, const char **needs)
{
	*needs = "instruction metrics need CUDA 12.6 Update 2 or later";
	*(void **)&self.synchronize = driver_function("cuCtxSynchronize");
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	F(ProfilerInitialize, )
	F(GetCubinCrc, )
	F(ActivityFlushPeriod, )
	SASS_METRICS_FUNCTIONS(F)
#undef F
	return self.synchronize ? NULL : "the driver's cuCtxSynchronize";
}

/* --- rows --- */

static void write_value(struct writer *w, const struct launch *l, struct row_sass_value *row,
			const CUpti_SassMetrics_InstanceValue *value, struct map *numbers)
{
	const struct device *d = l->device;

	for (size_t m = 0; m < d->count; m++) {
		if (d->configs[m].metricId != value->metricId)
			continue;
		row->metric = engine_metrics_number(numbers, w, &d->metrics[m]);
		row->value = value->value;
		writer_append(w, TABLE_sass_value, row);
	}
}

static void write_launch(struct writer *w, const struct measured *head, struct map *numbers)
{
	const struct launch *l = (const struct launch *)head;
	struct row_sass_value row = {
		.time_ns = head->end_ns,
		.correlation = correlation_widen(head->correlation, head->end_ns),
		.device = (uint32_t)(l->device - self.devices),
	};

	for (size_t i = 0; i < l->records; i++) {
		if (!i || row.crc != l->data[i].cubinCrc)
			pc_cubins_need(l->data[i].cubinCrc);
		row.crc = l->data[i].cubinCrc;
		row.function = rows_text(w, l->data[i].functionName);
		row.offset = l->data[i].pcOffset;
		for (size_t k = 0; k < l->stride; k++)
			write_value(w, l, &row, &l->values[i * l->stride + k], numbers);
	}
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	rows_loss(w, loss_reason_gpu_records_dropped, atomic_exchange(&self.dropped, 0), since_ns,
		  now, "values of instructions that CUPTI dropped");
}

const struct launch_engine sass_metrics_engine = {
	.engine = SETTING_ENGINE_SASS_METRICS,
	.name = ENGINE,
	.patches = true,
	.missing = missing,
	.start = start,
	.stop = stop,
	.leave_context = leave_context,
	.has_contexts = has_contexts,
	.write = write_launch,
	.periodic = periodic,
	.state = &self,
	.state_bytes = sizeof(self),
};

#endif
