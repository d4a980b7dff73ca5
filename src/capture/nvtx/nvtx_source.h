/*
 * nvtx_source.h: NVTX ranges, marks and names, taken through NVTX's own injection interface (version 3), without any
 * NVIDIA header or library. The program's threads put events into their rings; the collector makes rows of them.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_SOURCE_H
#define PITOT_CAPTURE_NVTX_NVTX_SOURCE_H

#include <stdbool.h>

#include "capture/ring.h"
#include "format/writer.h"

/*
 * Fills the client's function tables with ours. `get_export_table` is what NVTX hands to InitializeInjectionNvtx2; it
 * may be called once for each NVTX client library of the process. Returns 1, or 0 when the client is too strange.
 */
int nvtx_source_attach(void *get_export_table);

/* Whether calls are recorded now; off outside the window of --delay and --duration. Domains, categories and registered
 * strings are noted all the same. Collector thread. */
void nvtx_source_window(bool on);

/* Makes rows of the event at `position` of the ring (RING_NVTX or RING_NVTX_NAME, all of whose slots are there).
 * Returns the number of its slots. Collector thread. */
uint64_t nvtx_source_event(struct writer *w, const struct ring *r, uint64_t position);

#endif
