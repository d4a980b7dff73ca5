/*
 * The profiler host API and the range profiler of the stand-in libcupti.so.13, with the rules of
 * their headers: parameter sizes, the order of calls, images made by the right call. A call that
 * breaks a rule returns an error. A call that would do harm on a GPU ends the process: on another
 * thread than the launch's, for a destroyed context, or after the destructors of the library that
 * cuptiProfilerHostInitialize loads have run.
 *
 * Measured values are known: launch__correlation.sum is the correlation id of the call,
 * gpu__time_duration.sum 1,000 ns and its number, sm__cycles_active.avg the length of the kernel's
 * name; l1tex__t_sector_hit_rate.pct is not a number. For a named range they are the
 * number of launches in its last pass, 1,000 ns and the number of passes, and the length of its
 * name. If the tape has values of a GPU, a launch has those that it had there, and the metrics and
 * their passes are the tape's, but for the lists of all metrics.
 */
#include "delivery.h"
#include "standin_cupti.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#define CONTEXTS_MAX 8
#define METRICS 16
#define RANGES_MAX 16
#define CONFIG_MAGIC 0x6d666350u
#define IMAGE_MAGIC 0x64746350u

#define FAULT(function)                                                                            \
	do {                                                                                       \
		int forced_;                                                                       \
		if (standin_fault(function, &forced_))                                             \
			return (CUptiResult)forced_;                                               \
	} while (0)
