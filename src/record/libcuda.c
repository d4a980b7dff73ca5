/* libcuda.c: asks the CUDA driver about the machine's GPUs. */
#include "record/libcuda.h"

#include <dlfcn.h>
#include <stdio.h>

/* CUdevice_attribute; these numbers are part of the driver's ABI. */
enum {
	ATTRIBUTE_THREADS_PER_BLOCK = 1,
	ATTRIBUTE_WARP_SIZE = 10,
	ATTRIBUTE_CLOCK_KHZ = 13,
	ATTRIBUTE_MULTIPROCESSORS = 16,
	ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
	ATTRIBUTE_MEMORY_BUS_BITS = 37,
	ATTRIBUTE_L2_BYTES = 38,
	ATTRIBUTE_THREADS_PER_MULTIPROCESSOR = 39,
	ATTRIBUTE_COPY_ENGINES = 40,
	ATTRIBUTE_COMPUTE_MAJOR = 75,
	ATTRIBUTE_COMPUTE_MINOR = 76,
	ATTRIBUTE_SHARED_PER_MULTIPROCESSOR = 81,
	ATTRIBUTE_REGISTERS_PER_MULTIPROCESSOR = 82,
	ATTRIBUTE_SHARED_PER_BLOCK_OPTIN = 97,
	ATTRIBUTE_BLOCKS_PER_MULTIPROCESSOR = 106,
};

int libcuda_load(struct libcuda *cuda, struct error *e)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{ "cuInit", &cuda->init },
		{ "cuDriverGetVersion", &cuda->driver_version },
		{ "cuGetErrorString", &cuda->get_error_string },
		{ "cuDeviceGetCount", &cuda->device_count },
		{ "cuDeviceGet", &cuda->device_get },
		{ "cuDeviceGetName", &cuda->device_name },
		{ "cuDeviceGetUuid", &cuda->device_uuid },
		{ "cuDeviceTotalMem_v2", &cuda->device_memory },
		{ "cuDeviceGetPCIBusId", &cuda->device_pci },
		{ "cuDeviceGetAttribute", &cuda->device_attribute },
	};

	*cuda = (struct libcuda){ .handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) };
	if (!cuda->handle)
		return error_set(e, E_UNSUPPORTED, "libcuda.so.1 cannot be loaded (%s)", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *found = dlsym(cuda->handle, functions[i].name);

		if (!found)
			return error_set(e, E_UNSUPPORTED,
					 "libcuda.so.1 has no %s: the driver is too old",
					 functions[i].name);
		*(void **)functions[i].function = found;
	}
	return 0;
}

static int failed(const struct libcuda *cuda, const char *call, int result, struct error *e)
{
	const char *text = NULL;

	cuda->get_error_string(result, &text);
	return error_set(e, E_UNSUPPORTED, "%s: %s (error %d)", call, text ? text : "unknown",
			 result);
}

int libcuda_init(struct libcuda *cuda, struct error *e)
{
	int result;

	/* cuInit would load what stands there into this process. */
	unsetenv("CUDA_INJECTION64_PATH");
	result = cuda->init(0);
	return result ? failed(cuda, "cuInit", result, e) : 0;
}

int libcuda_device_count(const struct libcuda *cuda)
{
	int count = 0;

	return cuda->device_count(&count) ? 0 : count;
}

static int attribute(const struct libcuda *cuda, int which, int device)
{
	int value;

	return cuda->device_attribute(&value, which, device) ? -1 : value;
}

static void format_uuid(const unsigned char *b, char *out, size_t size)
{
	snprintf(out, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

int libcuda_device(const struct libcuda *cuda, int ordinal, struct cuda_device *out,
		   struct error *e)
{
	unsigned char uuid[16];
	size_t memory;
	int device, result = cuda->device_get(&device, ordinal);

	if (result)
		return failed(cuda, "cuDeviceGet", result, e);
	*out = (struct cuda_device){
		.ordinal = ordinal,
		.compute_major = attribute(cuda, ATTRIBUTE_COMPUTE_MAJOR, device),
		.compute_minor = attribute(cuda, ATTRIBUTE_COMPUTE_MINOR, device),
		.multiprocessors = attribute(cuda, ATTRIBUTE_MULTIPROCESSORS, device),
		.clock_khz = attribute(cuda, ATTRIBUTE_CLOCK_KHZ, device),
		.memory_clock_khz = attribute(cuda, ATTRIBUTE_MEMORY_CLOCK_KHZ, device),
		.memory_bus_bits = attribute(cuda, ATTRIBUTE_MEMORY_BUS_BITS, device),
		.l2_bytes = attribute(cuda, ATTRIBUTE_L2_BYTES, device),
		.warp_size = attribute(cuda, ATTRIBUTE_WARP_SIZE, device),
		.threads_per_block = attribute(cuda, ATTRIBUTE_THREADS_PER_BLOCK, device),
		.threads_per_multiprocessor =
			attribute(cuda, ATTRIBUTE_THREADS_PER_MULTIPROCESSOR, device),
		.blocks_per_multiprocessor =
			attribute(cuda, ATTRIBUTE_BLOCKS_PER_MULTIPROCESSOR, device),
		.registers_per_multiprocessor =
			attribute(cuda, ATTRIBUTE_REGISTERS_PER_MULTIPROCESSOR, device),
		.shared_per_block_optin_bytes =
			attribute(cuda, ATTRIBUTE_SHARED_PER_BLOCK_OPTIN, device),
		.shared_per_multiprocessor_bytes =
			attribute(cuda, ATTRIBUTE_SHARED_PER_MULTIPROCESSOR, device),
		.copy_engines = attribute(cuda, ATTRIBUTE_COPY_ENGINES, device),
	};
	result = cuda->device_name(out->name, sizeof(out->name), device);
	if (result)
		return failed(cuda, "cuDeviceGetName", result, e);
	result = cuda->device_memory(&memory, device);
	if (result)
		return failed(cuda, "cuDeviceTotalMem", result, e);
	out->memory_bytes = memory;
	if (!cuda->device_uuid(uuid, device))
		format_uuid(uuid, out->uuid, sizeof(out->uuid));
	if (cuda->device_pci(out->pci, sizeof(out->pci), device))
		out->pci[0] = '\0';
	out->name[sizeof(out->name) - 1] = '\0';
	return 0;
}
