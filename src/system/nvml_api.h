/* nvml_api.h: our own declarations of the parts of NVML (libnvidia-ml.so.1) that are used. */
#ifndef PITOT_SYSTEM_NVML_API_H
#define PITOT_SYSTEM_NVML_API_H

enum {
	NVML_SUCCESS = 0,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_VERSION_MISMATCH = 18,
	NVML_DEPRECATED = 26,
};

enum { NVML_REMOTE_GPU, NVML_REMOTE_NPU, NVML_REMOTE_SWITCH };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_EVENT_XID = 8 };

typedef struct nvml_device_handle *nvml_handle;
typedef struct nvml_event_set *nvml_events;
typedef struct nvml_gpm_buffer *nvml_gpm_sample;

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_pci {
	char legacy_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "must match NVML's layout");

struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes; /* ~0: unknown */
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_process) == 24, "must match NVML's layout");

/* Of a process that has worked lately. */
struct nvml_process_use {
	unsigned pid;
	unsigned long long time_us; /* CLOCK_REALTIME */
	unsigned sm, memory, encoder, decoder; /* % of the time */
};
_Static_assert(sizeof(struct nvml_process_use) == 32, "must match NVML's layout");

/* Fields of nvmlDeviceGetFieldValues. */
enum {
	NVML_FIELD_ECC_CORRECTED = 3,
	NVML_FIELD_ECC_UNCORRECTED = 4,
	NVML_FIELD_RETIRED_CORRECTED = 29,
	NVML_FIELD_RETIRED_UNCORRECTED = 30,
	NVML_FIELD_LIMITED_BY_POWER = 74, /* ns */
	NVML_FIELD_LIMITED_BY_TEMPERATURE = 75,
	NVML_FIELD_LIMITED_BY_SYNC_BOOST = 76,
	NVML_FIELD_LIMITED_BY_BOARD = 77,
	NVML_FIELD_LIMITED_BY_RELIABILITY = 79,
	NVML_FIELD_MEMORY_TEMPERATURE = 82,
	NVML_FIELD_NVLINK_SENT = 138, /* KiB; scope: one link, or all */
	NVML_FIELD_NVLINK_RECEIVED = 139,
	NVML_FIELD_REMAPPED_CORRECTED = 142,
	NVML_FIELD_REMAPPED_UNCORRECTED = 143,
	NVML_FIELD_PCIE_SENT = 197, /* bytes */
	NVML_FIELD_PCIE_RECEIVED = 198,
};
#define NVML_SCOPE_ALL_LINKS (~0u)

enum nvml_value_type {
	NVML_TYPE_DOUBLE,
	NVML_TYPE_U32,
	NVML_TYPE_ULONG,
	NVML_TYPE_U64,
	NVML_TYPE_I64,
	NVML_TYPE_I32,
	NVML_TYPE_U16,
};

struct nvml_field {
	unsigned id, scope;
	long long timestamp_us, latency_us;
	int type; /* enum nvml_value_type */
	int status;
	union {
		double real;
		unsigned u32;
		unsigned long ulong;
		unsigned long long u64;
		long long i64;
		int i32;
		unsigned short u16;
	} value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "must match NVML's layout");

struct nvml_event {
	nvml_handle device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_event) == 32, "must match NVML's layout");

/* Metrics of GPU performance monitoring (GPM), on Hopper and newer. */
enum {
	NVML_GPM_SM_ACTIVE = 2,
	NVML_GPM_SM_OCCUPANCY = 3,
	NVML_GPM_INTEGER_ACTIVE = 4,
	NVML_GPM_TENSOR_ACTIVE = 5,
	NVML_GPM_DRAM_ACTIVE = 10,
	NVML_GPM_FP64_ACTIVE = 11,
	NVML_GPM_FP32_ACTIVE = 12,
	NVML_GPM_FP16_ACTIVE = 13,
};
#define NVML_GPM_VERSION 1u
#define NVML_GPM_METRICS_MAX 333u /* as in the newest header; NVML uses `count` of them */

struct nvml_gpm_support {
	unsigned version, supported;
};

