/*
 * sass_metrics.c: what the instructions of single launches do, through CUPTI's SASS metrics: the kernel runs with patched code that counts.
 *
 * The order of the calls, all in callbacks on the launching thread (launch_engine.h says which): cuptiSassMetricsSetConfig once for a
 * device and for ever, since a second one has no memory (CUPTI 13.0); before a launch cuCtxSynchronize (a kernel is patched while none
 * runs) and …Enable, lazily, so that nothing but what is launched is patched; after it cuCtxSynchronize, …GetDataProperties, …FlushData,
 * and …Disable, which puts the code back.
 *
 * Beside records of kernels that run at the same time all values are 0, and without records of kernels only the first …Enable of a process
 * counts (H100, CUPTI 13.0). So records are of kernels that run one after the other (activity_kinds.c), from before the first context.
 */
#include "capture/engines/launch_engine.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/capability_notes.h"
#include "capture/cuda/correlation.h"
#include "capture/engines/engine_metrics.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_readings.h"
#include "capture/engines/pc_rows.h"
#include "format/rows.h"

#define ENGINE "sass-metrics"
#define DEVICES_MAX 64u
#define CHOSEN_MAX 32u /* metrics */
#define VALUES_MAX ((size_t)4 << 20) /* of one launch */
#define EMPTY_MAX 3u /* launches one after the other in which nothing was counted */
#define NO_METRIC UINT64_MAX
#define EXECUTED "smsp__sass_inst_executed" /* is 0 in no kernel */

/* What the report reads. On chips that lack the last, …_op_ld_ideal and …_op_st_ideal have it, which are far slower. */
#define DEFAULT                                                                                    \
	EXECUTED ",smsp__sass_thread_inst_executed,smsp__sass_thread_inst_executed_pred_on,"       \
		 "smsp__sass_sectors_mem_global,smsp__sass_sectors_mem_global_ideal"

/* The metrics of a device: those of the first session that measures on it. Never freed. */
struct device {
	bool is_made, has_executed;
	unsigned session; /* that was told of it */
	char requested[OPTION_TEXT_MAX], chip[32];
	struct strbuf left_out;
	size_t count;
	CUpti_SassMetrics_Config configs[CHOSEN_MAX];
	struct metric_texts metrics[CHOSEN_MAX];
};

struct sass_item {
	uint32_t crc, metric; /* of the device's */
	uint64_t offset, value;
	const char *function; /* of pc_text() */
};

struct launch {
	struct measured head;
	uint32_t device;
	size_t count;
	struct sass_item items[];
};

static struct {
	/* Of the thread that has claimed the engine. */
	const struct device *device; /* that is measured */
	CUcontext context; /* it is enabled in; NULL: in none */
	struct device devices[DEVICES_MAX];
	unsigned empty;

	CUresult (*synchronize)(void);
	bool stuck; /* enabled, and cannot be disabled */
	atomic_uint_fast64_t dropped;

	/* The collector's: */
	struct map numbers; /* of metrics in this recording, by address */
	uint64_t dropped_reported;
} self;

/* --- metrics --- */

/* false: the engine has refused. */
static bool succeeded(const struct cupti *cupti, const char *function, CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		launch_engine_refuse("%s: %s: %s", function, cupti_result_text(cupti, result),
				     engine_advice(result));
	return result == CUPTI_SUCCESS;
}

static void explain(struct device *d, const CUpti_SassMetrics_MetricDetails *all, size_t count,
		    const char *name)
{
	_cleanup_free_ const char **known = calloc(count + 1, sizeof(*known));
	const char *nearest;

	for (size_t i = 0; known && i < count; i++)
		known[i] = all[i].pMetricName;
	nearest = known ? options_nearest(name, known) : NULL;
	strbuf_addf(&d->left_out, "%schip %s has no metric '%s' of instructions",
		    d->left_out.length ? "; " : "", d->chip, name);
	if (nearest)
		strbuf_addf(&d->left_out, "; did you mean '%s'?", nearest);
}

static void add_metric(struct device *d, const CUpti_SassMetrics_MetricDetails *m)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->configs[i].metricId == m->metricId)
			return;
	if (d->count == CHOSEN_MAX)
		return;
	d->metrics[d->count] = (struct metric_texts){ pc_text(m->pMetricName), "",
						      pc_text(m->pMetricDescription ?: "") };
	d->configs[d->count++] =
		(CUpti_SassMetrics_Config){ m->metricId,
					    CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU };
	d->has_executed |= strcmp(m->pMetricName, EXECUTED) == 0;
}

