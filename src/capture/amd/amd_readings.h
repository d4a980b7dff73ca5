/*
 * amd_readings.h: reads, from files of the kernel's driver, the GPUs that HIP may use, or all of
 * the machine where HIP is not recorded. If several processes of a recording use one, the first of
 * them reads it. Vendor thread.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_READINGS_H
#define PITOT_CAPTURE_AMD_AMD_READINGS_H

#include "format/writer.h"

/* Pushes the readings that are due. Returns false if the machine has none of these GPUs. */
bool amd_readings_read(bool all, const char *directory, uint64_t now_ns);
/* Writes the row of a GPU that HIP has not named, before its readings. Collector's thread. */
void amd_readings_write(struct writer *w, uint32_t device);
void amd_readings_after_fork(void);

#endif