struct nvml_gpm_metric {
	unsigned id;
	int status;
	double value;
	const char *names[3];
};
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "must match NVML's layout");

struct nvml_gpm_metrics {
	unsigned version, count;
	nvml_gpm_sample samples[2];
	struct nvml_gpm_metric metrics[NVML_GPM_METRICS_MAX];
};

#define NVML_FUNCTIONS(F)                                                                          \
	F(Init_v2, void)                                                                           \
	F(Shutdown, void)                                                                          \
	F(DeviceGetHandleByPciBusId_v2, const char *id, nvml_handle *out)                          \
	F(DeviceGetUtilizationRates, nvml_handle device, struct nvml_utilization *out)             \
	F(DeviceGetClockInfo, nvml_handle device, int clock, unsigned *mhz)                        \
	F(DeviceGetPowerUsage, nvml_handle device, unsigned *milliwatts)                           \
	F(DeviceGetTemperature, nvml_handle device, int sensor, unsigned *celsius)                 \
	F(DeviceGetMemoryInfo, nvml_handle device, struct nvml_memory *out)                        \
	F(DeviceGetTotalEnergyConsumption, nvml_handle device, unsigned long long *millijoules)    \
	F(DeviceGetCurrentClocksThrottleReasons, nvml_handle device, unsigned long long *bits)     \
	F(DeviceGetEnforcedPowerLimit, nvml_handle device, unsigned *milliwatts)                   \
	F(DeviceGetFieldValues, nvml_handle device, int count, struct nvml_field *fields)          \
	F(DeviceGetComputeRunningProcesses_v3, nvml_handle device, unsigned *count,                \
	  struct nvml_process *out)                                                                \
	F(DeviceGetProcessUtilization, nvml_handle device, struct nvml_process_use *out,           \
	  unsigned *count, unsigned long long since_us)                                            \
	F(DeviceGetCount_v2, unsigned *count)                                                      \
	F(DeviceGetHandleByIndex_v2, unsigned index, nvml_handle *out)                             \
	F(DeviceGetName, nvml_handle device, char *name, unsigned size)                            \
	F(DeviceGetUUID, nvml_handle device, char *uuid, unsigned size)                            \
	F(DeviceGetPciInfo_v3, nvml_handle device, struct nvml_pci *out)                           \
	F(DeviceGetCudaComputeCapability, nvml_handle device, int *major, int *minor)              \
	F(DeviceGetMaxClockInfo, nvml_handle device, int clock, unsigned *mhz)                     \
	F(DeviceGetMigMode, nvml_handle device, unsigned *current, unsigned *pending)              \
	F(SystemGetCudaDriverVersion_v2, int *version)                                             \
	F(DeviceGetTopologyCommonAncestor, nvml_handle a, nvml_handle b, int *level)               \
	F(DeviceGetNvLinkState, nvml_handle device, unsigned link, unsigned *active)               \
	F(DeviceGetNvLinkVersion, nvml_handle device, unsigned link, unsigned *version)            \
	F(DeviceGetNvLinkRemotePciInfo_v2, nvml_handle device, unsigned link,                      \
	  struct nvml_pci *out)                                                                    \
	F(DeviceGetNvLinkRemoteDeviceType, nvml_handle device, unsigned link, int *type)           \
	F(EventSetCreate, nvml_events *out)                                                        \
	F(EventSetWait_v2, nvml_events set, struct nvml_event *out, unsigned timeout_ms)           \
	F(DeviceRegisterEvents, nvml_handle device, unsigned long long types, nvml_events set)     \
	F(GpmQueryDeviceSupport, nvml_handle device, struct nvml_gpm_support *out)                 \
	F(GpmSampleAlloc, nvml_gpm_sample *out)                                                    \
	F(GpmSampleGet, nvml_handle device, nvml_gpm_sample sample)                                \
	F(GpmMetricsGet, struct nvml_gpm_metrics *metrics)

/* Functions are NULL if the library lacks them. */
struct nvml {
#define F(name, ...) int (*name)(__VA_ARGS__);
	NVML_FUNCTIONS(F)
#undef F
};

#endif