#define CHECK_SIZE(p, type)                                                                        \
	do {                                                                                       \
		if ((p)->structSize != type##_STRUCT_SIZE || (p)->pPriv)                           \
			return CUPTI_ERROR_INVALID_PARAMETER;                                      \
	} while (0)

static const char *const chips[] = { "AD102", "GH100" };

static const char *const counter_subs[] = { ".avg", ".avg.per_second", ".max", ".sum" };
static const char *const ratio_subs[] = { ".pct", ".ratio" };
static const char *const throughput_subs[] = { ".avg.pct_of_peak_sustained_elapsed" };

static const struct metric {
	const char *name;
	CUpti_MetricType type;
	const char *unit, *hardware, *description;
	size_t passes;
} metrics[] = {
	{ "sm__cycles_active", CUPTI_METRIC_TYPE_COUNTER, "cycle", "sm", "# of cycles with warps",
	  1 },
	{ "gpu__time_duration", CUPTI_METRIC_TYPE_COUNTER, "nanosecond", "gpu", "time", 1 },
	{ "launch__correlation", CUPTI_METRIC_TYPE_COUNTER, "", "gpu", "id of the call", 1 },
	{ "dram__bytes_read", CUPTI_METRIC_TYPE_COUNTER, "byte", "dram", "# of bytes read", 2 },
	{ "sm__warps_active", CUPTI_METRIC_TYPE_COUNTER, "warp", "sm", "# of warps", 1 },
	{ "CTC.TriageCompute.ctc__rx", CUPTI_METRIC_TYPE_COUNTER, "byte", "ctc", "dots", 1 },
	{ "l1tex__t_sector_hit_rate", CUPTI_METRIC_TYPE_RATIO, "", "l1tex", "hits", 1 },
	{ "sm__throughput", CUPTI_METRIC_TYPE_THROUGHPUT, "percent", "sm", "how busy", 4 },
};

struct CUpti_Profiler_Host_Object {
	bool live, samples;
	uint32_t count, chosen[METRICS]; /* metric * 8 + submetric */
	uint64_t names; /* hash of the chosen names, as tapes have it */
};

struct config {
	uint32_t magic, samples, count, chosen[METRICS];
	uint64_t names;
};

struct image {
	uint32_t magic, capacity, count;
	struct config config; /* of its ranges */
	struct range {
		uint32_t correlation, number;
		char symbol[256];
	} ranges[RANGES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_taped(void)
{
	return standin_answers(TAPE_cuptiProfilerHostConfigAddMetrics);
}

/* --- the profiler host --- */

static const char *const *subs_of(const struct metric *m, size_t *count)
{
	switch ((int)m->type) {
	case CUPTI_METRIC_TYPE_COUNTER:
		*count = ARRAY_SIZE(counter_subs);
		return counter_subs;
	case CUPTI_METRIC_TYPE_RATIO:
		*count = ARRAY_SIZE(ratio_subs);
		return ratio_subs;
	default:
		*count = ARRAY_SIZE(throughput_subs);
		return throughput_subs;
	}
}

/* Returns the metric; *sub is its submetric, or -1 for a base metric. */
static const struct metric *find_metric(const char *name, int *sub)
{
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		size_t length = strlen(metrics[i].name), count;
		const char *const *subs = subs_of(&metrics[i], &count);

		if (strncmp(metrics[i].name, name, length) != 0)
			continue;
		*sub = -1;
		if (!name[length])
			return &metrics[i];
		for (size_t k = 0; k < count; k++)
			if (strcmp(subs[k], name + length) == 0) {
				*sub = (int)k;
				return &metrics[i];
			}
	}
	return NULL;
}

EXPORT CUptiResult
cuptiProfilerHostGetSupportedChips(CUpti_Profiler_Host_GetSupportedChips_Params *p)
{
	CHECK_SIZE(p, CUpti_Profiler_Host_GetSupportedChips_Params);
	p->numChips = ARRAY_SIZE(chips);
	p->ppChipNames = chips;
	return CUPTI_SUCCESS;
}

/* Returns NULL if the tape has none. */
static const char *taped_chip(void)
{
	static char chip[64];
	struct tape_call answer;

	if (!standin_answer(TAPE_cuptiDeviceGetChipName, NULL, 0, &answer) || answer.result)
		return NULL;
	snprintf(chip, sizeof(chip), "%.*s", (int)answer.output_length,
		 (const char *)answer.output);
	return chip;
}

EXPORT CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p)
{
	FAULT(STANDIN_DeviceGetChipName);
	CHECK_SIZE(p, CUpti_Device_GetChipName_Params);
	p->pChipName = taped_chip() ?: "GH100";
	return CUPTI_SUCCESS;
}

static bool unloaded;

static void unload(void)
{
	unloaded = true;
}

EXPORT CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *p)
{
	static bool loaded;

	if (!loaded) /* first of all libnvperf_host is loaded */
		atexit(unload);
	loaded = true;
	FAULT(STANDIN_ProfilerHostInitialize);
	CHECK_SIZE(p, CUpti_Profiler_Host_Initialize_Params);
	if (p->profilerType >= CUPTI_PROFILER_TYPE_PROFILER_INVALID || !p->pChipName)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < ARRAY_SIZE(chips); i++)
		if (strcmp(chips[i], p->pChipName) == 0 ||
		    (taped_chip() && strcmp(taped_chip(), p->pChipName) == 0)) {
			p->pHostObject = calloc(1, sizeof(*p->pHostObject));
			p->pHostObject->live = true;
			p->pHostObject->samples =
				p->profilerType == CUPTI_PROFILER_TYPE_PM_SAMPLING;
			return CUPTI_SUCCESS;
		}
	return CUPTI_ERROR_INVALID_CHIP_NAME;
}

