/*
 * The part of the recorder's libcupti (tape_cupti.c) that engines need: the real functions, with
 * what they measure put on the tape (TAPE_ENGINE_FUNCTIONS). All others are only forwarded.
 */
#include <dlfcn.h>
#include <string.h>

#include <cupti_profiler_host.h>
#include <cupti_target.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "tape/tape_session.h"

/* The function of the real CUPTI; most are not in the recorder's table. */
#define REAL(name) ((__typeof__(cupti##name) *)tape_real_function("cupti" #name))
#define CALL(name, ...) (REAL(name) ? REAL(name)(__VA_ARGS__) : CUPTI_ERROR_NOT_SUPPORTED)

#define FORWARD(name, parameters)                                                                  \
	EXPORT CUptiResult cupti##name(parameters *p)                                              \
	{                                                                                          \
		return CALL(name, p);                                                              \
	}

/* Several parameters, and their names. */
#define PASS(name, parameters, ...)                                                                \
	EXPORT CUptiResult cupti##name parameters                                                  \
	{                                                                                          \
		return CALL(name, __VA_ARGS__);                                                    \
	}

PASS(GetDeviceId, (CUcontext context, uint32_t *device), context, device)
PASS(ActivityFlushPeriod, (uint32_t ms), ms)

/*
 * For a program with its own client of CUPTI that runs with this library as LD_PRELOAD: what the
 * recorder routes must be the functions that the client calls.
 */
PASS(EnableAllDomains, (uint32_t enable, CUpti_SubscriberHandle subscriber), enable, subscriber)
PASS(GetCallbackState,
     (uint32_t * enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
      CUpti_CallbackId cbid),
     enable, subscriber, domain, cbid)
PASS(ActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc clock), clock)
PASS(ActivityEnableContext, (CUcontext context, CUpti_ActivityKind kind), context, kind)
PASS(ActivityDisableContext, (CUcontext context, CUpti_ActivityKind kind), context, kind)
PASS(ActivityEnableAndDump, (CUpti_ActivityKind kind), kind)
PASS(ActivityFlush, (CUcontext context, uint32_t stream, uint32_t flag), context, stream, flag)
PASS(ActivityGetAttribute, (CUpti_ActivityAttribute attribute, size_t *size, void *value),
     attribute, size, value)
PASS(GetThreadIdType, (CUpti_ActivityThreadIdType * type), type)

EXPORT CUptiResult cuptiGetLastError(void)
{
	return REAL(GetLastError) ? REAL(GetLastError)() : CUPTI_ERROR_NOT_SUPPORTED;
}

EXPORT CUptiResult cuptiFinalize(void)
{
	return REAL(Finalize) ? REAL(Finalize)() : CUPTI_ERROR_NOT_SUPPORTED;
}

/* --- PC sampling --- */

FORWARD(PCSamplingEnable, CUpti_PCSamplingEnableParams)
FORWARD(PCSamplingGetNumStallReasons, CUpti_PCSamplingGetNumStallReasonsParams)

EXPORT CUptiResult cuptiGetCubinCrc(CUpti_GetCubinCrcParams *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(GetCubinCrc, p);

	NOTE(cuptiGetCubinCrc, at, r, &p->cubinCrc, sizeof(p->cubinCrc),
	     hash_bytes(p->cubin, p->cubinSize));
	return r;
}

EXPORT CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams *p)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(PCSamplingGetStallReasons, p);

	for (size_t i = 0; r == CUPTI_SUCCESS && i < p->numStallReasons; i++) {
		tape_put_number(&out, p->stallReasonIndex[i]);
		tape_put_text(&out, p->stallReasons[i]);
	}
	NOTE(cuptiPCSamplingGetStallReasons, at, r, strbuf_text(&out), out.length);
	return r;
}

EXPORT CUptiResult
cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(PCSamplingGetConfigurationAttribute, p);
	const CUpti_PCSamplingConfigurationInfo *info = p->pPCSamplingConfigurationInfo;

	if (info->attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD)
		NOTE(cuptiPCSamplingGetConfigurationAttribute, at, r,
		     &info->attributeData.samplingPeriodData.samplingPeriod, sizeof(uint32_t));
	return r;
}

static void note_reading(CUcontext context, struct tape_mark at, CUptiResult r,
			 const CUpti_PCSamplingData *d)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	if (r != CUPTI_SUCCESS || (!d->totalSamples && !d->totalNumPcs))
		return;
	tape_put_number(&out, d->totalSamples);
	tape_put_number(&out, d->droppedSamples);
	tape_put_number(&out, d->nonUsrKernelsTotalSamples);
	tape_put_number(&out, d->hardwareBufferFull);
	tape_put_number(&out, d->totalNumPcs);
	for (size_t i = 0; i < d->totalNumPcs; i++) {
		const CUpti_PCSamplingPCData *pc = &d->pPcData[i];

		tape_put_number(&out, pc->cubinCrc);
		tape_put_number(&out, pc->pcOffset);
		tape_put_number(&out, pc->functionIndex);
		tape_put_text(&out, pc->functionName);
		tape_put_number(&out, pc->stallReasonCount);
		for (size_t k = 0; k < pc->stallReasonCount; k++) {
			tape_put_number(&out, pc->stallReason[k].pcSamplingStallReasonIndex);
			tape_put_number(&out, pc->stallReason[k].samples);
		}
	}
	NOTE(cuptiPCSamplingGetData, at, r, strbuf_text(&out), out.length, (uintptr_t)context);
}

