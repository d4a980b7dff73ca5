/*
 * cuda_source.h: what CUDA does, through CUPTI: work on the GPU from activity records (activity.h), calls from callbacks
 * (api_calls.h). CUPTI is entered on three threads: the one that initializes CUDA (start), the vendor thread (flushes, windows),
 * and, only to step through a buffer that CUPTI has handed back, the collector's.
 */
#ifndef PITOT_CAPTURE_CUDA_CUDA_SOURCE_H
#define PITOT_CAPTURE_CUDA_CUDA_SOURCE_H

#include "capture/source.h"

extern const struct source cuda_source;

#endif
