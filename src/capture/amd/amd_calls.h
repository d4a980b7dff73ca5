/*
 * amd_calls.h: HIP's calls and ROCTx's ranges, from callbacks of ROCprofiler-SDK on the program's
 * threads. They neither lock nor allocate.
 *
 * RING_HIP_CALL, two slots: a start, b end, c operation, d result, e stack; then a correlation.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_CALLS_H
#define PITOT_CAPTURE_AMD_AMD_CALLS_H

#include <stdbool.h>

#include "capture/amd/amd_api.h"
#include "capture/core/ring.h"
#include "format/writer.h"

/*
 * Whether an operation of HIP or ROCTx is watched; notes its name (of static storage). While the
 * SDK initializes.
 */
bool amd_calls_wants(uint32_t kind, int32_t operation, const char *name);

amd_on_callback amd_calls_on_callback;

/*
 * The external id of work, which says what its record does not: records name a hardware queue,
 * which streams share, and no graph. 0: unknown, or more than these bits have.
 */
struct amd_origin {
	uint64_t stream : 20; /* its id plus 1 */
	uint64_t graph : 22;
	uint64_t
		node : 22; /* number in a launch of that graph, from 1: in the order of enqueuing */
};
_Static_assert(sizeof(struct amd_origin) == sizeof(uint64_t), "an external id");

/* The SDK tells the stream of a call, or the graph that one launches, before and after it. */
amd_on_callback amd_calls_on_origin;
/* The SDK requests the external id of work, on the thread that enqueues it. */
amd_on_request amd_calls_on_request;

/* Makes the row of a call; returns its slots. Collector's thread. */
uint64_t amd_calls_event(struct writer *w, const struct ring *r, uint64_t position);
/* Number of operations of HIP that are watched. */
unsigned amd_calls_watched(void);
/* Called when a recording begins: functions are written again. */
void amd_calls_begin(void);
/* Launches and copies whose calls succeeded. */
uint64_t amd_calls_launched(void);

#endif
