/* devices.h: the GPUs that the process can see, and which of them it uses. */
#ifndef PITOT_CAPTURE_CUDA_DEVICES_H
#define PITOT_CAPTURE_CUDA_DEVICES_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

#define DEVICES_MAX 64

/*
 * Reads all devices from the driver; returns false if the driver is not ready yet. Must be called
 * on the vendor thread, because the driver may hang with a GPU.
 */
bool devices_read(const struct driver *driver);

/*
 * Writes a row for each device, once they have been read; returns whether it did. Collector's
 * thread.
 */
bool devices_write(struct writer *w);
void devices_reset(void);

/* Notes that the process has a context on this device. Collector's thread. */
void devices_note_use(uint32_t ordinal);

/*
 * Returns the PCI id of a device that the process uses; NULL: the process does not use it, the id
 * is not known (yet), or no device has this ordinal. Any thread.
 */
const char *devices_pci(uint32_t ordinal);
/* Whether a device is a part of a GPU (MIG); its PCI id is then that GPU's. Any thread. */
bool devices_is_part(uint32_t ordinal);

#endif
