/*
 * kernel_configs.h: which row of kernel_config a kernel's record belongs to. Collector thread only.
 */
#ifndef PITOT_CAPTURE_CUDA_KERNEL_CONFIGS_H
#define PITOT_CAPTURE_CUDA_KERNEL_CONFIGS_H

#include "capture/cuda/records.h"
#include "format/writer.h"

/* Id of the record's name, grid, block, registers and so on; the row is made when it is new. */
uint32_t kernel_config_of(struct writer *w, const struct record_kernel *record);

/*
 * Forgets names by address: a module was unloaded and its memory may be used again, or a session
 * begins.
 */
void kernel_configs_forget(void);

/* In the child of a fork: the collector may have been in the middle of it. Memory is leaked. */
void kernel_configs_after_fork(void);

#endif
