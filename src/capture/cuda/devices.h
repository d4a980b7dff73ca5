/* devices.h: rows for the GPUs that the process sees. Collector thread, after cuInit. */
#ifndef PITOT_CAPTURE_CUDA_DEVICES_H
#define PITOT_CAPTURE_CUDA_DEVICES_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

#define DEVICES_MAX 64

/* Writes a row for each device; 0 when the driver is not ready yet, else the number of devices. */
int devices_write(const struct driver *driver, struct writer *w);

/* PCI ids by CUDA ordinal, as devices_write found them. */
const char *const *devices_pci(void);

#endif
