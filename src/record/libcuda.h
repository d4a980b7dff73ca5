/*
 * libcuda.h: the few functions of the CUDA driver that `devices` and `doctor` call, through dlopen.
 * They are declared here, so that no CUDA toolkit is needed.
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

/* A(name, number): a CUdevice_attribute that is read; the number is part of the driver's ABI. */
#define CUDA_ATTRIBUTES(A)                                                                         \
	A(compute_major, 75)                                                                       \
	A(compute_minor, 76)                                                                       \
	A(multiprocessors, 16)                                                                     \
	A(clock_khz, 13)                                                                           \
	A(memory_clock_khz, 36)                                                                    \
	A(memory_bus_bits, 37)                                                                     \
	A(l2_bytes, 38)                                                                            \
	A(warp_size, 10)                                                                           \
	A(max_threads_per_block, 1)                                                                \
	A(max_threads_per_multiprocessor, 39)                                                      \
	A(max_blocks_per_multiprocessor, 106)                                                      \
	A(registers_per_multiprocessor, 82)                                                        \
	A(shared_per_block_optin_bytes, 97)                                                        \
	A(shared_per_multiprocessor_bytes, 81)                                                     \
	A(copy_engines, 40)

#define CUDA_ATTRIBUTE_MEMBER(name, number) int name; /* -1: unknown to this driver */
struct cuda_device {
	int ordinal;
	char name[256];
	char uuid[48]; /* GPU-… as nvidia-smi prints it */
	char pci[32];
	uint64_t memory_bytes;
	CUDA_ATTRIBUTES(CUDA_ATTRIBUTE_MEMBER)
};

/*
 * Loads libcuda.so.1 and finds its functions, without initialising it. Returns 0, or E_UNSUPPORTED
 * with the reason.
 */
int libcuda_load(struct libcuda *cuda, struct error *e) MUST_USE;
/* Calls cuInit without injecting any profiler. Returns 0 or E_UNSUPPORTED. */
int libcuda_init(struct libcuda *cuda, struct error *e) MUST_USE;
int libcuda_device_count(const struct libcuda *cuda); /* 0 if the driver fails */
int libcuda_device(const struct libcuda *cuda, int ordinal, struct cuda_device *out,
		   struct error *e) MUST_USE;

#endif
