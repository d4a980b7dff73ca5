/*
 * libcuda.h: the few functions of the CUDA driver that `devices` and `doctor` call, through dlopen.
 * They are declared here, so that no CUDA toolkit is needed.
 */
#ifndef PITOT_VENDOR_LIBCUDA_H
#define PITOT_VENDOR_LIBCUDA_H

#include "vendor/machine.h"

struct libcuda {
	void *handle;
	int (*init)(unsigned flags);
	int (*driver_version)(int *version);
	int (*get_error_string)(int error, const char **text);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int length, int device);
	int (*device_uuid)(unsigned char *uuid, int device); /* 16 bytes */
	int (*device_memory)(size_t *bytes, int device);
	int (*device_pci)(char *id, int length, int device);
	int (*device_attribute)(int *value, int attribute, int device);
};

/*
 * Loads libcuda.so.1 and finds its functions, without initialising it. Returns 0, or E_UNSUPPORTED
 * with the reason.
 */
int libcuda_load(struct libcuda *cuda, struct error *e) MUST_USE;
/* Calls cuInit without injecting any profiler. Returns 0 or E_UNSUPPORTED. */
int libcuda_init(struct libcuda *cuda, struct error *e) MUST_USE;
int libcuda_device_count(const struct libcuda *cuda); /* 0 if the driver fails */
/* Appends the GPUs that the driver shows to this process; see vendor_machine. */
int libcuda_gpus(struct gpus *out, struct error *e) MUST_USE;

#endif
