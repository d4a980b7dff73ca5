/*
 * amd_counters.h: hardware counters of chosen kernels (--engine range-profiler), from the SDK's
 * dispatch counting: it counts in one pass while the kernel runs once, and lets kernels of a GPU
 * run one after the other meanwhile. A counter's value is the sum of its instances'.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_COUNTERS_H
#define PITOT_CAPTURE_AMD_AMD_COUNTERS_H

#include "capture/amd/amd_api.h"
#include "capture/core/ring.h"
#include "format/writer.h"
#include "schema/settings.h"

/*
 * While the SDK initializes: makes the context that counts if the environment's session wants that,
 * because the SDK takes none later. Returns it, 0 without one.
 */
uint64_t amd_counters_configure(const struct amd_sdk *sdk);
/* A session begins: notes in its capabilities what is counted, or why nothing is. */
void amd_counters_start(const struct settings *wanted);

/* Called when a recording begins: metrics are written again. */
void amd_counters_begin(void);
/* Makes the row of a value; returns its slots. Collector's thread. */
uint64_t amd_counters_event(struct writer *w, const struct ring *r, uint64_t position);
/* Values of counters that were not asked for, since the recorder was loaded. */
uint64_t amd_counters_unknown(void);

#endif
