/*
 * nvml_gpus.h: the GPUs that the process uses, read through NVML. Where several processes of a recording use one GPU, the first of
 * them reads it. What does not come is in the capability "nvml". Vendor thread.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_GPUS_H
#define PITOT_CAPTURE_NVML_NVML_GPUS_H

#include "system/nvml.h"

/* Makes events of what is due. false: there is nothing to read, now and later. */
bool nvml_gpus_read(enum nvml_choice choice, const char *directory, uint64_t now_ns);
void nvml_gpus_after_fork(void);

#endif
