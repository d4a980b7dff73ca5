#include "capture/nvml/nvml_source.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "capture/capability_notes.h"
#include "capture/cuda/devices.h"
#include "capture/nvml/nvml_api.h"
#include "capture/vendor_thread.h"
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
	enum { WANTED, READY, OFF } state; /* of the library */
	char directory[4096]; /* of the recording */
	atomic_uint_fast64_t period_ns; /* between readings; 0: none are wanted */
	uint64_t last_ns;
	unsigned read; /* bit i: counter i has been read */
	bool written; /* the capability of the first round */
	unsigned named; /* bit i: counter i has its row; the collector's */
	struct device {
		enum { UNKNOWN, FOUND, LOST, OTHERS } state;
		nvml_handle handle;
		char pci[32]; /* while owned; parts of one GPU have the same */
		int owned; /* socket whose name says that this process reads the device; 0: none */
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
	vendor_enter("nvmlInit_v2");
	status = nvml.Init_v2();
	vendor_leave();
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

static void read_device(uint32_t ordinal, uint64_t now, struct strbuf *why)
{
	struct device *device = &self.devices[ordinal];
	struct ring *r = ring_get();

	for (unsigned i = 0; i < NVML_COUNTERS; i++) {
		struct ring_event event;
		int64_t value = 0;
		int status;

		if (device->off & 1u << i || !is_due(device, &counters[i], now))
			continue;
		event = (struct ring_event){
			.a = clock_monotonic_ns(), .c = i, .d = ordinal, .kind = RING_COUNTER
		};
		vendor_enter(counters[i].name);
		status = counters[i].read(device->handle, &value);
		vendor_leave();
		event.b = (uint64_t)value;
		if (status == NVML_SUCCESS) {
			self.read |= 1u << i;
			if (r)
				ring_push(r, &event, 1);
		} else if (for_good(status)) {
			device->off |= 1u << i;
			strbuf_addf(why, "%sdevice %u has no %s: %s", why->length ? "; " : "",
				    ordinal, counters[i].name, status_text(status));
		}
	}
}

/*
 * Of the processes that record into one directory the first reads a GPU: it has the name of the pair in the abstract namespace
 * of sockets, which the kernel frees when the process ends, however it ends.
 */
static bool own(struct device *device, const char *pci)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length;
	int fd;

	for (unsigned i = 0; i < NVML_DEVICES_MAX; i++)
		if (strncmp(self.devices[i].pci, pci, sizeof(self.devices[i].pci) - 1) == 0)
			return true;
	fd = io_above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return true;
	length = (socklen_t)snprintf(
		address.sun_path + 1, sizeof(address.sun_path) - 1, "pitot-nvml-%016llx-%.32s",
		(unsigned long long)hash_bytes(self.directory, strlen(self.directory)), pci);
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + length) == 0) {
		device->owned = fd;
		snprintf(device->pci, sizeof(device->pci), "%s", pci);
		return true;
	}
	close(fd);
	return false;
}

/* A device that NVML does not know is not asked for again; one that another process reads is, in case that has ended. */
static bool find(struct device *device, uint32_t ordinal, const char *pci, struct strbuf *why)
{
	int status;

	if (device->state == FOUND || device->state == LOST)
		return device->state == FOUND;
	if (!own(device, pci)) {
		device->state = OTHERS;
		return false;
	}
	vendor_enter("nvmlDeviceGetHandleByPciBusId_v2");
	status = nvml.DeviceGetHandleByPciBusId_v2(pci, &device->handle);
	vendor_leave();
	device->state = status == NVML_SUCCESS ? FOUND : LOST;
	if (status != NVML_SUCCESS)
		strbuf_addf(why, "%sdevice %u (%s): %s", why->length ? "; " : "", ordinal, pci,
			    status_text(status));
	return device->state == FOUND;
}

/* What there is, and why not more. Again when more is found out: the last note counts. */
static void write_capability(const struct strbuf *why)
{
	static char actual[256]; /* stays valid for the collector; written once or twice */
	enum capability_state state = capability_state_on;
	size_t n = 0;

	for (unsigned i = 0; i < NVML_COUNTERS; i++)
		if (self.read & 1u << i)
			n += (size_t)snprintf(actual + n, sizeof(actual) - n, "%s%s", n ? ", " : "",
					      counters[i].name);
	if (!n)
		state = capability_state_unavailable;
	else if (why->length)
		state = capability_state_degraded;
	capability_note("nvml", state, NULL, n ? actual : NULL, "%s", strbuf_text(why));
	self.written = true;
}

/* One reading of the devices that the process uses. */
static void read_all(uint64_t now)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	for (uint32_t i = 0; i < NVML_DEVICES_MAX; i++) {
		const char *pci = devices_pci(i);

		if (!pci)
			continue;
		if (self.state == WANTED)
			self.state = load(&why) ? READY : OFF;
		if (self.state == READY && find(&self.devices[i], i, pci, &why))
			read_device(i, now, &why);
	}
	if (why.length || (self.read && !self.written))
		write_capability(&why);
}

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	uint64_t period = atomic_load(&self.period_ns);

	if (!period || self.state == OFF)
		return UINT64_MAX;
	if (!(reasons & (VENDOR_CLOSE | VENDOR_EXIT)) && now - self.last_ns >= period) {
		self.last_ns = now;
		read_all(now);
	}
	return now - self.last_ns < period ? period - (now - self.last_ns) : 0;
}

/* --- the collector's thread --- */

static void window(const struct settings *wanted, struct writer *w)
{
	(void)w;
	if (wanted)
		memcpy(self.directory, wanted->directory, sizeof(self.directory));
	atomic_store(&self.period_ns, wanted ? wanted->counters_ns : 0);
}

static void begin(struct writer *w, const struct source_start *start)
{
	(void)w;
	(void)start;
	self.named = 0;
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

static uint64_t on_counter(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct row_counter_sample row = { .time_ns = event->a,
					  .value = (int64_t)event->b,
					  .counter = event->c + 1,
					  .device = event->d };

	if (event->c >= NVML_COUNTERS)
		return 1;
	if (!(self.named & 1u << event->c))
		write_counter(w, event->c);
	writer_append(w, TABLE_counter_sample, &row);
	return 1;
}

/* The name of a pair is the parent's, but a descriptor that the child holds as well would keep it for longer than that lives. */
static void after_fork(void)
{
	for (unsigned i = 0; i < NVML_DEVICES_MAX; i++)
		if (self.devices[i].owned > 0)
			close(self.devices[i].owned);
	memset(&self, 0, sizeof(self));
}

const struct source nvml_source = {
	.name = "nvml",
	.begin = begin,
	.window = window,
	.vendor = vendor,
	.after_fork = after_fork,
	.handlers = { { RING_COUNTER, on_counter } },
	.handler_count = 1,
};
