/*
 * libcuda.h: the few functions of the CUDA driver that `devices` and `doctor` ask, through dlopen. Declared here, so
 * that no CUDA toolkit is needed.
 */
#ifndef PITOT_RECORD_LIBCUDA_H
#define PITOT_RECORD_LIBCUDA_H

#include "base/error.h"

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

struct cuda_device {
	int ordinal;
	char name[256];
	char uuid[48]; /* GPU-… as nvidia-smi prints it */
	char pci[32];
	uint64_t memory_bytes;
	int compute_major, compute_minor;
	int multiprocessors, clock_khz, memory_clock_khz, memory_bus_bits;
	int l2_bytes, warp_size;
	int threads_per_block, threads_per_multiprocessor, blocks_per_multiprocessor;
	int registers_per_multiprocessor;
	int shared_per_block_optin_bytes, shared_per_multiprocessor_bytes;
	int copy_engines;
}; /* -1: this driver does not say */

/* Loads libcuda.so.1 and finds its functions; nothing is initialised. 0, or E_UNSUPPORTED with the reason. */
int libcuda_load(struct libcuda *cuda, struct error *e) MUST_USE;
/* cuInit, without any profiler's injection. 0 or E_UNSUPPORTED. */
int libcuda_init(struct libcuda *cuda, struct error *e) MUST_USE;
int libcuda_device_count(const struct libcuda *cuda); /* 0 when it cannot be told */
int libcuda_device(const struct libcuda *cuda, int ordinal, struct cuda_device *out,
		   struct error *e) MUST_USE;

#endif
