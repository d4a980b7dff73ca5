/*
 * nvml_standin.c: what libnvidia-ml.so.1 would say on a machine with two GPUs, of which the second
 * has no utilization, no PCIe counters and no GPM. Built three times: whole, as PARTIAL without
 * some functions, and as BARE without those that nothing works without.
 */
#include "unit/capture/nvml_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "system/nvml_api.h"

EXPORT struct nvml_standin nvml_standin;

struct nvml_device_handle {
	const char *pci;
	unsigned number;
};

#define F(name, ...) EXPORT int nvml##name(__VA_ARGS__);
NVML_FUNCTIONS(F)
#undef F

static struct nvml_device_handle devices[] = { { "0000:1A:00.0", 1 }, { "0000:1B:00.0", 2 } };

#ifndef BARE
static void read_environment(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} members[] = {
#define M(member) { #member, offsetof(struct nvml_standin, member) }
		M(init_status),
		M(utilization_status),
		M(temperature_status),
		M(power_status),
		M(field_status),
		M(gpm_status),
		M(hang),
		M(lost_after),
		M(xid),
		M(processes),
		M(pid),
		M(use_status),
#undef M
	};
	const char *script = getenv("NVML_STANDIN");
	unsigned value;
	char name[64];
	int length;

	for (; script && sscanf(script, "%63[a-z_]=%u%n", name, &value, &length) == 2;
	     script += length + (script[length] == ' ')) {
		if (!strcmp(name, "throttle"))
			nvml_standin.throttle = value;
		for (size_t i = 0; i < ARRAY_SIZE(members); i++)
			if (!strcmp(name, members[i].name))
				memcpy((char *)&nvml_standin + members[i].offset, &value,
				       sizeof(value));
	}
}

