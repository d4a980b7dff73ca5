/*
 * nvtx_source.h: NVTX ranges, marks and names, taken through NVTX's own injection interface (version 3), without any
 * NVIDIA header or library. The program's threads put events into their rings; the collector makes rows of them.
 *
 * Ranges at the edges of the window: a range that was pushed before the window opened shows up as a pop that nothing
 * on its thread's stack belongs to; one that is open when it closes has no pop. The same with start and end. Levels of
 * pushes and pops are counted outside the window too.
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

/*
 * The same for an extension of NVTX 3.1 and later; `extension` is what NVTX hands to InitializeInjectionNvtxExtension.
 * Of the payload extension, ranges and marks are taken (without what is in their payloads), and nvtxDomainIsEnabled
 * says yes: without it, clients of NVTX 3.2.0 and 3.2.1 would stay silent. Returns 1, or 0 when it is too strange.
 */
int nvtx_source_attach_extension(void *extension);

/*
 * Whether calls are recorded now; off outside the window of --delay and --duration. Domains, categories and registered
 * strings are noted all the same. Called before the collector's thread begins, so that a program's first calls are kept,
 * then by the collector. Until the first call, events wait in the rings, and it is decided when the collector takes
 * them; in the child of a fork they are dropped.
 */
void nvtx_source_window(bool on);

/* Makes rows of the event at `position` of the ring (RING_NVTX or RING_NVTX_NAME, all of whose slots are there).
 * Returns the number of its slots. Collector thread. */
uint64_t nvtx_source_event(struct writer *w, const struct ring *r, uint64_t position);

/* Writes the thread's row with the name that the program gave it through NVTX. false, and nothing is written, when it
 * gave none: then the system's name is the best there is. Collector thread. */
bool nvtx_source_thread_row(struct writer *w, uint32_t tid);

/* In the child of a fork: nothing is recorded until a session's collector opens its window; what was named before the
 * fork will be written into that session's recording too. */
void nvtx_source_after_fork(void);

#endif