/* The metrics of "default,NAME,…" that the chip has; of names that it has not, why they are left out. */
static void choose_metrics(struct device *d, const CUpti_SassMetrics_MetricDetails *all,
			   size_t count, char *names, bool is_default)
{
	char *end;

	for (char *name = strtok_r(names, ",", &end); name; name = strtok_r(NULL, ",", &end)) {
		char defaults[] = DEFAULT;
		size_t i = 0;

		while (i < count && (!all[i].pMetricName || strcmp(all[i].pMetricName, name) != 0))
			i++;
		if (!is_default && strcmp(name, "default") == 0)
			choose_metrics(d, all, count, defaults, true);
		else if (i < count)
			add_metric(d, &all[i]);
		else if (!is_default)
			explain(d, all, count, name);
	}
}

static bool find_metrics(struct device *d, const struct cupti *cupti)
{
	CUpti_SassMetrics_GetNumOfMetrics_Params n =
		PARAMETERS(SassMetrics_GetNumOfMetrics, .pChipName = d->chip);
	CUpti_SassMetrics_GetMetrics_Params p =
		PARAMETERS(SassMetrics_GetMetrics, .pChipName = d->chip);
	_cleanup_free_ CUpti_SassMetrics_MetricDetails *all = NULL;
	char names[OPTION_TEXT_MAX];

	if (!succeeded(cupti, "cuptiSassMetricsGetNumOfMetrics",
		       cupti->SassMetricsGetNumOfMetrics(&n)))
		return false;
	p.numOfMetrics = MIN(n.numOfMetrics, (size_t)1 << 16);
	p.pMetricsList = all = calloc(p.numOfMetrics + 1, sizeof(*all));
	if (!succeeded(cupti, "cuptiSassMetricsGetMetrics",
		       all ? cupti->SassMetricsGetMetrics(&p) : CUPTI_ERROR_OUT_OF_MEMORY))
		return false;
	memcpy(names, d->requested, sizeof(names));
	choose_metrics(d, all, p.numOfMetrics, names, false);
	if (!d->count)
		launch_engine_refuse("no metric of '%s': %s", d->requested,
				     strbuf_text(&d->left_out));
	return d->count;
}

static bool configure(struct device *d, const struct cupti *cupti, uint32_t index)
{
	CUpti_Profiler_Initialize_Params initialize = PARAMETERS(Profiler_Initialize, );
	CUpti_SassMetricsSetConfig_Params p =
		PARAMETERS(SassMetricsSetConfig, .pConfigs = d->configs, .deviceIndex = index);
	struct error e = { 0 };
	const char *chip;

	if (!succeeded(cupti, "cuptiProfilerInitialize", cupti->ProfilerInitialize(&initialize)))
		return false;
	chip = profiler_host_chip_of(cupti->handle, index, &e);
	if (!chip) {
		launch_engine_refuse("%s", e.text);
		return false;
	}
	snprintf(d->chip, sizeof(d->chip), "%s", chip);
	memcpy(d->requested, launch_engine_metrics(), sizeof(d->requested));
	if (!find_metrics(d, cupti))
		return false;
	p.numOfMetricConfig = d->count;
	return succeeded(cupti, "cuptiSassMetricsSetConfig", cupti->SassMetricsSetConfig(&p));
}

static void note(struct device *d, uint32_t index)
{
	d->session = launch_engine_session();
	capability_note("engine", capability_state_on, ENGINE, ENGINE,
			"device %u (%s): %zu metric%s of instructions; kernels that are measured "
			"run with patched code, so that their own times are not known",
			index, d->chip, d->count, d->count == 1 ? "" : "s");
	if (strcmp(d->requested, launch_engine_metrics()) != 0)
		capability_note("metrics", capability_state_degraded, ENGINE, ENGINE,
				"CUPTI cannot be configured again in this process, which measures "
				"'%s'",
				d->requested);
	else if (d->left_out.length)
		capability_note("metrics", capability_state_degraded, ENGINE, ENGINE, "%s",
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
		launch_engine_count_setup(clock_monotonic_ns() - begun);
	}
	if (d->is_made && d->session != launch_engine_session())
		note(d, index);
	return d->is_made ? d : NULL;
}

