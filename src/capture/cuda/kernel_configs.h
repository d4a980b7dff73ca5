/*
 * kernel_configs.h: finds the row of kernel_config that a kernel record belongs to. Must be called
 * on the collector's thread.
 */
#ifndef PITOT_CAPTURE_CUDA_KERNEL_CONFIGS_H
#define PITOT_CAPTURE_CUDA_KERNEL_CONFIGS_H

#include "capture/cuda/records.h"
#include "format/writer.h"

/* Returns the id of the record's name, grid, block, registers etc.; writes the row if it is new. */
uint32_t kernel_config_of(struct writer *w, const struct record_kernel *record);

/*
 * Forgets names by address, because a module was unloaded and its memory may be reused, or because
 * a session begins.
 */
void kernel_configs_forget(void);

/* Called in the child of a fork. Leaks the memory, which the collector may have been using. */
void kernel_configs_after_fork(void);

#endif
