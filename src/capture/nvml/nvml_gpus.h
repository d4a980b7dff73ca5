/*
 * nvml_gpus.h: reads through NVML the GPUs that the process uses, or all GPUs of the machine if
 * CUPTI does not say which ones it uses. If several processes of a recording use one GPU, the first
 * of them reads it. The capability "nvml" lists what is missing. Vendor thread.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_GPUS_H
#define PITOT_CAPTURE_NVML_NVML_GPUS_H

#include "format/writer.h"
#include "system/nvml.h"

/*
 * Pushes the readings that are due. Returns false if there is nothing to read, now or later. `all`:
 * includes GPUs that are not known to be used.
 */
bool nvml_gpus_read(enum nvml_choice choice, bool all, const char *directory, uint64_t now_ns);
/* Writes the row of a GPU that CUDA has not named, before its readings. Collector's thread. */
void nvml_gpus_write(struct writer *w, uint32_t ordinal);
void nvml_gpus_after_fork(void);

#endif
