/* devices.h: the GPUs that the process sees, and which of them it uses. */
#ifndef PITOT_CAPTURE_CUDA_DEVICES_H
#define PITOT_CAPTURE_CUDA_DEVICES_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

#define DEVICES_MAX 64

/*
 * Asks the driver about all devices; false when it is not ready yet. On the vendor thread: the
 * driver may hang with a GPU.
 */
bool devices_read(const struct driver *driver);

/*
 * Writes a row for each device, once they have been read. Collector's thread; true when it has done
 * that.
 */
bool devices_write(struct writer *w);
void devices_reset(void);

/* The process has a context on this device. Collector's thread. */
void devices_in_use(uint32_t ordinal);

/*
 * PCI id of a device that the process uses; NULL: it does not use it, it is not known (yet), or
 * there is none with this ordinal. Any thread.
 */
const char *devices_pci(uint32_t ordinal);
/* Whether a device with a PCI id is a part of a GPU (MIG), whose id that is. Any thread. */
bool devices_is_part(uint32_t ordinal);

#endif
