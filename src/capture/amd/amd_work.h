/*
 * amd_work.h: kernels, copies and allocations, from ROCprofiler-SDK's buffer. The SDK calls with
 * records on a thread that it made for us, which puts them into its ring and waits while that is
 * full: records are lost only if the collector has stopped or hangs, and are not waited for then.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_WORK_H
#define PITOT_CAPTURE_AMD_AMD_WORK_H

#include "capture/amd/amd_api.h"
#include "capture/core/ring.h"
#include "format/writer.h"

amd_on_buffer amd_work_on_buffer;
/* Puts an event into the ring of a thread of the SDK, which waits while it is full. */
void amd_work_push(const struct ring_event *events, unsigned slots);

/* Called when a recording begins. */
void amd_work_begin(void);
/* Makes the row of a kernel, copy or allocation; returns its slots. Collector's thread. */
uint64_t amd_work_event(struct writer *w, const struct ring *r, uint64_t position);

/* Since the recorder was loaded. Any thread; `work` has rows, the others are losses. */
struct amd_work_counts {
	uint64_t work, no_time, reversed_time, unknown, dropped, no_stream;
};
struct amd_work_counts amd_work_counts(void);

#endif
