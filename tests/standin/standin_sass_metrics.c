/*
 * SASS metrics of the stand-in libcupti.so.13, with the rules of their header: parameter sizes and
 * the order of calls. A call that breaks a rule returns an error; a call that would do harm on a
 * GPU ends the process. What the header does not define is like CUPTI 13.0 on an H100: a device can
 * be configured once, the second time there is no memory; with records of concurrent kernels all
 * values are 0; with records of serialized kernels all launches are counted; without either only
 * launches after the first time that any context is enabled.
 *
 * Each measured launch has instructions at three offsets of its function. Metric m (from 1) of the
 * instruction at offset o is 1000 * m + o. Only the second instruction has the last metric, named
 * by a separate record. If the tape has counts of a GPU, a launch has those that it had there.
 */
#include "standin_cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cupti_sass_metrics.h>

#define CONTEXTS_MAX 8
#define FUNCTIONS_MAX 64
#define METRICS 7
#define FIRST_ID UINT64_C(0x5a550000)

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

static const CUpti_SassMetrics_MetricDetails metrics[METRICS] = {
	{ FIRST_ID + 0, "smsp__sass_inst_executed", "# of warp instructions" },
	{ FIRST_ID + 1, "smsp__sass_thread_inst_executed", "# of thread instructions" },
	{ FIRST_ID + 2, "smsp__sass_thread_inst_executed_pred_on", "# with a true predicate" },
	{ FIRST_ID + 3, "smsp__sass_sectors_mem_global", "# of sectors" },
	{ FIRST_ID + 4, "smsp__sass_branch_targets", "# of targets" },
	{ FIRST_ID + 5, "smsp__sass_sectors_mem_local", "# of sectors" },
	{ FIRST_ID + 6, "smsp__sass_sectors_mem_global_ideal", "# of sectors at best" },
};

static const uint32_t offsets[] = { 0x10, 0x20, 0x130 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_chosen[METRICS], is_configured, is_loaded, was_disabled;
static uint64_t launches,
	synchronized_before; /* calls of cuCtxSynchronize before the last launch */

static struct patched {
	CUcontext context; /* NULL: free */
	pthread_t thread; /* the thread that enabled it, and */
	bool counts; /* until it requests to disable it */
	bool gone;
	struct {
		const char *name;
		uint64_t launches, counted;
	} functions[FUNCTIONS_MAX];
} contexts[CONTEXTS_MAX];

static void no_harm(bool harmless, const char *what)
{
	if (harmless)
		return;
	fprintf(stderr, "stand-in: SASS metrics: %s\n", what);
	abort();
}

static struct patched *find(CUcontext context)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (contexts[i].context == context) {
			no_harm(!context || !contexts[i].gone, "a call for a context that is gone");
			return &contexts[i];
		}
	return NULL;
}

static bool is_taped(void)
{
	return standin_answers(TAPE_cuptiSassMetricsFlushData);
}

/* Returns the counts that a GPU had for the launch that is played; no records if it had none. */
static struct cursor taped_counts(uint64_t *records, uint64_t *instances)
{
	struct tape_call answer;
	struct cursor c = { 0 };

	*records = *instances = 0;
	if (!standin_answer_here(TAPE_cuptiSassMetricsFlushData, NULL, 0, &answer))
		return c;
	c = cursor_of(answer.output, answer.output_length);
	*records = cursor_varint(&c);
	*instances = cursor_varint(&c);
	return c;
}

static bool is_idle(void)
{
	return standin_calls(STANDIN_CtxSynchronize) > synchronized_before;
}

/* --- the program --- */

/* Whether this launch runs with patched code and is counted. */
static void count(struct patched *c, const char *symbol)
{
	bool concurrent = atomic_load(&cupti_state.kinds[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]),
	     serial = atomic_load(&cupti_state.kinds[CUPTI_ACTIVITY_KIND_KERNEL]);

	if (!concurrent && !serial && was_disabled)
		return;
	for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
		if (c->functions[i].name && strcmp(c->functions[i].name, symbol) != 0)
			continue;
		c->functions[i].name = symbol;
		c->functions[i].launches++;
		c->functions[i].counted += !concurrent && !standin_faults()->sass_zero;
		return;
	}
}

bool sass_metrics_have_data(void)
{
	bool have = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		have |= contexts[i].context && contexts[i].functions[0].name;
	pthread_mutex_unlock(&lock);
	return have;
}

void sass_metrics_flush(void)
{
	bool beside = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		beside |= contexts[i].counts && !contexts[i].gone &&
			  !pthread_equal(contexts[i].thread, pthread_self());
	pthread_mutex_unlock(&lock);
	no_harm(!beside, "records are flushed while a launch is counted");
}

