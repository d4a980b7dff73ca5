#include "capture/cuda/devices.h"
#include "format/rows.h"

#include <stdio.h>
#include <string.h>

static char pci_ids[DEVICES_MAX][24];
static const char *pci_pointers[DEVICES_MAX];

const char *const *devices_pci(void)
{
	return pci_pointers;
}

/* An attribute of the device, or 0; *missing gets the bit when the driver does not know it. */
static uint32_t attribute(const struct driver *driver, CUdevice device, CUdevice_attribute which,
			  unsigned column, uint64_t *missing)
{
	int value = 0;

	if (driver->DeviceGetAttribute(&value, which, device) != CUDA_SUCCESS) {
		*missing |= UINT64_C(1) << column;
		return 0;
	}
	return (uint32_t)value;
}

/* "GPU-" and the 16 bytes as nvidia-smi groups them. */
static void uuid_text(const CUuuid *uuid, char *out)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;
	int n = 4;

	memcpy(out, "GPU-", 5);
	for (int i = 0; i < 16; i++)
		n += snprintf(out + n, 4, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

#define GET(member, which)                                                                         \
	.member = attribute(driver, device, CU_DEVICE_ATTRIBUTE_##which, COLUMN_device_##member,   \
			    &missing)

static void write_one(const struct driver *driver, struct writer *w, int ordinal)
{
	char name[256] = "", uuid[64] = "";
	CUdevice device;
	CUuuid id;
	size_t bytes = 0;
	int version = 0;
	uint64_t missing = 0;

	if (driver->DeviceGet(&device, ordinal) != CUDA_SUCCESS)
		return;
	driver->DeviceGetName(name, sizeof(name) - 1, device);
	if (driver->DeviceGetUuid(&id, device) == CUDA_SUCCESS)
		uuid_text(&id, uuid);
	if (driver->DeviceGetPCIBusId(pci_ids[ordinal], sizeof(pci_ids[ordinal]), device) ==
	    CUDA_SUCCESS)
		pci_pointers[ordinal] = pci_ids[ordinal];
	driver->DeviceTotalMem(&bytes, device);
	driver->DriverGetVersion(&version);
	struct row_device row = {
		.id = (uint32_t)ordinal,
		.name = rows_text(w, name),
		.uuid = rows_text(w, uuid),
		.pci = rows_text(w, pci_pointers[ordinal]),
		.memory_bytes = bytes,
		.driver_version = (uint32_t)version,
		GET(compute_major, COMPUTE_CAPABILITY_MAJOR),
		GET(compute_minor, COMPUTE_CAPABILITY_MINOR),
		GET(multiprocessors, MULTIPROCESSOR_COUNT),
		GET(l2_bytes, L2_CACHE_SIZE),
		GET(clock_khz, CLOCK_RATE),
		GET(memory_clock_khz, MEMORY_CLOCK_RATE),
		GET(memory_bus_bits, GLOBAL_MEMORY_BUS_WIDTH),
		GET(warp_size, WARP_SIZE),
		GET(max_threads_per_block, MAX_THREADS_PER_BLOCK),
		GET(max_threads_per_multiprocessor, MAX_THREADS_PER_MULTIPROCESSOR),
		GET(max_blocks_per_multiprocessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
		GET(registers_per_block, MAX_REGISTERS_PER_BLOCK),
		GET(registers_per_multiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
		GET(shared_per_block_bytes, MAX_SHARED_MEMORY_PER_BLOCK),
		GET(shared_per_block_optin_bytes, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
		GET(shared_per_multiprocessor_bytes, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
		GET(reserved_shared_per_block_bytes, RESERVED_SHARED_MEMORY_PER_BLOCK),
	};
	row.missing = missing;
	writer_append(w, TABLE_device, &row);
}

int devices_write(const struct driver *driver, struct writer *w)
{
	int count = 0;

	if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
		return 0;
	count = MIN(count, DEVICES_MAX);
	for (int i = 0; i < count; i++)
		write_one(driver, w, i);
	return count;
}
