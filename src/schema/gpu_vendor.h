/* gpu_vendor.h: the makers of GPUs (enum gpu_vendor) by the names that they have everywhere. */
#ifndef PITOT_SCHEMA_GPU_VENDOR_H
#define PITOT_SCHEMA_GPU_VENDOR_H

#include <string.h>

#include "schema/schema.h"

/* NULL: unknown. */
static inline const char *gpu_vendor_title(unsigned vendor)
{
	return vendor == gpu_vendor_nvidia  ? "NVIDIA"
	       : vendor == gpu_vendor_amd   ? "AMD"
	       : vendor == gpu_vendor_intel ? "Intel"
					    : NULL;
}

static inline enum gpu_vendor gpu_vendor_by_title(const char *title)
{
	unsigned vendor = gpu_vendor_intel;

	while (vendor != gpu_vendor_unknown && strcmp(gpu_vendor_title(vendor), title) != 0)
		vendor--;
	return (enum gpu_vendor)vendor;
}

#endif
