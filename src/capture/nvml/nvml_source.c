#include "capture/nvml/nvml_source.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "capture/nvml/nvml_api.h"
#include "format/rows.h"

#define LIBRARY "libnvidia-ml.so.1"

static struct nvml nvml;

/* --- counters --- */

#define READER(name, function, type, call, result)                                                 \
	static int name(nvml_handle device, int64_t *value)                                        \
	{                                                                                          \
		type v = { 0 };                                                                    \
		int status = nvml.function ? nvml.function call : NVML_FUNCTION_NOT_FOUND;         \
                                                                                                   \
		if (status == NVML_SUCCESS)                                                        \
			*value = (int64_t)(result);                                                \
		return status;                                                                     \
	}

READER(read_gpu, DeviceGetUtilizationRates, struct nvml_utilization, (device, &v), v.gpu)
READER(read_memory, DeviceGetUtilizationRates, struct nvml_utilization, (device, &v), v.memory)
READER(read_sm_clock, DeviceGetClockInfo, unsigned, (device, NVML_CLOCK_SM, &v), v)
READER(read_memory_clock, DeviceGetClockInfo, unsigned, (device, NVML_CLOCK_MEMORY, &v), v)
READER(read_power, DeviceGetPowerUsage, unsigned, (device, &v), v)
READER(read_temperature, DeviceGetTemperature, unsigned, (device, NVML_TEMPERATURE_GPU, &v), v)
READER(read_used, DeviceGetMemoryInfo, struct nvml_memory, (device, &v), v.used)
READER(read_energy, DeviceGetTotalEnergyConsumption, unsigned long long, (device, &v), v)

/*
 * The driver asks the GPU's own processor for the energy and spins until it has answered: 4 ms of processor time on an
 * H100, forty times as much as all others together. It only ever adds up, so it is read often at first, for short runs,
 * and later every ten seconds.
 */
#define ENERGY_REST_NS (10 * NS_PER_S)
#define ENERGY_SHARE 4 /* of the time since the first reading */

static const struct counter {
	const char *name, *unit;
	uint32_t decimals;
	const char *description;
	int (*read)(nvml_handle device, int64_t *value);
} counters[NVML_COUNTERS] = {
	{ "gpu_utilization", "%", 0, "time in which at least one kernel ran, as NVML measures it",
	  read_gpu },
	{ "gpu_memory_utilization", "%", 0, "time in which device memory was read or written",
	  read_memory },
	{ "gpu_sm_clock", "MHz", 0, "clock of the multiprocessors", read_sm_clock },
	{ "gpu_memory_clock", "MHz", 0, "clock of the memory", read_memory_clock },
	{ "gpu_power", "W", 3, "power of the whole board", read_power },
	{ "gpu_temperature", "C", 0, "temperature of the GPU", read_temperature },
	{ "gpu_memory_used", "bytes", 0, "device memory in use by all processes", read_used },
	{ "gpu_energy", "J", 3, "energy used since the driver was loaded", read_energy },
};

static struct {
	enum { OFF, WANTED, READY } state;
	bool said; /* the capability row of the first round is written */
	unsigned named; /* bit i: counter i has been read */
	struct device {
		enum { UNKNOWN, FOUND, LOST } state;
		nvml_handle handle;
		unsigned off; /* bit i: counter i will not come */
		uint64_t first_energy_ns, last_energy_ns; /* 0: not read yet */
	} devices[NVML_DEVICES_MAX];
} self;

/* --- loading --- */

/* Valid until the next call. */
static const char *status_text(int status)
{
	static char number[32];

	switch (status) {
	case NVML_INVALID_ARGUMENT:
		return "invalid argument";
	case NVML_NOT_SUPPORTED:
		return "not supported";
	case NVML_NO_PERMISSION:
		return "no permission";
	case NVML_NOT_FOUND:
		return "not found";
	case NVML_DRIVER_NOT_LOADED:
		return "driver not loaded";
	case NVML_FUNCTION_NOT_FOUND:
		return "function not found";
	default:
		snprintf(number, sizeof(number), "status %d", status);
		return number;
	}
}

/* Loads and initializes the library. false when there is nothing to sample; *why says why. */
static bool load(struct strbuf *why)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	int status;

	if (!library) {
		strbuf_adds(why, LIBRARY " cannot be loaded; it comes with NVIDIA's driver");
		return false;
	}
#define F(name, ...) *(void **)&nvml.name = dlsym(library, "nvml" #name);
	NVML_FUNCTIONS(F)