EXPORT CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *p)
{
	CHECK_SIZE(p, CUpti_Profiler_Host_Deinitialize_Params);
	if (!p->pHostObject || !p->pHostObject->live)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->pHostObject->live = false;
	free(p->pHostObject);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *p)
{
	static const char *names[ARRAY_SIZE(metrics)]; /* of the last call */

	CHECK_SIZE(p, CUpti_Profiler_Host_GetBaseMetrics_Params);
	p->numMetrics = 0;
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		if (metrics[i].type == p->metricType)
			names[p->numMetrics++] = metrics[i].name;
	p->ppMetricNames = names;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params *p)
{
	const struct metric *m;
	int sub;

	CHECK_SIZE(p, CUpti_Profiler_Host_GetSubMetrics_Params);
	m = find_metric(p->pMetricName, &sub);
	if (!m || m->type != p->metricType)
		return CUPTI_ERROR_INVALID_METRIC_NAME;
	p->ppSubMetrics = (const char **)(uintptr_t)subs_of(m, &p->numOfSubmetrics);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiProfilerHostGetMetricProperties(CUpti_Profiler_Host_GetMetricProperties_Params *p)
{
	uint64_t name = tape_hash_names(&p->pMetricName, 1);
	const struct metric *m;
	struct tape_call answer;
	int sub;

	CHECK_SIZE(p, CUpti_Profiler_Host_GetMetricProperties_Params);
	if (standin_answer(TAPE_cuptiProfilerHostGetMetricProperties, &name, 1, &answer) &&
	    !answer.result) {
		struct cursor c = cursor_of(answer.output, answer.output_length);

		p->pDescription = standin_keep_text(&c);
		p->pHwUnit = standin_keep_text(&c);
		p->pDimUnit = standin_keep_text(&c);
		p->metricType = (CUpti_MetricType)cursor_varint(&c);
		return CUPTI_SUCCESS;
	}
	m = find_metric(p->pMetricName, &sub);
	if (!m)
		return CUPTI_ERROR_INVALID_METRIC_NAME;
	p->pDescription = m->description;
	p->pHwUnit = m->hardware;
	p->pDimUnit = m->unit;
	p->metricType = m->type;
	return CUPTI_SUCCESS;
}

/* The GPU's answers about each of the names. */
static CUptiResult add_taped(CUpti_Profiler_Host_Object *o, const char *const *names, size_t count)
{
	struct tape_call answer;

	for (size_t i = 0; i < count; i++) {
		uint64_t name = tape_hash_names(&names[i], 1);

		if (!standin_answer(TAPE_cuptiProfilerHostConfigAddMetrics, &name, 1, &answer))
			return CUPTI_ERROR_INVALID_PARAMETER;
		if (answer.result)
			return (CUptiResult)answer.result;
	}
	o->count = 1;
	o->names = tape_hash_names(names, count);
	return CUPTI_SUCCESS;
}

/* One invalid name, and none is added. */
EXPORT CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *p)
{
	CUpti_Profiler_Host_Object *o = p->pHostObject;

	FAULT(STANDIN_ProfilerHostConfigAddMetrics);
	CHECK_SIZE(p, CUpti_Profiler_Host_ConfigAddMetrics_Params);
	if (is_taped())
		return add_taped(o, p->ppMetricNames, p->numMetrics);
	for (size_t i = 0; i < p->numMetrics; i++) {
		int sub;
		const struct metric *m = find_metric(p->ppMetricNames[i], &sub);

		if (!m || sub < 0 || o->count == METRICS) {
			o->count = 0;
			return CUPTI_ERROR_INVALID_PARAMETER;
		}
		o->chosen[o->count++] = (uint32_t)(m - metrics) * 8 + (uint32_t)sub;
	}
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *p)
{
	CHECK_SIZE(p, CUpti_Profiler_Host_GetConfigImageSize_Params);
	if (!p->pHostObject->count)
		return CUPTI_ERROR_UNKNOWN;
	p->configImageSize = sizeof(struct config);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *p)
{
	struct config config = { CONFIG_MAGIC,
				 p->pHostObject->samples,
				 p->pHostObject->count,
				 { 0 },
				 p->pHostObject->names };

	CHECK_SIZE(p, CUpti_Profiler_Host_GetConfigImage_Params);
	if (p->configImageSize < sizeof(config))
		return CUPTI_ERROR_INVALID_PARAMETER;
	memcpy(config.chosen, p->pHostObject->chosen, sizeof(config.chosen));
	memcpy(p->pConfigImage, &config, sizeof(config));
	return CUPTI_SUCCESS;
}

