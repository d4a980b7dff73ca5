/*
 * nvml_source.h: utilization, clocks, power, temperature, memory and energy of the GPUs, read from NVML (libnvidia-ml,
 * found at run time) into the tables counter (ids 1 to NVML_COUNTERS) and counter_sample. Collector's thread only.
 *
 * A counter whose function is missing, or that a GPU does not support, is left out, and a capability row says so; the
 * others go on. NVML is never shut down: the process may be dying, and others in it may use NVML.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_SOURCE_H
#define PITOT_CAPTURE_NVML_NVML_SOURCE_H

#include "format/writer.h"

#define NVML_COUNTERS 8
#define NVML_DEVICES_MAX 64

/* From now on nvml_source_sample does something. Takes no time. */
void nvml_source_start(void);

/*
 * Reads the counters of the devices whose PCI ids are given, by CUDA ordinal (NULL: skipped), and writes a row for each;
 * the energy, which is dear, not each time.
 * The first call loads and initializes NVML, which takes a while and the loader's lock: not for the end of a process.
 */
void nvml_source_sample(struct writer *w, const char *const *pci_by_cuda_ordinal, unsigned devices,
			uint64_t now_ns);

/* In the child of a fork, before another session: it must start again. */
void nvml_source_after_fork(void);

#endif
