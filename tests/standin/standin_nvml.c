/*
 * The stand-in libnvidia-ml.so.1: answers from the tape, or as without a driver if it has no NVML.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "system/nvml_api.h"
#include "standin.h"

#define COUNT(...) (sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))
#define ANSWER(name, out, size, ...)                                                               \
	answer(TAPE_nvml##name, out, size, (const uint64_t[]){ __VA_ARGS__ }, COUNT(__VA_ARGS__))

/* Like NVML's own lock, which a child forked meanwhile inherits. */
static void hold_lock(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t ns = standin_faults()->nvml_lock_ns;
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	if (!ns)
		return;
	pthread_mutex_lock(&lock);
	nanosleep(&t, NULL);
	pthread_mutex_unlock(&lock);
}

static int answer(enum tape_function function, void *out, size_t size, const uint64_t *arguments,
		  size_t count)
{
	struct tape_call call;
	int forced;

	if (standin_fault(function, &forced))
		return forced;
	hold_lock();
	if (!standin_answer(function, arguments, (unsigned)count, &call))
		return NVML_INVALID_ARGUMENT;
	if (call.result)
		return (int)call.result;
	if (call.output_length != size)
		return NVML_NOT_SUPPORTED;
	if (size)
		memcpy(out, call.output, size);
	return NVML_SUCCESS;
}

#define F(name, ...) EXPORT int nvml##name(__VA_ARGS__);
NVML_FUNCTIONS(F)
#undef F

int nvmlInit_v2(void)
{
	struct tape_call call;
	int forced;

	if (standin_fault(TAPE_nvmlInit_v2, &forced))
		return forced;
	hold_lock();
	return standin_answer(TAPE_nvmlInit_v2, NULL, 0, &call) ? (int)call.result
								: NVML_DRIVER_NOT_LOADED;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_handle *out)
{
	return ANSWER(DeviceGetHandleByPciBusId_v2, out, sizeof(*out), hash_bytes(id, strlen(id)));
}

#define READING(name, type)                                                                        \
	int nvml##name(nvml_handle device, type *out)                                              \
	{                                                                                          \
		return ANSWER(name, out, sizeof(*out), (uintptr_t)device);                         \
	}
#define READING_OF(name, type)                                                                     \
	int nvml##name(nvml_handle device, int which, type *out)                                   \
	{                                                                                          \
		return ANSWER(name, out, sizeof(*out), (uintptr_t)device, (uint64_t)which);        \
	}

READING(DeviceGetUtilizationRates, struct nvml_utilization)
READING_OF(DeviceGetClockInfo, unsigned)
READING(DeviceGetPowerUsage, unsigned)
READING_OF(DeviceGetTemperature, unsigned)
READING(DeviceGetMemoryInfo, struct nvml_memory)
READING(DeviceGetTotalEnergyConsumption, unsigned long long)

/* On older tapes, which lack this, nothing throttles the GPUs. */
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_handle device, unsigned long long *out)
{
	int status =
		ANSWER(DeviceGetCurrentClocksThrottleReasons, out, sizeof(*out), (uintptr_t)device);

	if (status != NVML_INVALID_ARGUMENT)
		return status;
	*out = 0;
	return NVML_SUCCESS;
}