/* The client's buffer, in which CUPTI leaves samples when a module is unloaded and at the end. */
static struct {
	CUcontext context;
	const CUpti_PCSamplingData *data;
	uint64_t noted; /* samples of it that are on the tape and that the recorder has not taken */
} rest;

static void note_rest(CUcontext context)
{
	if (context != rest.context || !rest.data || rest.data->totalSamples == rest.noted)
		return;
	rest.noted = rest.data->totalSamples;
	note_reading(context, tape_here(), CUPTI_SUCCESS, rest.data);
}

EXPORT CUptiResult
cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *p)
{
	for (size_t i = 0; i < p->numAttributes; i++) {
		const CUpti_PCSamplingConfigurationInfo *info = &p->pPCSamplingConfigurationInfo[i];

		if (info->attributeType !=
		    CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER)
			continue;
		rest.context = p->ctx;
		rest.data = info->attributeData.samplingDataBufferData.samplingDataBuffer;
	}
	return CALL(PCSamplingSetConfigurationAttribute, p);
}

EXPORT CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(PCSamplingGetData, p);

	note_reading(p->ctx, at, r, p->pcSamplingData);
	note_rest(p->ctx);
	return r;
}

EXPORT CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams *p)
{
	CUptiResult r = CALL(PCSamplingDisable, p);

	note_rest(p->ctx);
	rest.noted = 0;
	return r;
}

/* --- SASS metrics --- */

FORWARD(SassMetricsSetConfig, CUpti_SassMetricsSetConfig_Params)
FORWARD(SassMetricsEnable, CUpti_SassMetricsEnable_Params)
FORWARD(SassMetricsGetDataProperties, CUpti_SassMetricsGetDataProperties_Params)

EXPORT CUptiResult cuptiSassMetricsGetProperties(CUpti_SassMetrics_GetProperties_Params *p)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(SassMetricsGetProperties, p);

	tape_put_number(&out, p->metric.metricId);
	tape_put_text(&out, r == CUPTI_SUCCESS ? p->metric.pMetricDescription : NULL);
	NOTE(cuptiSassMetricsGetProperties, at, r, strbuf_text(&out), out.length,
	     tape_hash_names(&p->pMetricName, 1));
	return r;
}

EXPORT CUptiResult cuptiSassMetricsFlushData(CUpti_SassMetricsFlushData_Params *p)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(SassMetricsFlushData, p);

	tape_put_number(&out, p->numOfPatchedInstructionRecords);
	tape_put_number(&out, p->numOfInstances);
	for (size_t i = 0; r == CUPTI_SUCCESS && i < p->numOfPatchedInstructionRecords; i++) {
		const CUpti_SassMetrics_Data *d = &p->pMetricsData[i];

		tape_put_number(&out, d->cubinCrc);
		tape_put_number(&out, d->functionIndex);
		tape_put_number(&out, d->pcOffset);
		tape_put_text(&out, d->functionName);
		for (size_t k = 0; k < p->numOfInstances; k++) {
			tape_put_number(&out, d->pInstanceValues[k].metricId);
			tape_put_number(&out, d->pInstanceValues[k].value);
		}
	}
	NOTE(cuptiSassMetricsFlushData, at, r, strbuf_text(&out), out.length);
	return r;
}

EXPORT CUptiResult cuptiSassMetricsDisable(CUpti_SassMetricsDisable_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(SassMetricsDisable, p);
	uint64_t dropped = p->numOfDroppedRecords;

	NOTE(cuptiSassMetricsDisable, at, r, &dropped, sizeof(dropped));
	return r;
}

/* --- the profiler host, which knows the metrics and computes their values --- */

static __thread uint64_t chosen; /* hash of the names that were configured last */

