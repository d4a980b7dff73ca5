/* libcuda.c: queries the CUDA driver for the machine's GPUs. */
#include "record/libcuda.h"

#include <dlfcn.h>
#include <stdio.h>

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

	/* cuInit would load that library into this process. */
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
	*out = (struct cuda_device){ .ordinal = ordinal,
#define READ_ATTRIBUTE(name_, number) .name_ = attribute(cuda, number, device),
				     CUDA_ATTRIBUTES(READ_ATTRIBUTE)
#undef READ_ATTRIBUTE
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
