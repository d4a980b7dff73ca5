/*
 * PM sampling of the stand-in libcupti.so.13, with the rules of its header: parameter sizes, the
 * order of calls, images made by the right call, a configuration that stays in place. Calls on
 * another thread than the recorder's own, and freeing a sampler before it was stopped, end the
 * process.
 *
 * Samples are known: launch__correlation.sum is the start by CUPTI's clock in microseconds of its
 * second, gpu__time_duration.sum its length, sm__cycles_active.avg its number since the start;
 * l1tex__t_sector_hit_rate.pct is not a number. The first one begins long before the start, as on a
 * GPU. If the tape has samples of a GPU, these follow the first one, at or after their place of the
 * tape.
 */
#include "standin_cupti.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>

#define IMAGE_MAGIC 0x6d734d50u
#define SAMPLES_MAX 4096u

#define FAULT(function)                                                                            \
	do {                                                                                       \
		int forced_;                                                                       \
		no_harm(is_on_vendor_thread(), "on another thread");                               \
		if (standin_fault(STANDIN_PmSampling##function, &forced_))                         \
			return (CUptiResult)forced_;                                               \
		if (p->structSize != CUpti_PmSampling_##function##_Params_STRUCT_SIZE || p->pPriv) \
			return CUPTI_ERROR_INVALID_PARAMETER;                                      \
	} while (0)
#define CUpti_PmSampling_CounterDataImageInitialize_Params_STRUCT_SIZE                             \
	CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE
#define CUpti_PmSampling_CounterDataGetSampleInfo_Params_STRUCT_SIZE                               \
	CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE

struct image {
	uint32_t magic;
	uint64_t capacity, count;
	struct sample {
		uint64_t start_ns, end_ns, number; /* of a GPU's: record of its values */
	} samples[SAMPLES_MAX];
};

struct CUpti_PmSampling_Object {
	bool enabled, started, hopeless; /* hopeless: stopping failed */
	uint64_t interval_ns, start_ns, stop_ns, taken, capacity;
	size_t from; /* of a tape with samples of a GPU: the next record */
	const uint8_t *config; /* owned by the client */
	size_t config_bytes;
};

static CUpti_PmSampling_Object device;

static void no_harm(bool harmless, const char *what)
{
	if (harmless)
		return;
	fprintf(stderr, "stand-in: PM sampling: %s\n", what);
	abort();
}

static bool is_on_vendor_thread(void)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	return strcmp(name, "pitot-vendor") == 0;
}

static bool is_image(const uint8_t *bytes, size_t size)
{
	return size >= sizeof(struct image) &&
	       ((const struct image *)(const void *)bytes)->magic == IMAGE_MAGIC;
}

static bool value_of(const uint8_t *bytes, size_t size, size_t index, const char *name,
		     double *value)
{
	const struct image *image = (const struct image *)(const void *)bytes;
	const struct sample *s = &image->samples[index];

	if (!is_image(bytes, size) || index >= image->count)
		return false;
	if (strncmp(name, "launch__correlation", 19) == 0)
		*value = (double)(s->start_ns % 1000000000) / 1000;
	else if (strncmp(name, "gpu__time_duration", 18) == 0)
		*value = (double)(s->end_ns - s->start_ns);
	else if (strncmp(name, "sm__cycles_active", 17) == 0)
		*value = (double)s->number;
	else
		*value = strncmp(name, "l1tex", 5) == 0 ? (double)NAN : -1.5;
	return true;
}

static bool is_taped(void)
{
	return standin_answers(TAPE_cuptiPmSamplingCounterDataGetSampleInfo);
}

/* Samples of a GPU that fit in the image; the recorder skips the first one since the start. */
static void decode_taped(struct image *image)
{
	uint64_t shift = standin_place().time_shift;
	struct tape_call info, values;
	size_t at;

	while (image->count < image->capacity) {
		struct sample *s = &image->samples[image->count];

		at = device.from;
		if (!standin_next_answer(TAPE_cuptiPmSamplingCounterDataGetSampleInfo, &at, &info))
			return;
		if (!device.taken++) {
			*s = (struct sample){ device.start_ns - 600000000, device.start_ns, 0 };
			image->count++;
			continue;
		}
		if (info.output_length != 2 * sizeof(uint64_t) ||
		    !standin_next_answer(TAPE_cuptiProfilerHostEvaluateToGpuValues, &at, &values))
			return;
		device.from = at;
		s->start_ns = load_u64(info.output) + shift;
		s->end_ns = load_u64((const uint8_t *)info.output + sizeof(uint64_t)) + shift;
		s->number = at - 1;
		image->count++;
	}
}

/* Computes the values of a sample of a GPU. */
static bool taped_values(const struct sample *s, size_t count, double *values)
{
	struct tape_call answer;

	if (!s->number || !tape_get_call(&standin_tape()->records.data[s->number], &answer) ||
	    answer.output_length != count * sizeof(*values))
		return false;
	memcpy(values, answer.output, answer.output_length);
	return true;
}

bool pm_sampling_values(const uint8_t *bytes, size_t size, size_t index, const char *const *names,
			size_t count, double *values)
{
	const struct image *image = (const struct image *)(const void *)bytes;

	if (is_taped() && is_image(bytes, size) && index < image->count)
		return taped_values(&image->samples[index], count, values);
	for (size_t i = 0; i < count; i++)
		if (!value_of(bytes, size, index, names[i], &values[i]))
			return false;
	return true;
}

EXPORT CUptiResult
cuptiPmSamplingGetCounterAvailability(CUpti_PmSampling_GetCounterAvailability_Params *p)
{
	FAULT(GetCounterAvailability);
	if (p->pCounterAvailabilityImage && p->counterAvailabilityImageSize < 32)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->counterAvailabilityImageSize = 32;
	if (p->pCounterAvailabilityImage)
		memset(p->pCounterAvailabilityImage, 2, 32);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params *p)
{
	FAULT(Enable);
	if (p->deviceIndex != 0)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (device.enabled)
		return CUPTI_ERROR_INVALID_OPERATION;
	device = (CUpti_PmSampling_Object){ .enabled = true };
	p->pPmSamplingObject = &device;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params *p)
{
	FAULT(Disable);
	if (p->pPmSamplingObject != &device || !device.enabled)
		return CUPTI_ERROR_INVALID_PARAMETER;
	no_harm(!device.started || device.hopeless, "disabled while it samples");
	device.enabled = false;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params *p)
{
	FAULT(SetConfig);
	if (p->pPmSamplingObject != &device || !device.enabled || device.started)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (!p->hardwareBufferSize || p->samplingInterval < 20000 || p->hwBufferAppendMode)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!range_profiler_is_config(p->pConfig, p->configSize))
		return CUPTI_ERROR_NOT_SUPPORTED;
	device.config = p->pConfig;
	device.config_bytes = p->configSize;
	device.interval_ns = p->triggerMode == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL
				     ? p->samplingInterval
				     : p->samplingInterval * 2;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params *p)
{
	FAULT(GetCounterDataSize);
	if (p->pPmSamplingObject != &device || !device.config)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (!p->numMetrics || !p->maxSamples || p->maxSamples > SAMPLES_MAX)
		return CUPTI_ERROR_INVALID_PARAMETER;
	device.capacity = p->maxSamples;
	p->counterDataSize = sizeof(struct image);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiPmSamplingCounterDataImageInitialize(CUpti_PmSampling_CounterDataImage_Initialize_Params *p)
{
	struct image *image = (struct image *)(void *)p->pCounterData;

	FAULT(CounterDataImageInitialize);
	if (p->pPmSamplingObject != &device || !device.capacity)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (p->counterDataSize < sizeof(*image))
		return CUPTI_ERROR_INVALID_PARAMETER;
	image->magic = IMAGE_MAGIC;
	image->capacity = device.capacity;
	image->count = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params *p)
{
	FAULT(Start);
	if (p->pPmSamplingObject != &device || !device.config || device.started)
		return CUPTI_ERROR_INVALID_OPERATION;
	device.started = true;
	device.start_ns = cupti_now();
	device.taken = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params *p)
{
	device.hopeless = true;
	FAULT(Stop);
	device.hopeless = false;
	if (p->pPmSamplingObject != &device || !device.started)
		return CUPTI_ERROR_INVALID_OPERATION;
	device.started = false;
	device.stop_ns = cupti_now();
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params *p)
{
	struct image *image = (struct image *)(void *)p->pCounterDataImage;
	uint64_t most = standin_faults()->pm_most, there, all;

	FAULT(DecodeData);
	if (p->pPmSamplingObject != &device || !device.enabled)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (!is_image(p->pCounterDataImage, p->counterDataImageSize) || image->count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	no_harm(range_profiler_is_config(device.config, device.config_bytes),
		"its configuration is gone");
	if (is_taped()) {
		decode_taped(image);
		p->overflow = 0;
		p->decodeStopReason =
			image->count == image->capacity
				? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
				: CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
		return CUPTI_SUCCESS;
	}
	all = ((device.started ? cupti_now() : device.stop_ns) - device.start_ns) /
	      device.interval_ns;
	there = all - MIN(all, device.taken);
	p->overflow = most && there > most;
	if (p->overflow)
		there = most;
	while (there && image->count < image->capacity) {
		uint64_t start = device.start_ns + device.taken * device.interval_ns;

		image->samples[image->count++] =
			(struct sample){ device.taken ? start : start - 600000000,
					 start + device.interval_ns, device.taken };
		device.taken++;
		there--;
	}
	if (p->overflow)
		device.taken = all;
	device.taken += MIN(there, 5); /* as on a GPU: some of the samples without room are lost */
	p->decodeStopReason = there ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
				    : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params *p)
{
	FAULT(GetCounterDataInfo);
	if (!is_image(p->pCounterDataImage, p->counterDataImageSize))
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->numTotalSamples = ((const struct image *)(const void *)p->pCounterDataImage)->capacity;
	p->numPopulatedSamples = p->numCompletedSamples =
		((const struct image *)(const void *)p->pCounterDataImage)->count;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params *p)
{
	const struct image *image = (const struct image *)(const void *)p->pCounterDataImage;

	FAULT(CounterDataGetSampleInfo);
	if (!is_image(p->pCounterDataImage, p->counterDataImageSize) ||
	    p->sampleIndex >= image->count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->startTimestamp = image->samples[p->sampleIndex].start_ns;
	p->endTimestamp = image->samples[p->sampleIndex].end_ns;
	return CUPTI_SUCCESS;
}