FORWARD(ProfilerInitialize, CUpti_Profiler_Initialize_Params)
FORWARD(ProfilerGetCounterAvailability, CUpti_Profiler_GetCounterAvailability_Params)
FORWARD(ProfilerHostGetSupportedChips, CUpti_Profiler_Host_GetSupportedChips_Params)
FORWARD(ProfilerHostInitialize, CUpti_Profiler_Host_Initialize_Params)
FORWARD(ProfilerHostDeinitialize, CUpti_Profiler_Host_Deinitialize_Params)
FORWARD(ProfilerHostGetBaseMetrics, CUpti_Profiler_Host_GetBaseMetrics_Params)
FORWARD(ProfilerHostGetSubMetrics, CUpti_Profiler_Host_GetSubMetrics_Params)
FORWARD(ProfilerHostGetConfigImageSize, CUpti_Profiler_Host_GetConfigImageSize_Params)
FORWARD(ProfilerHostGetConfigImage, CUpti_Profiler_Host_GetConfigImage_Params)

EXPORT CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(DeviceGetChipName, p);

	NOTE(cuptiDeviceGetChipName, at, r, r ? NULL : p->pChipName, r ? 0 : strlen(p->pChipName));
	return r;
}

EXPORT CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ProfilerHostConfigAddMetrics, p);

	chosen = tape_hash_names(p->ppMetricNames, p->numMetrics);
	NOTE(cuptiProfilerHostConfigAddMetrics, at, r, NULL, 0, chosen);
	return r;
}

EXPORT CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ProfilerHostGetNumOfPasses, p);
	uint64_t passes = p->numOfPasses;

	NOTE(cuptiProfilerHostGetNumOfPasses, at, r, &passes, sizeof(passes), chosen);
	return r;
}

EXPORT CUptiResult
cuptiProfilerHostGetMetricProperties(CUpti_Profiler_Host_GetMetricProperties_Params *p)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ProfilerHostGetMetricProperties, p);

	if (r == CUPTI_SUCCESS) {
		tape_put_text(&out, p->pDescription);
		tape_put_text(&out, p->pHwUnit);
		tape_put_text(&out, p->pDimUnit);
		tape_put_number(&out, (uint32_t)p->metricType);
	}
	NOTE(cuptiProfilerHostGetMetricProperties, at, r, strbuf_text(&out), out.length,
	     tape_hash_names(&p->pMetricName, 1));
	return r;
}

EXPORT CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(ProfilerHostEvaluateToGpuValues, p);

	NOTE(cuptiProfilerHostEvaluateToGpuValues, at, r, p->pMetricValues,
	     p->numMetrics * sizeof(*p->pMetricValues),
	     tape_hash_names(p->ppMetricNames, p->numMetrics));
	return r;
}

/* --- the range profiler --- */

FORWARD(RangeProfilerEnable, CUpti_RangeProfiler_Enable_Params)
FORWARD(RangeProfilerDisable, CUpti_RangeProfiler_Disable_Params)
FORWARD(RangeProfilerGetCounterDataSize, CUpti_RangeProfiler_GetCounterDataSize_Params)
FORWARD(RangeProfilerCounterDataImageInitialize,
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params)
FORWARD(RangeProfilerSetConfig, CUpti_RangeProfiler_SetConfig_Params)
FORWARD(RangeProfilerStart, CUpti_RangeProfiler_Start_Params)
FORWARD(RangeProfilerStop, CUpti_RangeProfiler_Stop_Params)
FORWARD(RangeProfilerPushRange, CUpti_RangeProfiler_PushRange_Params)
FORWARD(RangeProfilerPopRange, CUpti_RangeProfiler_PopRange_Params)
FORWARD(RangeProfilerDecodeData, CUpti_RangeProfiler_DecodeData_Params)
FORWARD(RangeProfilerGetCounterDataInfo, CUpti_RangeProfiler_GetCounterDataInfo_Params)

/* --- PM sampling --- */

FORWARD(PmSamplingGetCounterAvailability, CUpti_PmSampling_GetCounterAvailability_Params)
FORWARD(PmSamplingEnable, CUpti_PmSampling_Enable_Params)
FORWARD(PmSamplingDisable, CUpti_PmSampling_Disable_Params)
FORWARD(PmSamplingSetConfig, CUpti_PmSampling_SetConfig_Params)
FORWARD(PmSamplingStart, CUpti_PmSampling_Start_Params)
FORWARD(PmSamplingStop, CUpti_PmSampling_Stop_Params)
FORWARD(PmSamplingDecodeData, CUpti_PmSampling_DecodeData_Params)
FORWARD(PmSamplingGetCounterDataSize, CUpti_PmSampling_GetCounterDataSize_Params)
FORWARD(PmSamplingCounterDataImageInitialize, CUpti_PmSampling_CounterDataImage_Initialize_Params)
FORWARD(PmSamplingGetCounterDataInfo, CUpti_PmSampling_GetCounterDataInfo_Params)

EXPORT CUptiResult
cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params *p)
{
	struct tape_mark at = tape_here();
	CUptiResult r = CALL(PmSamplingCounterDataGetSampleInfo, p);
	const uint64_t times[] = { p->startTimestamp, p->endTimestamp };

	NOTE(cuptiPmSamplingCounterDataGetSampleInfo, at, r, times, sizeof(times));
	return r;
}
