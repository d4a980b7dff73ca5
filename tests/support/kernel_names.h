/* kernel_names.h: names of kernels of PyTorch and the CUDA libraries, for synthetic recordings. */
#ifndef PITOT_TESTS_KERNEL_NAMES_H
#define PITOT_TESTS_KERNEL_NAMES_H

#include "support/make_recording.h"

#define KERNEL_NAMES 40

/* Returns the configuration of kernel i < KERNEL_NAMES, with a launch that is typical of it. */
uint32_t kernel_names_config(struct maker *m, unsigned i);

#endif
