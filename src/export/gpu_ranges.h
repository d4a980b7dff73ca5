/*
 * gpu_ranges.h: scopes and NVTX ranges as the GPU saw them: for each pushed range and each stream with work that was
 * launched inside it (at any depth, on any thread that carries it on), the time from the start of the first such work to
 * the end of the last.
 */
#ifndef PITOT_EXPORT_GPU_RANGES_H
#define PITOT_EXPORT_GPU_RANGES_H

#include "base/vec.h"
#include "export/export_view.h"

struct gpu_range {
	uint64_t start_ns, end_ns;
	uint32_t range; /* of nvtx_ranges */
	uint32_t nvtx_row; /* that pushed it */
	uint32_t process, context, stream, device;
};

struct gpu_ranges {
	VEC(struct gpu_range) items; /* by start; what encloses before what is enclosed */
};

int gpu_ranges_init(struct gpu_ranges *g, const struct export_view *v) MUST_USE; /* 0 or -ENOMEM */
void gpu_ranges_release(struct gpu_ranges *g);

#endif