/* A pass of samples has room for four metrics. */
static size_t passes_of(const struct config *config)
{
	size_t passes = config->samples && config->count > 4 ? 2 : 0;
	struct tape_call answer;

	if (standin_faults()->passes)
		return (size_t)standin_faults()->passes;
	if (is_taped())
		return standin_answer(TAPE_cuptiProfilerHostGetNumOfPasses, &config->names, 1,
				      &answer) &&
				       !answer.result
			       ? load_u64(answer.output)
			       : 1;
	for (size_t i = 0; i < config->count; i++)
		passes = MAX(passes, metrics[config->chosen[i] / 8].passes);
	return passes;
}

EXPORT CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p)
{
	struct config config;

	CHECK_SIZE(p, CUpti_Profiler_Host_GetNumOfPasses_Params);
	if (p->configImageSize != sizeof(config))
		return CUPTI_ERROR_INVALID_PARAMETER;
	memcpy(&config, p->pConfigImage, sizeof(config));
	p->numOfPasses = passes_of(&config);
	return CUPTI_SUCCESS;
}

bool range_profiler_is_config(const uint8_t *bytes, size_t size)
{
	struct config config;

	if (size != sizeof(config))
		return false;
	memcpy(&config, bytes, sizeof(config));
	return config.magic == CONFIG_MAGIC && config.samples && passes_of(&config) == 1;
}

static double value_of(const struct metric *m, const struct range *r)
{
	if (strcmp(m->name, "launch__correlation") == 0)
		return r->correlation;
	if (strcmp(m->name, "gpu__time_duration") == 0)
		return 1000 + r->number;
	if (strcmp(m->name, "sm__cycles_active") == 0)
		return (double)strlen(r->symbol);
	return strcmp(m->name, "l1tex__t_sector_hit_rate") == 0 ? (double)NAN : 0.5;
}

/* The values that the GPU had for the launch that is played. */
static CUptiResult evaluate_taped(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
	uint64_t names = tape_hash_names(p->ppMetricNames, p->numMetrics);
	struct tape_call answer;

	if (!standin_answer_here(TAPE_cuptiProfilerHostEvaluateToGpuValues, &names, 1, &answer) ||
	    answer.output_length != p->numMetrics * sizeof(*p->pMetricValues))
		return CUPTI_ERROR_INVALID_PARAMETER;
	memcpy(p->pMetricValues, answer.output, answer.output_length);
	return (CUptiResult)answer.result;
}

