/*
 * amd_kernels.h: kernels by the ids that ROCprofiler-SDK gives them when their code is loaded, from
 * its callbacks. They are kept for the life of the process: records of work come later than the
 * code may be gone, and sessions begin later than it was loaded.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_KERNELS_H
#define PITOT_CAPTURE_AMD_AMD_KERNELS_H

#include "capture/amd/amd_api.h"

struct amd_kernel {
	const char *name; /* mangled; without the ".kd" of its descriptor */
	uint32_t vgprs, agprs; /* vector registers of a work item; accumulation registers */
	uint32_t group_bytes; /* static group memory */
};

amd_on_callback amd_kernels_on_callback;

/* Any thread; valid for ever. NULL: unknown. */
const struct amd_kernel *amd_kernel_find(uint64_t id);
/* Kernels for which there was no memory. */
uint64_t amd_kernels_refused(void);

#endif
