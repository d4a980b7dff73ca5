/* amd_devices.h: AMD's GPUs, by the agents of ROCprofiler-SDK. */
#ifndef PITOT_CAPTURE_AMD_AMD_DEVICES_H
#define PITOT_CAPTURE_AMD_AMD_DEVICES_H

#include <stdint.h>

#include "capture/amd/amd_api.h"
#include "format/writer.h"

#define AMD_NO_DEVICE UINT32_MAX
#define AMD_GPUS_MAX 64u

/* Asks the SDK while it initializes. Returns its status. */
int amd_devices_read(const struct amd_sdk *sdk);
unsigned amd_devices_count(void); /* at most AMD_GPUS_MAX */
uint64_t amd_devices_agent(unsigned index);
/* Writes their rows. Collector's thread. */
void amd_devices_write(struct writer *w);
/*
 * Returns the number of an agent's GPU in recordings: HIP's ordinal, from amd_devices_first() on;
 * AMD_NO_DEVICE if it is no GPU, or not visible to HIP.
 */
uint32_t amd_device_of(uint64_t agent);
/* Likewise, by a PCI address as Linux writes it. */
uint32_t amd_device_at(const char *pci);
/* 0; another number on a machine whose first numbers are those of NVIDIA's GPUs. */
uint32_t amd_devices_first(void);

#endif
