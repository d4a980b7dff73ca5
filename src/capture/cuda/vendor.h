/*
 * vendor.h: the functions of NVIDIA's libraries that the recorder calls, as tables of pointers
 * filled by dlopen and dlsym. Nothing else in the recorder calls these libraries.
 */
#ifndef PITOT_CAPTURE_CUDA_VENDOR_H
#define PITOT_CAPTURE_CUDA_VENDOR_H

#include <stdbool.h>

#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>

#include "base/error.h"

/* --engine range-profiler needs all of these. */
#if __has_include(<cupti_range_profiler.h>)
#include <cupti_pmsampling.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_sass_metrics.h>
#define RANGE_PROFILER_FUNCTIONS(F)                                                                \
	F(ProfilerInitialize, OPTIONAL)                                                            \
	F(ProfilerGetCounterAvailability, OPTIONAL)                                                \
	F(RangeProfilerEnable, OPTIONAL)                                                           \
	F(RangeProfilerDisable, OPTIONAL)                                                          \
	F(RangeProfilerGetCounterDataSize, OPTIONAL)                                               \
	F(RangeProfilerCounterDataImageInitialize, OPTIONAL)                                       \
	F(RangeProfilerSetConfig, OPTIONAL)                                                        \
	F(RangeProfilerStart, OPTIONAL)                                                            \
	F(RangeProfilerStop, OPTIONAL)                                                             \
	F(RangeProfilerPushRange, OPTIONAL)                                                        \
	F(RangeProfilerPopRange, OPTIONAL)                                                         \
	F(RangeProfilerDecodeData, OPTIONAL)                                                       \
	F(RangeProfilerGetCounterDataInfo, OPTIONAL)
/* --engine pm-sampling needs all of these, and ProfilerInitialize. */
#define PM_SAMPLING_FUNCTIONS(F)                                                                   \
	F(PmSamplingGetCounterAvailability, OPTIONAL)                                              \
	F(PmSamplingEnable, OPTIONAL)                                                              \
	F(PmSamplingDisable, OPTIONAL)                                                             \
	F(PmSamplingSetConfig, OPTIONAL)                                                           \
	F(PmSamplingStart, OPTIONAL)                                                               \
	F(PmSamplingStop, OPTIONAL)                                                                \
	F(PmSamplingDecodeData, OPTIONAL)                                                          \
	F(PmSamplingGetCounterDataSize, OPTIONAL)                                                  \
	F(PmSamplingCounterDataImageInitialize, OPTIONAL)                                          \
	F(PmSamplingGetCounterDataInfo, OPTIONAL)                                                  \
	F(PmSamplingCounterDataGetSampleInfo, OPTIONAL)
/* --engine sass-metrics needs all of these, and ProfilerInitialize and GetCubinCrc. */
#define SASS_METRICS_FUNCTIONS(F)                                                                  \
	F(SassMetricsGetProperties, OPTIONAL)                                                      \
	F(SassMetricsSetConfig, OPTIONAL)                                                          \
	F(SassMetricsEnable, OPTIONAL)                                                             \
	F(SassMetricsDisable, OPTIONAL)                                                            \
	F(SassMetricsGetDataProperties, OPTIONAL)                                                  \
	F(SassMetricsFlushData, OPTIONAL)
#else
#define RANGE_PROFILER_FUNCTIONS(F)
#define PM_SAMPLING_FUNCTIONS(F)
#define SASS_METRICS_FUNCTIONS(F)
#endif

/* --engine pc-sampling needs all of these. */
#define PC_SAMPLING_FUNCTIONS(F)                                                                   \
	F(GetDeviceId, OPTIONAL)                                                                   \
	F(GetCubinCrc, OPTIONAL)                                                                   \
	F(PCSamplingEnable, OPTIONAL)                                                              \
	F(PCSamplingDisable, OPTIONAL)                                                             \
	F(PCSamplingSetConfigurationAttribute, OPTIONAL)                                           \
	F(PCSamplingGetConfigurationAttribute, OPTIONAL)                                           \
	F(PCSamplingGetNumStallReasons, OPTIONAL)                                                  \
	F(PCSamplingGetStallReasons, OPTIONAL)                                                     \
	F(PCSamplingGetData, OPTIONAL)

