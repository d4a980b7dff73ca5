/*
 * nvml_standin.c: what libnvidia-ml.so.1 would say on a machine with two GPUs. Built three times: whole, as PARTIAL
 * without some functions, and as BARE without those that nothing works without.
 */
#include "unit/capture/nvml_standin.h"

#include <string.h>

#include "base/compiler.h"

EXPORT struct nvml_standin nvml_standin;

struct device {
	const char *pci;
	unsigned number;
};

EXPORT int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long *out);
EXPORT int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *out);
EXPORT int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *out);

#ifndef BARE
static struct device devices[] = { { "0000:1A:00.0", 1 }, { "0000:1B:00.0", 2 } };

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct device **out);

int nvmlInit_v2(void)
{
	nvml_standin.inits++;
	return nvml_standin.init_status;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct device **out)
{
	nvml_standin.lookups++;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		if (strcasecmp(id, devices[i].pci) == 0) {
			*out = &devices[i];
			return 0;
		}
	}
	return 6;
}
#endif

int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *out)
{
	if (d->number == 2)
		return 3;
	out[0] = 97;
	out[1] = 41;
	return nvml_standin.utilization_status;
}

int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *out)
{
	*out = 40 + d->number;
	return sensor == 0 ? nvml_standin.temperature_status : 2;
}

int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long *out)
{
	out[0] = 150754820096;
	out[2] = 1000000000ull * d->number;
	out[1] = out[0] - out[2];
	return 0;
}

#ifndef PARTIAL
EXPORT int nvmlDeviceGetClockInfo(struct device *d, int clock, unsigned *out);
EXPORT int nvmlDeviceGetPowerUsage(struct device *d, unsigned *out);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(struct device *d, unsigned long long *out);

int nvmlDeviceGetClockInfo(struct device *d, int clock, unsigned *out)
{
	(void)d;
	*out = clock == 1 ? 1980 : clock == 2 ? 3201 : 0;
	return 0;
}

int nvmlDeviceGetPowerUsage(struct device *d, unsigned *out)
{
	*out = 700123 * d->number;
	return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(struct device *d, unsigned long long *out)
{
	*out = 12345678901234ull + d->number;
	return 0;
}
#endif