int nvmlInit_v2(void)
{
	read_environment();
	nvml_standin.inits++;
	return nvml_standin.init_status;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_handle *out)
{
	nvml_standin.lookups++;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		if (strcasecmp(id, devices[i].pci) == 0) {
			*out = &devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_NOT_FOUND;
}
#endif

int nvmlDeviceGetUtilizationRates(nvml_handle d, struct nvml_utilization *out)
{
	if (d->number == 2)
		return NVML_NOT_SUPPORTED;
	*out = (struct nvml_utilization){ 97, 41 };
	return nvml_standin.utilization_status;
}

int nvmlDeviceGetTemperature(nvml_handle d, int sensor, unsigned *out)
{
	*out = 40 + d->number;
	return sensor == 0 ? nvml_standin.temperature_status : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetMemoryInfo(nvml_handle d, struct nvml_memory *out)
{
	out->total = 150754820096;
	out->used = 1000000000ull * d->number;
	out->free = out->total - out->used;
	return NVML_SUCCESS;
}

#ifndef PARTIAL
int nvmlDeviceGetClockInfo(nvml_handle d, int clock, unsigned *out)
{
	(void)d;
	*out = clock == 1 ? 1980 : clock == 2 ? 3201 : 0;
	return NVML_SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(nvml_handle d, int clock, unsigned *out)
{
	return nvmlDeviceGetClockInfo(d, clock, out);
}

int nvmlDeviceGetPowerUsage(nvml_handle d, unsigned *out)
{
	while (nvml_standin.hang)
		pause();
	if (nvml_standin.lost_after && !--nvml_standin.lost_after)
		nvml_standin.power_status = NVML_GPU_IS_LOST;
	*out = 700123 * d->number;
	return nvml_standin.power_status;
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_handle d, unsigned *out)
{
	(void)d;
	*out = 700000;
	return NVML_SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_handle d, unsigned long long *out)
{
	*out = 12345678901234ull + d->number;
	return NVML_SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_handle d, unsigned long long *out)
{
	*out = d->number == 1 ? nvml_standin.throttle : 1;
	return NVML_SUCCESS;
}

/* A field's value is its number times 1000, of the second device times 2000; the types differ. */
int nvmlDeviceGetFieldValues(nvml_handle d, int count, struct nvml_field *fields)
{
	nvml_standin.field_calls++;
	for (int i = 0; i < count; i++) {
		struct nvml_field *f = &fields[i];
		unsigned value = f->id * 1000 * d->number;
		bool links = f->id == NVML_FIELD_NVLINK_SENT || f->id == NVML_FIELD_NVLINK_RECEIVED;
		bool absent = d->number == 2 && f->id == NVML_FIELD_PCIE_SENT;

		memset(&f->value, 0x5a, sizeof(f->value));
		f->status = absent || links != (f->scope == NVML_SCOPE_ALL_LINKS)
				    ? NVML_NOT_SUPPORTED
				    : NVML_SUCCESS;
		f->type = f->id % 2 ? NVML_TYPE_U64 : NVML_TYPE_U32;
		if (f->id == NVML_FIELD_MEMORY_TEMPERATURE)
			f->type = NVML_TYPE_I32;
		if (f->type == NVML_TYPE_U64)
			f->value.u64 = value;
		else
			f->value.u32 = value;
		if (f->id == NVML_FIELD_RETIRED_CORRECTED)
			f->type = NVML_TYPE_DOUBLE;
	}
	return nvml_standin.field_status;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_handle d, unsigned *count,
					    struct nvml_process *out)
{
	unsigned room = *count;

	*count = d->number != 1 ? 0 : nvml_standin.processes ? nvml_standin.processes : 2;
	if (*count > room)
		return NVML_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < *count; i++)
		out[i] = (struct nvml_process){ i                  ? 4194305u
						: nvml_standin.pid ? nvml_standin.pid
								   : (unsigned)getpid(),
						i ? ~0ull : 123ull << 20, ~0u, ~0u };
	return NVML_SUCCESS;
}

/* The process that asks has had the GPU for 40 % of the time, then for 61 %; another for 5 %. */
int nvmlDeviceGetProcessUtilization(nvml_handle d, struct nvml_process_use *out, unsigned *count,
				    unsigned long long since_us)
{
	unsigned pid = nvml_standin.pid ? nvml_standin.pid : (unsigned)getpid();

	if (d->number != 1)
		return NVML_NOT_SUPPORTED;
	if (!since_us || *count < 3)
		return NVML_INSUFFICIENT_SIZE;
	*count = 3;
	out[0] = (struct nvml_process_use){ pid, since_us + 2, 61, 30, 0, 0 };
	out[1] = (struct nvml_process_use){ 4194305u, since_us + 1, 5, 1, 0, 0 };
	out[2] = (struct nvml_process_use){ pid, since_us + 1, 40, 20, 0, 0 };
	return nvml_standin.use_status;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = ARRAY_SIZE(devices);
	return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_handle *out)
{
	if (index >= ARRAY_SIZE(devices))
		return NVML_INVALID_ARGUMENT;
	*out = &devices[index];
	return NVML_SUCCESS;
}

int nvmlDeviceGetName(nvml_handle d, char *name, unsigned size)
{
	return snprintf(name, size, "Stand-in %u", d->number) < (int)size ? NVML_SUCCESS
									  : NVML_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetUUID(nvml_handle d, char *uuid, unsigned size)
{
	return snprintf(uuid, size, "GPU-00000000-0000-0000-0000-00000000000%u", d->number) <
			       (int)size
		       ? NVML_SUCCESS
		       : NVML_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetPciInfo_v3(nvml_handle d, struct nvml_pci *out)
{
	snprintf(out->id, sizeof(out->id), "0000%s", d->pci);
	return NVML_SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(nvml_handle d, int *major, int *minor)
{
	(void)d;
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = 13000;
	return NVML_SUCCESS;
}

int nvmlDeviceGetMigMode(nvml_handle d, unsigned *current, unsigned *pending)
{
	(void)d;
	*current = *pending = nvml_standin.mig;
	return NVML_SUCCESS;
}

/* --- events: those of the first device --- */

int nvmlEventSetCreate(nvml_events *out)
{
	*out = (nvml_events)devices;
	return NVML_SUCCESS;
}

int nvmlDeviceRegisterEvents(nvml_handle d, unsigned long long types, nvml_events set)
{
	return types == NVML_EVENT_XID && set == (nvml_events)devices && d->number == 1
		       ? NVML_SUCCESS
		       : NVML_NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(nvml_events set, struct nvml_event *out, unsigned timeout_ms)
{
	(void)set;
	nvml_standin.event_waits++;
	if (!nvml_standin.xid || timeout_ms)
		return NVML_TIMEOUT;
	*out = (struct nvml_event){ &devices[0], NVML_EVENT_XID, nvml_standin.xid, ~0u, ~0u };
	nvml_standin.xid = 0;
	return NVML_SUCCESS;
}

/* --- GPM: a value is its number, and a fraction --- */

int nvmlGpmQueryDeviceSupport(nvml_handle d, struct nvml_gpm_support *out)
{
	if (out->version != NVML_GPM_VERSION)
		return NVML_INVALID_ARGUMENT;
	out->supported = d->number == 1 && !nvml_standin.gpm_unsupported;
	return NVML_SUCCESS;
}

int nvmlGpmSampleAlloc(nvml_gpm_sample *out)
{
	static unsigned samples[64];
	static unsigned used;

	*out = (nvml_gpm_sample)&samples[used++ % ARRAY_SIZE(samples)];
	return NVML_SUCCESS;
}

int nvmlGpmSampleGet(nvml_handle d, nvml_gpm_sample sample)
{
	(void)d;
	*(unsigned *)sample = ++nvml_standin.gpm_samples;
	return nvml_standin.gpm_status;
}

int nvmlGpmMetricsGet(struct nvml_gpm_metrics *m)
{
	/* The second sample is the later one, and the one after the first. */
	if (m->version != NVML_GPM_VERSION ||
	    *(unsigned *)m->samples[1] != *(unsigned *)m->samples[0] + 1)
		return NVML_INVALID_ARGUMENT;
	for (unsigned i = 0; i < m->count; i++) {
		m->metrics[i].status = NVML_SUCCESS;
		m->metrics[i].value =
			nvml_standin.gpm_value ? nvml_standin.gpm_value : m->metrics[i].id + 0.36;
	}
	return NVML_SUCCESS;
}
#endif