EXPORT CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
	const struct image *image = (const struct image *)(const void *)p->pCounterDataImage;

	FAULT(STANDIN_ProfilerHostEvaluateToGpuValues);
	if (unloaded) {
		fprintf(stderr, "stand-in: values after the end of libnvperf_host\n");
		abort();
	}
	CHECK_SIZE(p, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
	if (p->pHostObject->samples)
		return pm_sampling_values(p->pCounterDataImage, p->counterDataImageSize,
					  p->rangeIndex, p->ppMetricNames, p->numMetrics,
					  p->pMetricValues)
			       ? CUPTI_SUCCESS
			       : CUPTI_ERROR_INVALID_PARAMETER;
	if (p->counterDataImageSize < sizeof(*image) || image->magic != IMAGE_MAGIC ||
	    p->rangeIndex >= image->count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (is_taped())
		return evaluate_taped(p);
	for (size_t i = 0; i < p->numMetrics; i++) {
		int sub;
		const struct metric *m = find_metric(p->ppMetricNames[i], &sub);
		bool collected = false;

		for (size_t k = 0; m && k < image->config.count; k++)
			collected |= image->config.chosen[k] ==
				     (uint32_t)(m - metrics) * 8 + (uint32_t)sub;
		if (!collected)
			return CUPTI_ERROR_INVALID_METRIC_NAME;
		p->pMetricValues[i] = value_of(m, &image->ranges[p->rangeIndex]);
	}
	return CUPTI_SUCCESS;
}

/* --- the range profiler --- */

static pthread_mutex_t *lock_objects(void)
{
	pthread_mutex_lock(&lock);
	return &lock;
}

static void unlock_objects(pthread_mutex_t **locked)
{
	pthread_mutex_unlock(*locked);
}

/* Ranges of the program begin and end on other threads than launches. */
#define LOCKED                                                                                     \
	pthread_mutex_t *locked_ __attribute__((cleanup(unlock_objects), unused)) = lock_objects()

struct CUpti_RangeProfiler_Object {
	CUcontext context; /* NULL: free */
	bool gone, configured, started, stopped, hopeless; /* stopping failed */
	/* of ranges with names: there is one; it is pushed; how many passes it has had */
	bool marked, pushed, was_marked, was_automatic;
	size_t passes;
	size_t most; /* ranges */
	struct config config;
	struct image *image;
	uint32_t pending; /* ranges measured but not decoded */
	struct range ranges[RANGES_MAX];
};

static CUpti_RangeProfiler_Object objects[CONTEXTS_MAX];
bool standin_profiler_initialized;
static uint32_t launches;

static void no_harm(bool harmless, const char *what)
{
	if (harmless)
		return;
	fprintf(stderr, "stand-in: range profiler: %s\n", what);
	abort();
}

/* Whether it is an enabled object. */
static bool is_object(const CUpti_RangeProfiler_Object *o)
{
	bool known = o >= objects && o < objects + CONTEXTS_MAX && o->context;

	if (known)
		no_harm(!o->gone, "a call for a context that is gone");
	return known;
}

static void add_range(CUpti_RangeProfiler_Object *o, uint32_t correlation, const char *symbol)
{
	struct range *r = &o->ranges[o->pending];

	if (o->pending == RANGES_MAX)
		return;
	*r = (struct range){ .correlation = correlation, .number = launches };
	snprintf(r->symbol, sizeof(r->symbol), "%s", symbol ? symbol : "");
	o->pending++;
}

static void destroy_context(CUpti_RangeProfiler_Object *o)
{
	CUpti_ResourceData data = { .context = o->context };

	pthread_mutex_unlock(&lock);
	if (wants_callback(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING))
		call_recorder(CUPTI_CB_DOMAIN_RESOURCE,
			      CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, &data);
	pthread_mutex_lock(&lock);
	o->gone = true;
}

void range_profiler_launch(CUcontext context, uint32_t correlation, const char *symbol)
{
	const struct faults *faults = standin_faults();

	pthread_mutex_lock(&lock);
	launches++;
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		CUpti_RangeProfiler_Object *o = &objects[i];

		if (!o->context || o->context != context || o->gone || !o->started)
			continue;
		if (o->marked) {
			o->ranges[0].correlation += o->pushed;
			continue;
		}
		add_range(o, correlation, symbol);
		launches_take_times(correlation);
		if (faults->range_extra_every && launches % faults->range_extra_every == 0)
			add_range(o, correlation + 1, "another");
		if (faults->range_destroy_at == launches)
			destroy_context(o);
	}
	pthread_mutex_unlock(&lock);
}

EXPORT CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *p)
{
	FAULT(STANDIN_ProfilerInitialize);
	CHECK_SIZE(p, CUpti_Profiler_Initialize_Params);
	standin_profiler_initialized = true;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params *p)
{
	FAULT(STANDIN_ProfilerGetCounterAvailability);
	CHECK_SIZE(p, CUpti_Profiler_GetCounterAvailability_Params);
	if (!standin_profiler_initialized)
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (p->pCounterAvailabilityImage && p->counterAvailabilityImageSize < 64)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->counterAvailabilityImageSize = 64;
	if (p->pCounterAvailabilityImage)
		memset(p->pCounterAvailabilityImage, 1, 64);
	return CUPTI_SUCCESS;
}

