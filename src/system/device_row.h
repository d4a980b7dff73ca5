/* device_row.h: a GPU that only NVML is asked about, as a row of table device. */
#ifndef PITOT_SYSTEM_DEVICE_ROW_H
#define PITOT_SYSTEM_DEVICE_ROW_H

#include "format/writer.h"
#include "system/nvml.h"

/* What NVML does not say of a GPU is missing. */
void device_row_write(struct writer *w, uint32_t id, const struct nvml_description *is);

#endif
