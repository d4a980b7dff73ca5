/*
 * libcuda.h: the functions of the CUDA driver that `devices` and `doctor` call, through dlopen.
 * They are declared here, so that no CUDA toolkit is needed.
 */
#ifndef PITOT_VENDOR_LIBCUDA_H
#define PITOT_VENDOR_LIBCUDA_H

#include "vendor/machine.h"

/* F(member, symbol, parameters): functions that return a CUresult */
#define LIBCUDA_FUNCTIONS(F)                                                                       \
	F(init, "cuInit", (unsigned flags))                                                        \
	F(driver_version, "cuDriverGetVersion", (int *version))                                    \
	F(get_error_string, "cuGetErrorString", (int error, const char **text))                    \
	F(device_count, "cuDeviceGetCount", (int *count))                                          \
	F(device_get, "cuDeviceGet", (int *device, int ordinal))                                   \
	F(device_name, "cuDeviceGetName", (char *name, int length, int device))                    \
	F(device_uuid, "cuDeviceGetUuid", (unsigned char uuid[16], int device))                    \
	F(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                      \
	F(device_pci, "cuDeviceGetPCIBusId", (char *id, int length, int device))                   \
	F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))

#define LIBCUDA_MEMBER(member, symbol, parameters) int(*member) parameters;
struct libcuda {
	void *handle;
	LIBCUDA_FUNCTIONS(LIBCUDA_MEMBER)
};

struct libcuda_function {
	const char *name;
	void *pointer; /* to the pointer that libcuda_find sets */
};
/* Sets the pointers. Returns 0, or E_UNSUPPORTED if one is missing. */
int libcuda_find(void *handle, const struct libcuda_function *functions, size_t count,
		 struct error *e) MUST_USE;
/*
 * Loads libcuda.so.1 and finds its functions, without initialising it. Returns 0, or E_UNSUPPORTED
 * with the reason.
 */
int libcuda_load(struct libcuda *cuda, struct error *e) MUST_USE;
/* Sets the error of a call that failed, and returns its code; 0 if `result` is 0. */
int libcuda_check(const struct libcuda *cuda, const char *call, int result, struct error *e);
/* Calls cuInit without injecting any profiler. Returns 0 or E_UNSUPPORTED. */
int libcuda_init(struct libcuda *cuda, struct error *e) MUST_USE;
int libcuda_device_count(const struct libcuda *cuda); /* 0 if the driver fails */
/* Appends the GPUs that the driver shows to this process; see vendor_machine. */
int libcuda_gpus(struct gpus *out, struct error *e) MUST_USE;

#endif
