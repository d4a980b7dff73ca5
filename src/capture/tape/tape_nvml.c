/* NVML's functions with a tape behind them. They are called by the collector's thread only. */
#include <string.h>

#include "base/map.h"
#include "capture/nvml/nvml_api.h"
#include "capture/tape/tape_session.h"

static struct nvml real;

static int wrap_Init_v2(void)
{
	struct tape_mark at = tape_here();
	int r = real.Init_v2();

	NOTE(nvmlInit_v2, at, r, NULL, 0);
	return r;
}

static int wrap_DeviceGetHandleByPciBusId_v2(const char *id, nvml_handle *device)
{
	struct tape_mark at = tape_here();
	int r = real.DeviceGetHandleByPciBusId_v2(id, device);

	NOTE(nvmlDeviceGetHandleByPciBusId_v2, at, r, device, sizeof(*device),
	     hash_bytes(id, strlen(id)));
	return r;
}

#define READING(name, type)                                                                        \
	static int wrap_##name(nvml_handle device, type *value)                                    \
	{                                                                                          \
		struct tape_mark at = tape_here();                                                 \
		int r = real.name(device, value);                                                  \
                                                                                                   \
		NOTE(nvml##name, at, r, value, sizeof(*value), (uintptr_t)device);                 \
		return r;                                                                          \
	}

#define READING_OF(name, type)                                                                     \
	static int wrap_##name(nvml_handle device, int which, type *value)                         \
	{                                                                                          \
		struct tape_mark at = tape_here();                                                 \
		int r = real.name(device, which, value);                                           \
                                                                                                   \
		NOTE(nvml##name, at, r, value, sizeof(*value), (uintptr_t)device,                  \
		     (uint64_t)which);                                                             \
		return r;                                                                          \
	}

READING(DeviceGetUtilizationRates, struct nvml_utilization)
READING_OF(DeviceGetClockInfo, unsigned)
READING(DeviceGetPowerUsage, unsigned)
READING_OF(DeviceGetTemperature, unsigned)
READING(DeviceGetMemoryInfo, struct nvml_memory)
READING(DeviceGetTotalEnergyConsumption, unsigned long long)

void tape_nvml(struct nvml *nvml)
{
	if (!tape_running())
		return;
	real = *nvml;
#define F(name, ...)                                                                               \
	if (nvml->name)                                                                            \
		nvml->name = wrap_##name;
	NVML_FUNCTIONS(F)
#undef F
}
