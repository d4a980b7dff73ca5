/*
 * nvtx_source.h: NVTX ranges, marks and names, received through NVTX's own injection interface
 * (version 3), without any NVIDIA header or library. The program's threads put events into their
 * rings; the collector makes rows of them.
 *
 * At the edges of the window: a range that was pushed before the window opened appears as a pop
 * without a push on its thread's stack; a range that is open when the window closes has no pop. The
 * same holds for start and end. Levels of pushes and pops are counted outside the window too.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_SOURCE_H
#define PITOT_CAPTURE_NVTX_NVTX_SOURCE_H

#include <stdbool.h>

#include "capture/core/source.h"

/*
 * Fills the client's function tables with ours. `get_export_table` is the argument of
 * InitializeInjectionNvtx2; this may be called once for each NVTX client library of the process.
 * Returns 1, or 0 if the client does not follow the interface.
 */
int nvtx_source_attach(void *get_export_table);

/*
 * The same for an extension of NVTX 3.1 and later; `extension` is the argument of
 * InitializeInjectionNvtxExtension. Of the payload extension, ranges and marks are recorded
 * (without their payloads), and nvtxDomainIsEnabled returns true: otherwise clients of NVTX 3.2.0
 * and 3.2.1 would stay silent. Returns 1, or 0 if the extension does not follow the interface.
 */
int nvtx_source_attach_extension(void *extension);

/*
 * Calls are recorded while a window is open; domains, categories and registered strings are added
 * to the names at any time. Before the first window, events wait in the rings until the collector
 * takes them, which decides whether they are recorded; in the child of a fork they are dropped, and
 * names given before the fork are written into the child's recording too.
 */
extern const struct source nvtx_source;

#endif
