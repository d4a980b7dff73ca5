/*
 * nvtx_source.h: NVTX ranges, marks and names, taken through NVTX's own injection interface
 * (version 3), without any NVIDIA header or library. The program's threads put events into their
 * rings; the collector makes rows of them.
 *
 * Ranges at the edges of the window: a range that was pushed before the window opened shows up as a
 * pop that nothing on its thread's stack belongs to; one that is open when it closes has no pop.
 * The same with start and end. Levels of pushes and pops are counted outside the window too.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_SOURCE_H
#define PITOT_CAPTURE_NVTX_NVTX_SOURCE_H

#include <stdbool.h>

#include "capture/source.h"

/*
 * Fills the client's function tables with ours. `get_export_table` is what NVTX hands to
 * InitializeInjectionNvtx2; it may be called once for each NVTX client library of the process.
 * Returns 1, or 0 when the client is too strange.
 */
int nvtx_source_attach(void *get_export_table);

/*
 * The same for an extension of NVTX 3.1 and later; `extension` is what NVTX hands to
 * InitializeInjectionNvtxExtension. Of the payload extension, ranges and marks are taken (without
 * what is in their payloads), and nvtxDomainIsEnabled says yes: without it, clients of NVTX 3.2.0
 * and 3.2.1 would stay silent. Returns 1, or 0 when it is too strange.
 */
int nvtx_source_attach_extension(void *extension);

/*
 * Calls are recorded while a window is open; outside of it domains, categories and registered
 * strings are noted all the same. Until the first window events wait in the rings, and it is
 * decided when the collector takes them; in the child of a fork they are dropped, and what was
 * named before the fork is written into the child's recording too.
 */
extern const struct source nvtx_source;

#endif
