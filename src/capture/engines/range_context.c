#include "capture/engines/range_context.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdlib.h>

#include "capture/core/vendor_thread.h"

#define RANGES 8u /* room in an image: one is expected, more reveal other launches */
#define IMAGE_MAX (256u << 20)

#define CALL(c, cupti, name, p) (vendor_result((c), "cupti" #name, (cupti)->name(p)))

static int vendor_result(struct range_context *c, const char *function, CUptiResult result)
{
	if (result != CUPTI_SUCCESS)
		c->failed = function;
	return (int)result;
}

static int allocate_image(struct range_context *c, const struct cupti *cupti)
{
	CUpti_RangeProfiler_GetCounterDataSize_Params p =
		PARAMETERS(RangeProfiler_GetCounterDataSize, .pRangeProfilerObject = c->object,
			   .pMetricNames = c->metrics->set.names.data,
			   .numMetrics = c->metrics->set.names.count, .maxNumOfRanges = RANGES,
			   .maxNumRangeTreeNodes = RANGES);
	int result = CALL(c, cupti, RangeProfilerGetCounterDataSize, &p);

	if (result)
		return result;
	c->image_bytes = p.counterDataSize;
	if (c->image_bytes && c->image_bytes <= IMAGE_MAX)
		c->image = calloc(1, c->image_bytes);
	return c->image ? 0
			: vendor_result(c, "cuptiRangeProfilerGetCounterDataSize",
					CUPTI_ERROR_OUT_OF_MEMORY);
}

int range_context_open(struct range_context *c, const struct cupti *cupti, CUcontext handle,
		       const struct engine_metrics *metrics)
{
	CUpti_RangeProfiler_Enable_Params p = PARAMETERS(RangeProfiler_Enable, .ctx = handle);
	int result;

	*c = (struct range_context){ .metrics = metrics,
				     .is_marked = metrics->kind == PROFILER_OF_RANGES };
	result = CALL(c, cupti, RangeProfilerEnable, &p);
	if (result)
		return result;
	c->handle = handle;
	c->object = p.pRangeProfilerObject;
	result = allocate_image(c, cupti);
	if (result)
		range_context_close(c, cupti, false);
	return result;
}

static int configure(struct range_context *c, const struct cupti *cupti)
{
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params image = PARAMETERS(
		RangeProfiler_CounterDataImage_Initialize, .pRangeProfilerObject = c->object,
		.counterDataSize = c->image_bytes, .pCounterData = c->image);
	CUpti_RangeProfiler_SetConfig_Params config = PARAMETERS(
		RangeProfiler_SetConfig, .pRangeProfilerObject = c->object,
		.configSize = c->metrics->set.config_bytes, .pConfig = c->metrics->set.config,
		.counterDataImageSize = c->image_bytes, .pCounterDataImage = c->image,
		.range = c->is_marked ? CUPTI_UserRange : CUPTI_AutoRange,
		.replayMode = c->is_marked ? CUPTI_UserReplay : CUPTI_KernelReplay,
		.maxRangesPerPass = RANGES, .numNestingLevels = 1, .minNestingLevel = 1,
		.targetNestingLevel = c->is_marked);
	int result = CALL(c, cupti, RangeProfilerCounterDataImageInitialize, &image);

	return result ? result : CALL(c, cupti, RangeProfilerSetConfig, &config);
}

static int push_range(struct range_context *c, const struct cupti *cupti, const char *name)
{
	CUpti_RangeProfiler_PushRange_Params p = PARAMETERS(
		RangeProfiler_PushRange, .pRangeProfilerObject = c->object, .pRangeName = name);

	return CALL(c, cupti, RangeProfilerPushRange, &p);
}

static int pop_range(struct range_context *c, const struct cupti *cupti)
{
	CUpti_RangeProfiler_PopRange_Params p =
		PARAMETERS(RangeProfiler_PopRange, .pRangeProfilerObject = c->object);

	return CALL(c, cupti, RangeProfilerPopRange, &p);
}

/* Stops without values after a failure, and leaves c->failed as it is. */
static void abandon(struct range_context *c, const struct cupti *cupti)
{
	CUpti_RangeProfiler_Stop_Params p =
		PARAMETERS(RangeProfiler_Stop, .pRangeProfilerObject = c->object);

	c->started = cupti->RangeProfilerStop(&p) != CUPTI_SUCCESS;
	c->is_underway = false;
}

int range_context_start(struct range_context *c, const struct cupti *cupti, const char *name)
{
	CUpti_RangeProfiler_Start_Params p =
		PARAMETERS(RangeProfiler_Start, .pRangeProfilerObject = c->object);
	int result = c->is_underway ? 0 : configure(c, cupti);

	if (!result)
		result = CALL(c, cupti, RangeProfilerStart, &p);
	c->started = !result;
	if (!result && c->is_marked)
		result = push_range(c, cupti, name);
	if (result && c->started)
		abandon(c, cupti);
	return result;
}

static int decode(struct range_context *c, const struct cupti *cupti, size_t *ranges)
{
	CUpti_RangeProfiler_DecodeData_Params p =
		PARAMETERS(RangeProfiler_DecodeData, .pRangeProfilerObject = c->object);
	CUpti_RangeProfiler_GetCounterDataInfo_Params info =
		PARAMETERS(RangeProfiler_GetCounterDataInfo, .pCounterDataImage = c->image,
			   .counterDataImageSize = c->image_bytes);
	int result = CALL(c, cupti, RangeProfilerDecodeData, &p);

	if (!result)
		result = CALL(c, cupti, RangeProfilerGetCounterDataInfo, &info);
	*ranges = info.numTotalRanges + p.numOfRangeDropped;
	return result;
}

int range_context_stop(struct range_context *c, const struct cupti *cupti, size_t *ranges,
		       double *values)
{
	CUpti_RangeProfiler_Stop_Params p =
		PARAMETERS(RangeProfiler_Stop, .pRangeProfilerObject = c->object);
	int popped = c->is_marked ? pop_range(c, cupti) : 0;
	int result = popped;

	if (!result)
		result = CALL(c, cupti, RangeProfilerStop, &p);
	if (result) {
		if (popped)
			abandon(c, cupti);
		return result;
	}
	c->started = false;
	*ranges = 0;
	c->is_underway = c->is_marked && !p.isAllPassSubmitted;
	if (c->is_underway)
		return 0;
	if (!p.isAllPassSubmitted)
		return vendor_result(c, "cuptiRangeProfilerStop (not all passes were run)",
				     CUPTI_ERROR_INVALID_OPERATION);
	result = decode(c, cupti, ranges);
	if (result || *ranges != 1)
		return result;
	if (!vendor_hold(false))
		return vendor_result(c, "the process ends", CUPTI_ERROR_UNKNOWN);
	result = metric_set_evaluate(&c->metrics->set, c->image, c->image_bytes, 0, values);
	vendor_let(false);
	return vendor_result(c, "cuptiProfilerHostEvaluateToGpuValues", (CUptiResult)result);
}

void range_context_close(struct range_context *c, const struct cupti *cupti, bool gone)
{
	CUpti_RangeProfiler_Disable_Params p =
		PARAMETERS(RangeProfiler_Disable, .pRangeProfilerObject = c->object);

	if (c->object && !gone)
		cupti->RangeProfilerDisable(&p);
	free(c->image);
	c->object = NULL;
	c->handle = NULL;
	c->image = NULL;
	c->started = false;
}

#endif
