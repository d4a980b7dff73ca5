/*
 * nvml_api.h: the few parts of NVML's interface (libnvidia-ml.so.1) that are used, declared by us.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_API_H
#define PITOT_CAPTURE_NVML_NVML_API_H

enum {
	NVML_SUCCESS = 0,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_FUNCTION_NOT_FOUND = 13,
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };

typedef struct nvml_device *nvml_handle;

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_memory {
	unsigned long long total, free, used;
};

#define NVML_FUNCTIONS(F)                                                                          \
	F(Init_v2, void)                                                                           \
	F(DeviceGetHandleByPciBusId_v2, const char *id, nvml_handle *out)                          \
	F(DeviceGetUtilizationRates, nvml_handle device, struct nvml_utilization *out)             \
	F(DeviceGetClockInfo, nvml_handle device, int clock, unsigned *mhz)                        \
	F(DeviceGetPowerUsage, nvml_handle device, unsigned *milliwatts)                           \
	F(DeviceGetTemperature, nvml_handle device, int sensor, unsigned *celsius)                 \
	F(DeviceGetMemoryInfo, nvml_handle device, struct nvml_memory *out)                        \
	F(DeviceGetTotalEnergyConsumption, nvml_handle device, unsigned long long *millijoules)

/* NULL: the library lacks it. */
struct nvml {
#define F(name, ...) int (*name)(__VA_ARGS__);
	NVML_FUNCTIONS(F)
#undef F
};

#endif
