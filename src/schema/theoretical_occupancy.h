/*
 * theoretical_occupancy.h: theoretical occupancy: how many warps of a kernel can be resident on a
 * multiprocessor, as a share of what it can hold, and which resource is the limit. After NVIDIA's
 * documents: "CUDA C++ Programming Guide", section "Hardware Multithreading" and the tables of
 * technical specifications by compute capability, and the CUDA Occupancy Calculator.
 */
#ifndef PITOT_SCHEMA_THEORETICAL_OCCUPANCY_H
#define PITOT_SCHEMA_THEORETICAL_OCCUPANCY_H

#include "schema/schema.h"

enum occupancy_limiter {
	OCCUPANCY_WARPS, /* threads per multiprocessor */
	OCCUPANCY_REGISTERS,
	OCCUPANCY_BLOCKS, /* blocks per multiprocessor */
	OCCUPANCY_SHARED, /* shared memory; last: the driver sets its size to fit the others */
	OCCUPANCY_LIMITERS,
};

struct occupancy_device {
	uint32_t compute_major, compute_minor;
	uint32_t warp_size;
	uint32_t max_threads, max_blocks; /* per multiprocessor; max_blocks 0: unknown */
	uint32_t registers; /* per multiprocessor */
	uint32_t shared_bytes; /* per multiprocessor */
	uint32_t reserved_shared_bytes; /* of every block */
	uint32_t multiprocessors;
};

struct occupancy_kernel {
	uint64_t block_threads;
	uint32_t registers; /* per thread */
	uint64_t shared_bytes; /* static and dynamic, per block */
	uint32_t configured_shared_bytes; /* what the run was set to, of all blocks; 0: unknown */
	uint64_t grid_blocks;
};

struct occupancy {
	uint32_t blocks, warps; /* resident per multiprocessor; 0: such a block does not fit */
	uint32_t max_warps;
	enum occupancy_limiter limiter; /* the first in their order where several are equal */
	uint32_t limits[OCCUPANCY_LIMITERS]; /* blocks if only this counted; UINT32_MAX: no limit */
	uint64_t waves_milli; /* 1000 * blocks of the grid / those resident at once; 0: unknown */
};

/* 0, or E_UNSUPPORTED when the limits are not known well enough. */
int occupancy_compute(const struct occupancy_device *d, const struct occupancy_kernel *k,
		      struct occupancy *out);

/* Of rows of these tables. A missing value counts as unknown. */
int occupancy_of(const struct row_device *device, const struct row_kernel_config *config,
		 struct occupancy *out);

/*
 * Gives a row without limits of multiprocessors those of its compute capability, by the same
 * tables. A capability that they did not have yet: nothing.
 */
void occupancy_add_limits(struct row_device *device);

/* "warps", "registers", "shared memory", "blocks". */
const char *occupancy_limiter_name(unsigned limiter);

#endif