/* --- a launch --- */

static bool start(const struct cupti *cupti, const CUpti_CallbackData *data)
{
	CUpti_SassMetricsEnable_Params p =
		PARAMETERS(SassMetricsEnable, .ctx = data->context, .enableLazyPatching = 1);
	const struct device *d = find_device(cupti, data->context);
	const char *failed = "cuCtxSynchronize";
	CUptiResult result = CUPTI_ERROR_UNKNOWN;

	if (!d)
		return false;
	if (self.synchronize() == CUDA_SUCCESS) {
		failed = "cuptiSassMetricsEnable";
		result = cupti->SassMetricsEnable(&p);
	}
	if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES || result == CUPTI_ERROR_NOT_SUPPORTED)
		succeeded(cupti, failed, result);
	else if (result != CUPTI_SUCCESS)
		launch_engine_failed(cupti, failed, (int)result, false);
	self.device = d;
	self.context = result == CUPTI_SUCCESS ? data->context : NULL;
	return self.context;
}

/* What CUPTI has counted, in its own structures. */
struct flushed {
	size_t records, stride;
	CUpti_SassMetrics_Data *data;
	CUpti_SassMetrics_InstanceValue *values;
};

/* What the header says of the room of an instruction's values can be read in two ways where there are several metrics: it suffices for both. */
static bool make_room(struct flushed *f, size_t records, size_t instances)
{
	if (records > VALUES_MAX || instances > VALUES_MAX / self.device->count / records)
		return false;
	f->stride = instances * self.device->count;
	f->data = calloc(records, sizeof(*f->data));
	f->values = calloc(records * f->stride, sizeof(*f->values));
	if (!f->data || !f->values)
		return false;
	for (size_t i = 0; i < records * f->stride; i++)
		f->values[i].metricId = NO_METRIC;
	for (size_t i = 0; i < records; i++) {
		f->data[i].structSize = sizeof(*f->data);
		f->data[i].pInstanceValues = &f->values[i * f->stride];
	}
	return true;
}

static CUptiResult flush(const struct cupti *cupti, struct flushed *f, const char **failed)
{
	CUpti_SassMetricsGetDataProperties_Params p =
		PARAMETERS(SassMetricsGetDataProperties, .ctx = self.context);
	CUpti_SassMetricsFlushData_Params params =
		PARAMETERS(SassMetricsFlushData, .ctx = self.context);
	CUptiResult result = cupti->SassMetricsGetDataProperties(&p);

	*failed = "cuptiSassMetricsGetDataProperties";
	if (result != CUPTI_SUCCESS || !p.numOfPatchedInstructionRecords || !p.numOfInstances)
		return result;
	*failed = "cuptiSassMetricsFlushData";
	if (!make_room(f, p.numOfPatchedInstructionRecords, p.numOfInstances))
		return CUPTI_ERROR_OUT_OF_MEMORY;
	params.numOfPatchedInstructionRecords = p.numOfPatchedInstructionRecords;
	params.numOfInstances = p.numOfInstances;
	params.pMetricsData = f->data;
	result = cupti->SassMetricsFlushData(&params);
	if (result == CUPTI_SUCCESS)
		f->records = p.numOfPatchedInstructionRecords;
	return result;
}

/* The items of a record. Returns how many. */
static size_t copy(const struct flushed *f, size_t record, struct sass_item *out)
{
	const CUpti_SassMetrics_Data *data = &f->data[record];
	const char *function = pc_text(data->functionName ? data->functionName : "");
	size_t count = 0;

	for (size_t i = 0; i < f->stride && function; i++)
		for (uint32_t m = 0; m < self.device->count; m++)
			if (self.device->configs[m].metricId == data->pInstanceValues[i].metricId)
				out[count++] =
					(struct sass_item){ data->cubinCrc, m, data->pcOffset,
							    data->pInstanceValues[i].value,
							    function };
	return count;
}

static void push(const struct flushed *f)
{
	size_t bytes = sizeof(struct launch) + f->records * f->stride * sizeof(struct sass_item);
	struct launch *l = malloc(bytes);

	if (l) {
		l->device = (uint32_t)(self.device - self.devices);
		l->count = 0;
		for (size_t i = 0; i < f->records; i++)
			l->count += copy(f, i, &l->items[l->count]);
	}
	launch_engine_push(l ? &l->head : NULL, bytes);
}

