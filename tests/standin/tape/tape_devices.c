/*
 * What the driver and NVML say about the devices: all that can be asked, asked by the recorder or
 * not, so that a later recorder that asks more can use the tape too.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "system/nvml_api.h"
#include "tape/tape_session.h"

#define DEVICES 64
#define TEXT_BYTES 256
#define COUNTERS_NS (100 * NS_PER_MS)
#define ENERGY_NS NS_PER_S /* it spins for milliseconds */

static struct driver driver;
static struct nvml nvml;

static struct {
	unsigned tape; /* number of the tape on which the devices are described */
	unsigned count;
	nvml_handle handles[DEVICES]; /* NULL: NVML does not know the device */
	uint64_t counters_ns, energy_ns; /* of the last reading */
} self;

static void note_text(enum tape_function function, struct tape_mark at, int r, const char *text,
		      uint64_t argument)
{
	tape_note(function, at, r, text, r ? 0 : strnlen(text, TEXT_BYTES), &argument, 1);
}

/* Returns the device's handle in NVML; NULL if there is none. */
static nvml_handle find_in_nvml(const char *pci)
{
	struct tape_mark at = tape_here();
	nvml_handle handle = NULL;
	int r;

	if (!nvml.DeviceGetHandleByPciBusId_v2)
		return NULL;
	r = nvml.DeviceGetHandleByPciBusId_v2(pci, &handle);
	NOTE(nvmlDeviceGetHandleByPciBusId_v2, at, r, &handle, sizeof(handle),
	     hash_bytes(pci, strlen(pci)));
	return r ? NULL : handle;
}

static void describe_attributes(CUdevice device)
{
	for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++) {
		struct tape_mark at = tape_here();
		int value = 0;
		CUresult r = driver.DeviceGetAttribute(&value, (CUdevice_attribute)a, device);

		NOTE(cuDeviceGetAttribute, at, r, &value, sizeof(value), (uint64_t)a,
		     (uint64_t)device);
	}
}

static void describe(int ordinal)
{
	struct tape_mark at = tape_here();
	char text[TEXT_BYTES] = "";
	CUdevice device = 0;
	size_t bytes = 0;
	CUuuid uuid = { 0 };
	CUresult r = driver.DeviceGet(&device, ordinal);

	NOTE(cuDeviceGet, at, r, &device, sizeof(device), (uint64_t)ordinal);
	if (r != CUDA_SUCCESS)
		return;
	describe_attributes(device);
	at = tape_here();
	r = driver.DeviceGetName(text, sizeof(text), device);
	note_text(TAPE_cuDeviceGetName, at, r, text, (uint64_t)device);
	at = tape_here();
	r = driver.DeviceGetUuid(&uuid, device);
	NOTE(cuDeviceGetUuid, at, r, &uuid, sizeof(uuid), (uint64_t)device);
	at = tape_here();
	r = driver.DeviceTotalMem(&bytes, device);
	NOTE(cuDeviceTotalMem, at, r, &bytes, sizeof(bytes), (uint64_t)device);
	at = tape_here();
	r = driver.DeviceGetPCIBusId(text, sizeof(text), device);
	note_text(TAPE_cuDeviceGetPCIBusId, at, r, text, (uint64_t)device);
	if (r == CUDA_SUCCESS)
		self.handles[ordinal] = find_in_nvml(text);
}

static void start_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct tape_mark at = tape_here();
	int r;

	memset(&nvml, 0, sizeof(nvml));
	if (!library)
		return;
#define F(name, ...) *(void **)&nvml.name = dlsym(library, "nvml" #name);
	NVML_FUNCTIONS(F)
#undef F
	if (!nvml.Init_v2)
		return;
	r = nvml.Init_v2();
	NOTE(nvmlInit_v2, at, r, NULL, 0);
	if (r != NVML_SUCCESS)
		memset(&nvml, 0, sizeof(nvml));
}

static void describe_all(void)
{
	struct tape_mark at = tape_here();
	int version = 0, count = 0;
	CUresult r;

	memset(&self, 0, sizeof(self));
	if (driver_load(&driver, NULL) < 0)
		return;
	r = driver.DriverGetVersion(&version);
	NOTE(cuDriverGetVersion, at, r, &version, sizeof(version));
	at = tape_here();
	r = driver.DeviceGetCount(&count);
	NOTE(cuDeviceGetCount, at, r, &count, sizeof(count));
	if (r != CUDA_SUCCESS)
		return; /* within cuInit: next time */
	self.tape = tape_number();
	start_nvml();
	self.count = MIN((unsigned)count, (unsigned)DEVICES);
	for (unsigned i = 0; i < self.count; i++)
		describe((int)i);
}

/* --- counters --- */

#define READ(name, type, device)                                                                   \
	do {                                                                                       \
		struct tape_mark at_ = tape_here();                                                \
		type value_ = { 0 };                                                               \
		int r_ = nvml.name ? nvml.name(device, &value_) : NVML_FUNCTION_NOT_FOUND;         \
                                                                                                   \
		NOTE(nvml##name, at_, r_, &value_, sizeof(value_), (uintptr_t)(device));           \
	} while (0)

#define READ_OF(name, type, device, which)                                                         \
	do {                                                                                       \
		struct tape_mark at_ = tape_here();                                                \
		type value_ = 0;                                                                   \
		int r_ = nvml.name ? nvml.name(device, which, &value_) : NVML_FUNCTION_NOT_FOUND;  \
                                                                                                   \
		NOTE(nvml##name, at_, r_, &value_, sizeof(value_), (uintptr_t)(device),            \
		     (uint64_t)(which));                                                           \
	} while (0)

/* The temperature is last: a player waits there for the recorder's own reading. */
static void read_counters(nvml_handle device, bool energy)
{
	READ(DeviceGetUtilizationRates, struct nvml_utilization, device);
	READ_OF(DeviceGetClockInfo, unsigned, device, NVML_CLOCK_SM);
	READ_OF(DeviceGetClockInfo, unsigned, device, NVML_CLOCK_MEMORY);
	READ(DeviceGetPowerUsage, unsigned, device);
	READ(DeviceGetMemoryInfo, struct nvml_memory, device);
	READ(DeviceGetCurrentClocksThrottleReasons, unsigned long long, device);
	if (energy)
		READ(DeviceGetTotalEnergyConsumption, unsigned long long, device);
	READ_OF(DeviceGetTemperature, unsigned, device, NVML_TEMPERATURE_GPU);
}

static void read_all_counters(void)
{
	uint64_t now = clock_monotonic_ns();
	bool energy = !self.energy_ns || now - self.energy_ns >= ENERGY_NS;

	if (self.counters_ns && now - self.counters_ns < COUNTERS_NS)
		return;
	self.counters_ns = now;
	if (energy)
		self.energy_ns = now;
	for (unsigned i = 0; i < self.count; i++)
		if (self.handles[i])
			read_counters(self.handles[i], energy);
}

void tape_look_at_devices(void)
{
	static bool
		busy; /* also for ever in a child that was forked inside: it loses these answers */

	if (!tape_running() || __atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE))
		return;
	if (self.tape != tape_number())
		describe_all();
	read_all_counters();
	__atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}
