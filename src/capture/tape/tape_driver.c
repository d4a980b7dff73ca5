/* The driver's functions with a tape behind them. */
#include <string.h>

#include "capture/tape/tape_session.h"

#define DEVICES_MAX 64

static struct driver real;
static bool described[DEVICES_MAX]; /* in this tape */

static CUresult wrap_DriverGetVersion(int *version)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DriverGetVersion(version);

	NOTE(cuDriverGetVersion, at, r, version, sizeof(*version));
	return r;
}

static CUresult wrap_DeviceGetCount(int *count)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGetCount(count);

	NOTE(cuDeviceGetCount, at, r, count, sizeof(*count));
	return r;
}

static CUresult wrap_DeviceGetName(char *name, int length, CUdevice device)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGetName(name, length, device);

	NOTE(cuDeviceGetName, at, r, name, r ? 0 : strnlen(name, (size_t)length), (uint64_t)device);
	return r;
}

static CUresult wrap_DeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGetUuid(uuid, device);

	NOTE(cuDeviceGetUuid, at, r, uuid, sizeof(*uuid), (uint64_t)device);
	return r;
}

static CUresult wrap_DeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGetAttribute(value, attribute, device);

	NOTE(cuDeviceGetAttribute, at, r, value, sizeof(*value), (uint64_t)attribute,
	     (uint64_t)device);
	return r;
}

static CUresult wrap_DeviceTotalMem(size_t *bytes, CUdevice device)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceTotalMem(bytes, device);

	NOTE(cuDeviceTotalMem, at, r, bytes, sizeof(*bytes), (uint64_t)device);
	return r;
}

static CUresult wrap_DeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGetPCIBusId(id, length, device);

	NOTE(cuDeviceGetPCIBusId, at, r, id, r ? 0 : strnlen(id, (size_t)length), (uint64_t)device);
	return r;
}

/*
 * All that can be asked about a device, asked or not: a later recorder that asks more can use the
 * tape too.
 */
static void describe(CUdevice device)
{
	char text[256];
	size_t bytes;
	CUuuid uuid;
	int value;

	for (int a = 1; real.DeviceGetAttribute && a < CU_DEVICE_ATTRIBUTE_MAX; a++)
		wrap_DeviceGetAttribute(&value, (CUdevice_attribute)a, device);
	if (real.DeviceGetName)
		wrap_DeviceGetName(text, sizeof(text), device);
	if (real.DeviceGetUuid)
		wrap_DeviceGetUuid(&uuid, device);
	if (real.DeviceTotalMem)
		wrap_DeviceTotalMem(&bytes, device);
	if (real.DeviceGetPCIBusId)
		wrap_DeviceGetPCIBusId(text, sizeof(text), device);
}

static CUresult wrap_DeviceGet(CUdevice *device, int ordinal)
{
	struct tape_mark at = tape_here();
	CUresult r = real.DeviceGet(device, ordinal);

	NOTE(cuDeviceGet, at, r, device, sizeof(*device), (uint64_t)ordinal);
	if (r == CUDA_SUCCESS && ordinal >= 0 && ordinal < DEVICES_MAX &&
	    !__atomic_exchange_n(&described[ordinal], true, __ATOMIC_RELAXED))
		describe(*device);
	return r;
}

void tape_wrap_driver(struct driver *driver)
{
	memset(described, 0, sizeof(described));
	if (driver->DeviceGet == wrap_DeviceGet)
		return;
	real = *driver;
#define F(name, ...)                                                                               \
	if (driver->name)                                                                          \
		driver->name = wrap_##name;
	DRIVER_FUNCTIONS(F)
#undef F
}
