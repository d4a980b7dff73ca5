/*
 * theoretical_occupancy.h: how many warps of a kernel can be resident on a multiprocessor, as a
 * share of its maximum, and which resource is the limit. From NVIDIA's "CUDA C++ Programming
 * Guide", section "Hardware Multithreading" and the tables of technical specifications by compute
 * capability, and from the CUDA Occupancy Calculator.
 */
#ifndef PITOT_SCHEMA_THEORETICAL_OCCUPANCY_H
#define PITOT_SCHEMA_THEORETICAL_OCCUPANCY_H

#include "schema/schema.h"

enum occupancy_limiter {
	OCCUPANCY_WARPS, /* threads per multiprocessor */
	OCCUPANCY_REGISTERS,
	OCCUPANCY_BLOCKS, /* blocks per multiprocessor */
	OCCUPANCY_SHARED, /* last: the driver sizes shared memory to fit the others */
	OCCUPANCY_LIMITERS,
};

struct occupancy_device {
	uint32_t compute_major, compute_minor;
	uint32_t warp_size;
	uint32_t max_threads, max_blocks; /* per multiprocessor; max_blocks 0: unknown */
	uint32_t registers; /* per multiprocessor */
	uint32_t shared_bytes; /* per multiprocessor */
	uint32_t reserved_shared_bytes; /* per block */
	uint32_t multiprocessors;
};

struct occupancy_kernel {
	uint64_t block_threads;
	uint32_t registers; /* per thread */
	uint64_t shared_bytes; /* static and dynamic, per block */
	uint32_t configured_shared_bytes; /* configured per multiprocessor; 0: unknown */
	uint64_t grid_blocks;
};

struct occupancy {
	uint32_t blocks, warps; /* resident per multiprocessor; 0: a block does not fit */
	uint32_t max_warps;
	enum occupancy_limiter limiter; /* the first one where several are equal */
	uint32_t limits[OCCUPANCY_LIMITERS]; /* resident blocks by each limit; UINT32_MAX: any */
	uint64_t waves_milli; /* 1000 * blocks of the grid / resident blocks; 0: unknown */
};

/* Returns 0, or E_UNSUPPORTED when too few limits are known. */
int occupancy_compute(const struct occupancy_device *d, const struct occupancy_kernel *k,
		      struct occupancy *out);

/* Computes the occupancy from rows; missing values count as unknown. */
int occupancy_of(const struct row_device *device, const struct row_kernel_config *config,
		 struct occupancy *out);

/*
 * Sets the multiprocessor limits of a row that has none, by its compute capability. Does nothing
 * for unknown capabilities.
 */
void occupancy_add_limits(struct row_device *device);

/* "warps", "registers", "shared memory", "blocks". */
const char *occupancy_limiter_name(unsigned limiter);

#endif
