/*
 * nvml_gpus.h: the GPUs that the process uses, or where CUPTI does not say which those are, all of
 * the machine, read through NVML. Where several processes of a recording use one GPU, the first of
 * them reads it. What does not come is in the capability "nvml". Vendor thread.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_GPUS_H
#define PITOT_CAPTURE_NVML_NVML_GPUS_H

#include "format/writer.h"
#include "system/nvml.h"

/*
 * Makes events of what is due. false: there is nothing to read, now and later. `all`: also of GPUs
 * that are not known to be used.
 */
bool nvml_gpus_read(enum nvml_choice choice, bool all, const char *directory, uint64_t now_ns);
/*
 * The collector's, before readings: the row of a GPU that is read although CUDA has not named it.
 */
void nvml_gpus_write(struct writer *w, uint32_t ordinal);
void nvml_gpus_after_fork(void);

#endif
