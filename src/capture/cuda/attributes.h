/* attributes.h: sets CUPTI's attributes for its activity records. */
#ifndef PITOT_CAPTURE_CUDA_ATTRIBUTES_H
#define PITOT_CAPTURE_CUDA_ATTRIBUTES_H

#include "capture/cuda/vendor.h"

/* Sets the attributes that CUPTI needs before it creates its first context. */
void attributes_set(const struct cupti *cupti);

/* Says whether the buffers that CUPTI receives are zeroed; those of other clients are not. */
void attributes_zeroed(const struct cupti *cupti, uint8_t zeroed);

#endif