/* NVIDIA's sample frees the name of each record. They are freed where records of one function have names of their own. */
static void release(struct flushed *f)
{
	const char *first = f->records > 1 ? f->data[0].functionName : NULL,
		   *second = f->records > 1 ? f->data[1].functionName : NULL;
	struct map freed = { 0 };

	if (first && second && first != second && strcmp(first, second) == 0)
		for (size_t i = 0; i < f->records; i++)
			if (map_add(&freed, (uintptr_t)f->data[i].functionName) == 1)
				free((char *)(uintptr_t)f->data[i].functionName);
	map_release(&freed);
	free(f->data);
	free(f->values);
}

/* Code that was not patched in time has no records, and what CUPTI does not count has values of 0. */
static bool has_counts(const struct flushed *f)
{
	for (size_t i = 0; i < f->records * f->stride; i++)
		if (f->values[i].metricId != NO_METRIC &&
		    (f->values[i].value || !self.device->has_executed))
			return true;
	return false;
}

static void finish(const struct flushed *f, bool valid)
{
	if (!valid || launch_engine_is_disturbed()) {
		launch_engine_count_unmeasured();
	} else if (has_counts(f)) {
		self.empty = 0;
		push(f);
	} else {
		launch_engine_count_unmeasured();
		if (++self.empty == EMPTY_MAX)
			launch_engine_refuse("CUPTI counted no instruction in %u launches one "
					     "after the other: start the session before CUDA is "
					     "initialized",
					     EMPTY_MAX);
	}
}

static void stop(const struct cupti *cupti, bool valid)
{
	CUpti_SassMetricsDisable_Params p = PARAMETERS(SassMetricsDisable, .ctx = self.context);
	const char *failed = "cuCtxSynchronize";
	CUptiResult result = CUPTI_ERROR_UNKNOWN, disabled;
	struct flushed f = { 0 };

	if (!self.context)
		return;
	if (self.synchronize() == CUDA_SUCCESS)
		result = flush(cupti, &f, &failed);
	disabled = cupti->SassMetricsDisable(&p);
	self.stuck = disabled != CUPTI_SUCCESS;
	if (self.stuck && result == CUPTI_SUCCESS) {
		failed = "cuptiSassMetricsDisable";
		result = disabled;
	}
	if (result != CUPTI_SUCCESS && (valid || self.stuck))
		launch_engine_failed(cupti, failed, (int)result, self.stuck);
	else
		finish(&f, valid && result == CUPTI_SUCCESS);
	if (!self.stuck && valid)
		atomic_fetch_add(&self.dropped, p.numOfDroppedRecords);
	release(&f);
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
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	*needs = "metrics of instructions need CUDA 12.6 Update 2 or later";
	if (driver)
		*(void **)&self.synchronize = dlsym(driver, "cuCtxSynchronize");
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	F(ProfilerInitialize, )
	F(GetCubinCrc, )
	SASS_METRICS_FUNCTIONS(F)
#undef F
	return self.synchronize ? NULL : "the driver's cuCtxSynchronize";
}

/* --- rows --- */

static void begin(void)
{
	map_clear(&self.numbers);
}

static void write_launch(struct writer *w, const struct measured *head)
{
	const struct launch *l = (const struct launch *)head;
	struct row_sass_value row = {
		.time_ns = head->end_ns,
		.correlation = correlation_widen(head->correlation, head->end_ns),
		.device = l->device,
	};

	for (size_t i = 0; i < l->count; i++) {
		const struct sass_item *item = &l->items[i];

		row.crc = pc_cubins_widen(item->crc);
		row.function = rows_text(w, item->function);
		row.offset = item->offset;
		row.metric = engine_metrics_number(&self.numbers, w,
						   &self.devices[l->device].metrics[item->metric]);
		row.value = item->value;
		writer_append(w, TABLE_sass_value, &row);
		pc_rows_need(row.crc);
	}
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	rows_loss_more(w, loss_reason_cupti_dropped, atomic_load(&self.dropped),
		       &self.dropped_reported, since_ns, now,
		       "values of instructions that CUPTI dropped");
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
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
	.begin = begin,
	.write = write_launch,
	.periodic = periodic,
	.after_fork = after_fork,
};

#endif
