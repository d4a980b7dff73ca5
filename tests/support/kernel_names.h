/*
 * kernel_names.h: what kernels of PyTorch and the CUDA libraries are called, for synthetic
 * recordings.
 */
#ifndef PITOT_TESTS_KERNEL_NAMES_H
#define PITOT_TESTS_KERNEL_NAMES_H

#include "support/make_recording.h"

#define KERNEL_NAMES 40

/* Configuration of kernel i < KERNEL_NAMES, with a launch that fits its kind. */
uint32_t kernel_names_config(struct maker *m, unsigned i);

#endif