#undef F
	if (!nvml.Init_v2 || !nvml.DeviceGetHandleByPciBusId_v2) {
		strbuf_adds(why, LIBRARY " lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2");
		return false;
	}
	status = nvml.Init_v2();
	if (status != NVML_SUCCESS)
		strbuf_addf(why, "nvmlInit_v2 failed: %s", status_text(status));
	return status == NVML_SUCCESS;
}

/* --- sampling --- */

static bool for_good(int status)
{
	return status == NVML_INVALID_ARGUMENT || status == NVML_NOT_SUPPORTED ||
	       status == NVML_NO_PERMISSION || status == NVML_FUNCTION_NOT_FOUND;
}

static void write_counter(struct writer *w, unsigned i)
{
	struct row_counter row = {
		.id = i + 1,
		.name = rows_text(w, counters[i].name),
		.unit = rows_text(w, counters[i].unit),
		.decimals = counters[i].decimals,
		.description = rows_text(w, counters[i].description),
	};

	writer_append(w, TABLE_counter, &row);
	self.named |= 1u << i;
}

static bool is_due(struct device *device, const struct counter *counter, uint64_t now)
{
	uint64_t rest = MIN((now - device->first_energy_ns) / ENERGY_SHARE, ENERGY_REST_NS);

	if (counter->read != read_energy)
		return true;
	if (device->last_energy_ns && now - device->last_energy_ns < rest)
		return false;
	if (!device->first_energy_ns)
		device->first_energy_ns = now;
	device->last_energy_ns = now;
	return true;
}

static void sample_device(struct writer *w, uint32_t ordinal, uint64_t now, struct strbuf *why)
{
	struct device *device = &self.devices[ordinal];
	struct row_counter_sample row = { .device = ordinal };

	for (unsigned i = 0; i < NVML_COUNTERS; i++) {
		int status;

		if (device->off & 1u << i || !is_due(device, &counters[i], now))
			continue;
		row.time_ns = clock_monotonic_ns();
		row.counter = i + 1;
		status = counters[i].read(device->handle, &row.value);
		if (status == NVML_SUCCESS) {
			if (!(self.named & 1u << i))
				write_counter(w, i);
			writer_append(w, TABLE_counter_sample, &row);
		} else if (for_good(status)) {
			device->off |= 1u << i;
			strbuf_addf(why, "%sdevice %u has no %s: %s", why->length ? "; " : "",
				    ordinal, counters[i].name, status_text(status));
		}
	}
}

/* A device that NVML does not know is not asked for again. */
static bool find(struct device *device, uint32_t ordinal, const char *pci, struct strbuf *why)
{
	int status;

	if (device->state == UNKNOWN) {
		status = nvml.DeviceGetHandleByPciBusId_v2(pci, &device->handle);
		device->state = status == NVML_SUCCESS ? FOUND : LOST;
		if (status != NVML_SUCCESS)
			strbuf_addf(why, "%sdevice %u (%s): %s", why->length ? "; " : "", ordinal,
				    pci, status_text(status));
	}
	return device->state == FOUND;
}

/* What there is, and why not more. Again when more is found out: the last row counts. */
static void say(struct writer *w, const struct strbuf *why)
{
	_cleanup_strbuf_ struct strbuf got = STRBUF_INIT;
	enum capability_state state = capability_state_on;

	for (unsigned i = 0; i < NVML_COUNTERS; i++)
		if (self.named & 1u << i)
			strbuf_addf(&got, "%s%s", got.length ? ", " : "", counters[i].name);
	if (!got.length)
		state = capability_state_unavailable;
	else if (why->length)
		state = capability_state_degraded;
	rows_capability(w, "nvml", state, NULL, got.length ? got.data : NULL,
			why->length ? why->data : NULL);
	self.said = true;
}

void nvml_source_start(void)
{
	if (self.state == OFF)
		self.state = WANTED;
}

void nvml_source_sample(struct writer *w, const char *const *pci_by_cuda_ordinal, unsigned devices,
			uint64_t now)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	devices = MIN(devices, (unsigned)NVML_DEVICES_MAX);
	if (self.state == OFF || devices == 0)
		return;
	if (self.state == WANTED) {
		self.state = load(&why) ? READY : OFF;
		if (self.state == OFF) {
			say(w, &why);
			return;
		}
	}
	for (uint32_t i = 0; i < devices; i++)
		if (pci_by_cuda_ordinal[i] &&
		    find(&self.devices[i], i, pci_by_cuda_ordinal[i], &why))
			sample_device(w, i, now, &why);
	if (why.length || (self.named && !self.said))
		say(w, &why);
}

void nvml_source_after_fork(void)
{
	memset(&self, 0, sizeof(self));
}