/* Affects the whole process. */
EXPORT CUptiResult cuptiProfilerDeInitialize(CUpti_Profiler_DeInitialize_Params *p)
{
	(void)p;
	no_harm(!standin_profiler_initialized, "all profilers of the process are ended");
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *p)
{
	CUptiResult r = CUPTI_ERROR_OUT_OF_MEMORY;

	FAULT(STANDIN_RangeProfilerEnable);
	CHECK_SIZE(p, CUpti_RangeProfiler_Enable_Params);
	no_harm(!standin_api_site || standin_api_site == CUPTI_API_ENTER + 1,
		"enabled after a launch");
	if (!standin_profiler_initialized || !p->ctx)
		return CUPTI_ERROR_INVALID_OPERATION;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (objects[i].context == p->ctx && !objects[i].gone)
			r = CUPTI_ERROR_INVALID_OPERATION;
	for (size_t i = 0; i < CONTEXTS_MAX && r == CUPTI_ERROR_OUT_OF_MEMORY; i++) {
		if (objects[i].context)
			continue;
		objects[i] = (CUpti_RangeProfiler_Object){ .context = p->ctx };
		p->pRangeProfilerObject = &objects[i];
		r = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

EXPORT CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *p)
{
	FAULT(STANDIN_RangeProfilerDisable);
	CHECK_SIZE(p, CUpti_RangeProfiler_Disable_Params);
	if (!is_object(p->pRangeProfilerObject))
		return CUPTI_ERROR_INVALID_OPERATION;
	no_harm(!p->pRangeProfilerObject->started || p->pRangeProfilerObject->hopeless,
		"disabled between start and stop");
	p->pRangeProfilerObject->context = NULL;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *p)
{
	FAULT(STANDIN_RangeProfilerGetCounterDataSize);
	CHECK_SIZE(p, CUpti_RangeProfiler_GetCounterDataSize_Params);
	if (!is_object(p->pRangeProfilerObject))
		return CUPTI_ERROR_INVALID_OPERATION;
	if (!p->numMetrics || !p->maxNumOfRanges || p->maxNumOfRanges > RANGES_MAX ||
	    p->maxNumRangeTreeNodes < p->maxNumOfRanges)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->pRangeProfilerObject->most = p->maxNumOfRanges;
	p->counterDataSize = sizeof(struct image);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params *p)
{
	struct image *image = (struct image *)(void *)p->pCounterData;

	FAULT(STANDIN_RangeProfilerCounterDataImageInitialize);
	CHECK_SIZE(p, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
	if (!is_object(p->pRangeProfilerObject) || !p->pRangeProfilerObject->most)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (p->counterDataSize < sizeof(*image) || !image)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*image = (struct image){ .magic = IMAGE_MAGIC,
				 .capacity = (uint32_t)p->pRangeProfilerObject->most };
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;
	struct image *image = (struct image *)(void *)p->pCounterDataImage;
	struct config config;

	FAULT(STANDIN_RangeProfilerSetConfig);
	CHECK_SIZE(p, CUpti_RangeProfiler_SetConfig_Params);
	LOCKED;
	if (!is_object(o) || o->started)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (p->configSize != sizeof(config) || p->counterDataImageSize < sizeof(*image) ||
	    image->magic != IMAGE_MAGIC || image->count || p->numNestingLevels != 1 ||
	    p->minNestingLevel != 1 || p->passIndex || !p->maxRangesPerPass ||
	    p->maxRangesPerPass > image->capacity)
		return CUPTI_ERROR_INVALID_PARAMETER;
	o->marked = p->range == CUPTI_UserRange;
	if (p->replayMode != (o->marked ? CUPTI_UserReplay : CUPTI_KernelReplay) ||
	    p->targetNestingLevel != o->marked)
		return CUPTI_ERROR_INVALID_PARAMETER;
	o->was_marked |= o->marked;
	o->was_automatic |= !o->marked;
	no_harm(!o->was_marked || !o->was_automatic, "ranges of both kinds in one context");
	o->passes = 0;
	memcpy(&config, p->pConfig, sizeof(config));
	if (config.magic != CONFIG_MAGIC || config.samples)
		return CUPTI_ERROR_INVALID_PARAMETER;
	o->config = config;
	o->image = image;
	o->configured = true;
	o->stopped = false;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	FAULT(STANDIN_RangeProfilerStart);
	CHECK_SIZE(p, CUpti_RangeProfiler_Start_Params);
	LOCKED;
	if (!is_object(o) || !o->configured || o->started)
		return CUPTI_ERROR_INVALID_OPERATION;
	no_harm(standin_api_site == CUPTI_API_ENTER + 1 || (o->marked && !standin_api_site),
		"started outside of a launch");
	no_harm(o->marked || !launches_elsewhere(), "started beside a launch of another thread");
	o->started = true;
	o->pending = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	FAULT(STANDIN_RangeProfilerPushRange);
	CHECK_SIZE(p, CUpti_RangeProfiler_PushRange_Params);
	LOCKED;
	if (!is_object(o) || !o->started || !o->marked || o->pushed || !p->pRangeName)
		return CUPTI_ERROR_INVALID_OPERATION;
	o->pushed = true;
	add_range(o, 0, p->pRangeName);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	FAULT(STANDIN_RangeProfilerPopRange);
	CHECK_SIZE(p, CUpti_RangeProfiler_PopRange_Params);
	LOCKED;
	if (!is_object(o) || !o->started || !o->pushed)
		return CUPTI_ERROR_INVALID_OPERATION;
	o->pushed = false;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	int forced;

	if (standin_fault(STANDIN_RangeProfilerStop, &forced)) {
		o->hopeless = true;
		return (CUptiResult)forced;
	}
	CHECK_SIZE(p, CUpti_RangeProfiler_Stop_Params);
	LOCKED;
	if (!is_object(o) || !o->started)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (o->pushed) {
		o->hopeless = true;
		return CUPTI_ERROR_INVALID_OPERATION;
	}
	no_harm(o->marked || standin_api_site ||
			standin_in_callback == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		"stopped outside of a launch");
	o->started = false;
	o->stopped = !o->marked || ++o->passes == passes_of(&o->config);
	o->configured = !o->stopped; /* one measurement a configuration */
	p->passIndex = o->stopped ? 0 : o->passes;
	p->targetNestingLevel = o->marked;
	p->isAllPassSubmitted = o->stopped;
	o->ranges[0].number = o->marked ? (uint32_t)o->passes : o->ranges[0].number;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *p)
{
	CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	FAULT(STANDIN_RangeProfilerDecodeData);
	CHECK_SIZE(p, CUpti_RangeProfiler_DecodeData_Params);
	if (!is_object(o) || !o->stopped)
		return CUPTI_ERROR_INVALID_OPERATION;
	p->numOfRangeDropped = 0;
	o->image->config = o->config;
	for (uint32_t i = 0; i < o->pending; i++) {
		if (o->image->count < o->image->capacity)
			o->image->ranges[o->image->count++] = o->ranges[i];
		else
			p->numOfRangeDropped++;
	}
	o->pending = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *p)
{
	const struct image *image = (const struct image *)(const void *)p->pCounterDataImage;

	FAULT(STANDIN_RangeProfilerGetCounterDataInfo);
	CHECK_SIZE(p, CUpti_RangeProfiler_GetCounterDataInfo_Params);
	if (p->counterDataImageSize < sizeof(*image) || image->magic != IMAGE_MAGIC)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->numTotalRanges = image->count;
	return CUPTI_SUCCESS;
}