/* REQUIRED: CUPTI is not used without it. OPTIONAL: NULL if the loaded CUPTI does not have it. */
#define CUPTI_FUNCTIONS(F)                                                                         \
	F(GetVersion, REQUIRED)                                                                    \
	F(GetTimestamp, REQUIRED)                                                                  \
	F(GetResultString, REQUIRED)                                                               \
	F(Subscribe, REQUIRED)                                                                     \
	F(Subscribe_v2, OPTIONAL)                                                                  \
	F(Unsubscribe, REQUIRED)                                                                   \
	F(EnableCallback, REQUIRED)                                                                \
	F(EnableDomain, REQUIRED)                                                                  \
	F(GetCallbackName, REQUIRED)                                                               \
	F(ActivityRegisterCallbacks, REQUIRED)                                                     \
	F(ActivityEnable, REQUIRED)                                                                \
	F(ActivityEnableAndDump, OPTIONAL)                                                         \
	F(ActivityDisable, REQUIRED)                                                               \
	F(ActivityFlushAll, REQUIRED)                                                              \
	F(ActivityFlushPeriod, OPTIONAL)                                                           \
	F(ActivityGetNextRecord, REQUIRED)                                                         \
	F(ActivityGetNumDroppedRecords, REQUIRED)                                                  \
	F(ActivitySetAttribute, REQUIRED)                                                          \
	F(SetThreadIdType, OPTIONAL)                                                               \
	F(GetContextId, OPTIONAL)                                                                  \
	F(GetStreamIdEx, OPTIONAL)                                                                 \
	F(GetGraphExecId, OPTIONAL)                                                                \
	F(GetGraphId, OPTIONAL)                                                                    \
	F(GetGraphNodeId, OPTIONAL)                                                                \
	PC_SAMPLING_FUNCTIONS(F)                                                                   \
	RANGE_PROFILER_FUNCTIONS(F)                                                                \
	PM_SAMPLING_FUNCTIONS(F)                                                                   \
	SASS_METRICS_FUNCTIONS(F)

struct cupti {
#define F(name, need) __typeof__(cupti##name) *name;
	CUPTI_FUNCTIONS(F)
#undef F
	uint32_t version;		/* cuptiGetVersion */
	const char *path;		/* where it was found; owned by the loader, never freed */
	void *handle;			/* of dlopen; never closed */
};

/* Returns CUPTI's text for a result; never NULL. */
const char *cupti_result_text(const struct cupti *cupti, CUptiResult result);

/* All of these are required. */
#define DRIVER_FUNCTIONS(F)                                                                        \
	F(DriverGetVersion, "cuDriverGetVersion", int *version)                                    \
	F(DeviceGetCount, "cuDeviceGetCount", int *count)                                          \
	F(DeviceGet, "cuDeviceGet", CUdevice *device, int ordinal)                                 \
	F(DeviceGetName, "cuDeviceGetName", char *name, int length, CUdevice device)               \
	F(DeviceGetUuid, "cuDeviceGetUuid_v2", CUuuid *uuid, CUdevice device)                      \
	F(DeviceGetAttribute, "cuDeviceGetAttribute", int *value, CUdevice_attribute attribute,    \
	  CUdevice device)                                                                         \
	F(DeviceTotalMem, "cuDeviceTotalMem_v2", size_t *bytes, CUdevice device)                   \
	F(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", char *id, int length, CUdevice device)

struct driver {
#define F(name, symbol, ...) CUresult (*name)(__VA_ARGS__);
	DRIVER_FUNCTIONS(F)
#undef F
};

/*
 * Finds CUPTI and fills the table. If `named`, a path, is not NULL or empty, only that is tried;
 * otherwise a CUPTI already loaded in the process, then the places where toolkits and Python
 * packages have it, preferring the driver's major version. Must not be called on the launch path.
 * Returns 0, or E_UNSUPPORTED with the reason (what was tried).
 */
int cupti_load(struct cupti *cupti, const char *named, struct error *e) MUST_USE;
int driver_load(struct driver *driver, struct error *e) MUST_USE;
/* Returns a function of the driver, if that is loaded and has it; else NULL. */
void *driver_function(const char *name);

#endif
