/*
 * attributes.h: what CUPTI is told of how its records are to be made.
 */
#ifndef PITOT_CAPTURE_CUDA_ATTRIBUTES_H
#define PITOT_CAPTURE_CUDA_ATTRIBUTES_H

#include "capture/cuda/vendor.h"

/* What has to be said before CUPTI makes its first context. */
void attributes_set(const struct cupti *cupti);

/* Whether the buffers that CUPTI gets are zeroed. Others' are not. */
void attributes_zeroed(const struct cupti *cupti, uint8_t zeroed);

#endif