void sass_metrics_launch(CUcontext context, const char *symbol)
{
	const struct faults *faults = standin_faults();
	CUpti_ResourceData data = { .context = context };
	bool loads, destroys;
	struct patched *c;

	pthread_mutex_lock(&lock);
	launches++;
	synchronized_before = standin_calls(STANDIN_CtxSynchronize);
	loads = is_configured && !is_loaded && !is_taped();
	is_loaded |= loads;
	c = context ? find(context) : NULL;
	if (c && symbol)
		count(c, symbol);
	destroys = c && faults->sass_destroy_at == launches;
	pthread_mutex_unlock(&lock);
	if (loads)
		standin_load_cubin(context);
	if (faults->sass_unload_every && launches % faults->sass_unload_every == 0 &&
	    wants_callback(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING))
		call_recorder(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
			      &data);
	if (!destroys)
		return;
	call_recorder(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		      &data);
	pthread_mutex_lock(&lock);
	c->gone = c->context != NULL;
	pthread_mutex_unlock(&lock);
}

void sass_metrics_unsubscribe(void)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		no_harm(!contexts[i].context, "unsubscribed while code is patched");
}

/* --- CUPTI's functions --- */

EXPORT CUptiResult cuptiSassMetricsGetProperties(CUpti_SassMetrics_GetProperties_Params *p)
{
	uint64_t name = tape_hash_names(&p->pMetricName, 1);
	struct tape_call answer;

	FAULT(STANDIN_SassMetricsGetProperties);
	CHECK_SIZE(p, CUpti_SassMetrics_GetProperties_Params);
	if (standin_answer(TAPE_cuptiSassMetricsGetProperties, &name, 1, &answer) &&
	    !answer.result) {
		struct cursor c = cursor_of(answer.output, answer.output_length);

		p->metric.metricId = cursor_varint(&c);
		p->metric.pMetricName = p->pMetricName;
		p->metric.pMetricDescription = standin_keep_text(&c);
		return CUPTI_SUCCESS;
	}
	if (is_taped())
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < METRICS && strcmp(p->pChipName, "GH100") == 0; i++)
		if (strcmp(p->pMetricName, metrics[i].pMetricName) == 0) {
			p->metric = metrics[i];
			return CUPTI_SUCCESS;
		}
	return CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult cuptiSassMetricsSetConfig(CUpti_SassMetricsSetConfig_Params *p)
{
	FAULT(STANDIN_SassMetricsSetConfig);
	CHECK_SIZE(p, CUpti_SassMetricsSetConfig_Params);
	if (is_configured)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	if (!p->numOfMetricConfig || p->deviceIndex)
		return CUPTI_ERROR_INVALID_PARAMETER;
	memset(is_chosen, 0, sizeof(is_chosen));
	for (size_t i = 0; i < p->numOfMetricConfig && !is_taped(); i++) {
		uint64_t number = p->pConfigs[i].metricId - FIRST_ID;

		if (number >= METRICS || is_chosen[number] ||
		    p->pConfigs[i].outputGranularity != CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU)
			return CUPTI_ERROR_INVALID_PARAMETER;
		is_chosen[number] = true;
	}
	is_configured = true;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSassMetricsEnable(CUpti_SassMetricsEnable_Params *p)
{
	CUptiResult r = CUPTI_ERROR_INVALID_OPERATION;

	FAULT(STANDIN_SassMetricsEnable);
	CHECK_SIZE(p, CUpti_SassMetricsEnable_Params);
	no_harm(standin_api_site, "enabled outside of a launch");
	no_harm(is_idle(), "enabled while kernels run");
	no_harm(!launches_elsewhere(), "enabled beside a launch of another thread");
	no_harm(p->enableLazyPatching == 1, "all kernels are patched");
	no_harm(atomic_load(&cupti_state.flush_period_ms) > 3600000,
		"CUPTI's worker thread may come while a launch is counted");
	pthread_mutex_lock(&lock);
	if (is_configured && p->ctx && !find(p->ctx) && find(NULL)) {
		*find(NULL) = (struct patched){ .context = p->ctx,
						.thread = pthread_self(),
						.counts = true };
		r = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static size_t records_of(const struct patched *c)
{
	size_t functions = 0;

	while (functions < FUNCTIONS_MAX && c->functions[functions].name)
		functions++;
	return functions * (ARRAY_SIZE(offsets) + is_chosen[METRICS - 1]);
}

EXPORT CUptiResult cuptiSassMetricsDisable(CUpti_SassMetricsDisable_Params *p)
{
	struct patched *c;

	pthread_mutex_lock(&lock);
	c = p->ctx ? find(p->ctx) : NULL;
	if (c)
		c->counts = false;
	pthread_mutex_unlock(&lock);
	FAULT(STANDIN_SassMetricsDisable);
	CHECK_SIZE(p, CUpti_SassMetricsDisable_Params);
	pthread_mutex_lock(&lock);
	if (c) {
		p->numOfDroppedRecords =
			(is_taped() ? 0 : records_of(c)) + standin_faults()->sass_dropped;
		no_harm(!launches_elsewhere(), "disabled beside a launch of another thread");
		*c = (struct patched){ 0 };
		was_disabled = true;
	}
	pthread_mutex_unlock(&lock);
	return c ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

EXPORT CUptiResult cuptiSassMetricsGetDataProperties(CUpti_SassMetricsGetDataProperties_Params *p)
{
	uint64_t records, instances;
	struct patched *c;

	FAULT(STANDIN_SassMetricsGetDataProperties);
	CHECK_SIZE(p, CUpti_SassMetricsGetDataProperties_Params);
	no_harm(is_idle(), "read while kernels run");
	pthread_mutex_lock(&lock);
	c = p->ctx ? find(p->ctx) : NULL;
	p->numOfPatchedInstructionRecords = c ? records_of(c) : 0;
	p->numOfInstances = 0;
	for (size_t m = 0; m < METRICS - 1; m++)
		p->numOfInstances += is_chosen[m];
	p->numOfInstances = MAX(p->numOfInstances, 1u);
	if (c && is_taped()) {
		taped_counts(&records, &instances);
		p->numOfPatchedInstructionRecords = records;
		p->numOfInstances = instances;
	}
	pthread_mutex_unlock(&lock);
	return c ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

static void give(CUpti_SassMetrics_Data *out, size_t instances, const char *name, uint32_t function,
		 uint64_t times, size_t record)
{
	bool is_last = record == ARRAY_SIZE(offsets);
	size_t n = 0;

	if (out->structSize != sizeof(*out))
		abort();
	out->cubinCrc = standin_cubin_crc();
	out->functionIndex = function;
	out->functionName = standin_faults()->pc_own_names ? strdup(name) : name;
	out->pcOffset = offsets[is_last ? 1 : record];
	for (size_t m = is_last ? METRICS - 1 : 0; m + !is_last < METRICS && n < instances; m++)
		if (is_chosen[m])
			out->pInstanceValues[n++] = (CUpti_SassMetrics_InstanceValue){
				FIRST_ID + m, times * (1000 * (m + 1) + out->pcOffset)
			};
}

static void give_taped(CUpti_SassMetricsFlushData_Params *p)
{
	uint64_t records, instances;
	struct cursor c = taped_counts(&records, &instances);

	for (size_t i = 0; i < MIN(records, p->numOfPatchedInstructionRecords); i++) {
		CUpti_SassMetrics_Data *out = &p->pMetricsData[i];

		out->cubinCrc = (uint32_t)cursor_varint(&c);
		out->functionIndex = (uint32_t)cursor_varint(&c);
		out->pcOffset = (uint32_t)cursor_varint(&c);
		out->functionName = standin_keep_text(&c);
		for (size_t k = 0; k < instances; k++) {
			uint64_t id = cursor_varint(&c), value = cursor_varint(&c);

			if (k < p->numOfInstances)
				out->pInstanceValues[k] =
					(CUpti_SassMetrics_InstanceValue){ id, value };
		}
	}
}

EXPORT CUptiResult cuptiSassMetricsFlushData(CUpti_SassMetricsFlushData_Params *p)
{
	CUptiResult r = CUPTI_ERROR_INVALID_PARAMETER;
	struct patched *c;
	size_t n = 0;

	FAULT(STANDIN_SassMetricsFlushData);
	CHECK_SIZE(p, CUpti_SassMetricsFlushData_Params);
	pthread_mutex_lock(&lock);
	c = p->ctx ? find(p->ctx) : NULL;
	if (!c)
		r = CUPTI_ERROR_INVALID_OPERATION;
	if (c && is_taped()) {
		give_taped(p);
		r = CUPTI_SUCCESS;
	}
	for (uint32_t f = 0; c && !is_taped() && n < p->numOfPatchedInstructionRecords; f++) {
		for (size_t k = 0; k < ARRAY_SIZE(offsets) + is_chosen[METRICS - 1]; k++)
			give(&p->pMetricsData[n++], p->numOfInstances, c->functions[f].name, f,
			     c->functions[f].counted, k);
		r = CUPTI_SUCCESS;
	}
	if (c)
		memset(c->functions, 0, sizeof(c->functions));
	pthread_mutex_unlock(&lock);
	return r;
}
