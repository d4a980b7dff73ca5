/* libcuda.c: queries the CUDA driver for the machine's GPUs. */
#include "vendor/nvidia/libcuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int libcuda_find(void *handle, const struct libcuda_function *functions, size_t count,
		 struct error *e)
{
	for (size_t i = 0; i < count; i++) {
		void *found = dlsym(handle, functions[i].name);

		if (!found)
			return error_set(e, E_UNSUPPORTED,
					 "libcuda.so.1 has no %s: the driver is too old",
					 functions[i].name);
		*(void **)functions[i].pointer = found;
	}
	return 0;
}

int libcuda_load(struct libcuda *cuda, struct error *e)
{
	const struct libcuda_function functions[] = {
#define FUNCTION(member, symbol, parameters) { symbol, &cuda->member },
		LIBCUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};

	*cuda = (struct libcuda){ .handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) };
	if (!cuda->handle)
		return error_set(e, E_UNSUPPORTED, "libcuda.so.1 cannot be loaded (%s)", dlerror());
	return libcuda_find(cuda->handle, functions, ARRAY_SIZE(functions), e);
}

int libcuda_check(const struct libcuda *cuda, const char *call, int result, struct error *e)
{
	const char *text = NULL;

	if (!result)
		return 0;
	cuda->get_error_string(result, &text);
	return error_set(e, E_UNSUPPORTED, "%s: %s (error %d)", call, text ? text : "unknown",
			 result);
}

int libcuda_init(struct libcuda *cuda, struct error *e)
{
	/* cuInit would load that library into this process. */
	unsetenv("CUDA_INJECTION64_PATH");
	return libcuda_check(cuda, "cuInit", cuda->init(0), e);
}

int libcuda_device_count(const struct libcuda *cuda)
{
	int count = 0;

	return cuda->device_count(&count) ? 0 : count;
}

/* CUdevice_attribute; the numbers are part of the driver's ABI. */
static const struct {
	int number;
	size_t offset; /* of the limit in a struct gpu */
} attributes[] = {
	{ 75, offsetof(struct gpu, limits.compute_major) },
	{ 76, offsetof(struct gpu, limits.compute_minor) },
	{ 16, offsetof(struct gpu, limits.multiprocessors) },
	{ 13, offsetof(struct gpu, limits.clock_khz) },
	{ 36, offsetof(struct gpu, limits.memory_clock_khz) },
	{ 37, offsetof(struct gpu, limits.memory_bus_bits) },
	{ 38, offsetof(struct gpu, limits.l2_bytes) },
	{ 10, offsetof(struct gpu, limits.warp_size) },
	{ 1, offsetof(struct gpu, limits.max_threads_per_block) },
	{ 39, offsetof(struct gpu, limits.max_threads_per_multiprocessor) },
	{ 106, offsetof(struct gpu, limits.max_blocks_per_multiprocessor) },
	{ 82, offsetof(struct gpu, limits.registers_per_multiprocessor) },
	{ 97, offsetof(struct gpu, limits.shared_per_block_optin_bytes) },
	{ 81, offsetof(struct gpu, limits.shared_per_multiprocessor_bytes) },
	{ 40, offsetof(struct gpu, limits.copy_engines) },
};

static void format_uuid(const unsigned char *b, char *out, size_t size)
{
	snprintf(out, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

static int describe(const struct libcuda *cuda, int ordinal, struct gpu *out, struct error *e)
{
	unsigned char uuid[16];
	size_t memory;
	int device, result = cuda->device_get(&device, ordinal);

	if (result)
		return libcuda_check(cuda, "cuDeviceGet", result, e);
	*out = (struct gpu){ .ordinal = ordinal };
	memset(&out->limits, 0xff, sizeof(out->limits)); /* -1: this driver does not know it */
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		int value;

		if (!cuda->device_attribute(&value, attributes[i].number, device))
			memcpy((char *)out + attributes[i].offset, &value, sizeof(value));
	}
	result = cuda->device_name(out->name, sizeof(out->name), device);
	if (result)
		return libcuda_check(cuda, "cuDeviceGetName", result, e);
	result = cuda->device_memory(&memory, device);
	if (result)
		return libcuda_check(cuda, "cuDeviceTotalMem", result, e);
	out->memory_bytes = memory;
	if (!cuda->device_uuid(uuid, device))
		format_uuid(uuid, out->uuid, sizeof(out->uuid));
	if (cuda->device_pci(out->pci, sizeof(out->pci), device))
		out->pci[0] = '\0';
	out->name[sizeof(out->name) - 1] = '\0';
	snprintf(out->architecture, sizeof(out->architecture), "compute capability %d.%d",
		 out->limits.compute_major, out->limits.compute_minor);
	return 0;
}

int libcuda_gpus(struct gpus *out, struct error *e)
{
	struct libcuda cuda;
	int count, rc = libcuda_load(&cuda, e);

	if (rc == 0)
		rc = libcuda_init(&cuda, e);
	if (rc < 0)
		return rc;
	count = libcuda_device_count(&cuda);
	for (int i = 0; i < count && rc == 0; i++) {
		struct gpu gpu;

		rc = describe(&cuda, i, &gpu, e) < 0 ? -EIO : 0;
		if (rc == 0 && vec_push(&out->list, gpu) < 0)
			rc = error_set(e, -ENOMEM, "out of memory");
	}
	return count ? rc : error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
}
