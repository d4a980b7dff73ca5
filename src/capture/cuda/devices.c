#include "capture/cuda/devices.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "format/rows.h"

static struct device {
	struct row_device row; /* without texts */
	char name[256], uuid[64], pci[24];
	bool found;
} devices[DEVICES_MAX];

static atomic_int count; /* of devices that have been read */
static atomic_uint_fast64_t used; /* bit i: device i */

void devices_note_use(uint32_t ordinal)
{
	if (ordinal < DEVICES_MAX)
		atomic_fetch_or(&used, UINT64_C(1) << ordinal);
}

const char *devices_pci(uint32_t ordinal)
{
	if ((int)ordinal >= atomic_load(&count) || !(atomic_load(&used) >> ordinal & 1) ||
	    !devices[ordinal].pci[0])
		return NULL;
	return devices[ordinal].pci;
}

void devices_reset(void)
{
	atomic_store(&count, 0);
	atomic_store(&used, 0);
}

/* Returns a device attribute, or 0 and sets the column's bit in *missing if it is unknown. */
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

/* The driver names a part of a GPU "NVIDIA H100 80GB HBM3 MIG 1g.10gb". */
bool devices_is_part(uint32_t ordinal)
{
	return strstr(devices[ordinal].name, " MIG ");
}

/* Formats "GPU-" or "MIG-" and the 16 bytes, grouped as nvidia-smi does. */
static void uuid_text(const CUuuid *uuid, bool is_part, char *out)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;
	int n = 4;

	memcpy(out, is_part ? "MIG-" : "GPU-", 5);
	for (int i = 0; i < 16; i++)
		n += snprintf(out + n, 4, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

#define GET(member, which)                                                                         \
	.member = attribute(driver, device, CU_DEVICE_ATTRIBUTE_##which, COLUMN_device_##member,   \
			    &missing)

static void read_one(const struct driver *driver, int ordinal, struct device *out)
{
	CUdevice device;
	CUuuid id;
	size_t bytes = 0;
	int version = 0;
	uint64_t missing = 0;

	memset(out, 0, sizeof(*out));
	if (driver->DeviceGet(&device, ordinal) != CUDA_SUCCESS)
		return;
	driver->DeviceGetName(out->name, sizeof(out->name) - 1, device);
	if (driver->DeviceGetUuid(&id, device) == CUDA_SUCCESS)
		uuid_text(&id, devices_is_part((uint32_t)ordinal), out->uuid);
	if (driver->DeviceGetPCIBusId(out->pci, sizeof(out->pci), device) != CUDA_SUCCESS)
		out->pci[0] = '\0';
	driver->DeviceTotalMem(&bytes, device);
	driver->DriverGetVersion(&version);
	out->found = true;
	out->row = (struct row_device){
		.id = (uint32_t)ordinal,
		.memory_bytes = bytes,
		.driver_version = (uint32_t)version,
		.vendor = gpu_vendor_nvidia,
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
	out->row.missing = missing;
}

bool devices_read(const struct driver *driver)
{
	int n = 0;

	if (atomic_load(&count))
		return true;
	if (driver->DeviceGetCount(&n) != CUDA_SUCCESS)
		return false;
	n = MIN(n, DEVICES_MAX);
	for (int i = 0; i < n; i++)
		read_one(driver, i, &devices[i]);
	atomic_store(&count, n);
	return n > 0;
}

bool devices_write(struct writer *w)
{
	int n = atomic_load(&count);

	for (int i = 0; i < n; i++) {
		struct row_device row = devices[i].row;

		if (!devices[i].found)
			continue;
		row.name = rows_text(w, devices[i].name);
		row.uuid = rows_text(w, devices[i].uuid);
		row.pci = rows_text(w, devices[i].pci);
		writer_append(w, TABLE_device, &row);
	}
	return n > 0;
}
