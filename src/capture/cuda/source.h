/*
 * source.h: the CUDA source as the session sees it: start, collect, stop. Built on CUPTI through vendor.h.
 *
 * Threads: cuda_source_start runs on the thread that initializes CUDA; everything else on the collector's thread.
 * CUPTI's callbacks (api_calls.c, buffers.c) run on the target's threads and on CUPTI's own.
 */
#ifndef PITOT_CAPTURE_CUDA_SOURCE_H
#define PITOT_CAPTURE_CUDA_SOURCE_H

#include <stdbool.h>

#include "capture/settings.h"
#include "format/writer.h"

/*
 * Loads CUPTI and subscribes. How it went becomes capability rows at the first cuda_source_collect. false when there will be no GPU data. With a delay in the
 * settings nothing is enabled yet; cuda_source_window() does it when the time has come.
 */
bool cuda_source_start(const struct settings *settings);

/* Turns recording on or off, at the ends of the window of --delay and --duration. */
void cuda_source_window(bool on, struct writer *w);

/* Decodes the buffers that CUPTI has handed back. Returns the number of records. */
uint64_t cuda_source_collect(struct writer *w);

/* A few times a second: asks CUPTI for what lies in its buffers, reads drop counts and clocks, writes costs. */
void cuda_source_periodic(struct writer *w, uint64_t now_ns);

/* PCI ids of the GPUs by CUDA ordinal, once they are known; *count is 0 before. */
const char *const *cuda_source_gpus(unsigned *count);

/* One API call from a thread's ring: makes the row. */
struct ring_event;
void cuda_source_api_call(struct writer *w, uint32_t tid, const struct ring_event *event, int32_t result, bool has_result);

/* Orderly end: turns everything off, takes what is left. Bounded by the caller's patience, not by itself. */
void cuda_source_stop(struct writer *w);

/* In the child of a fork: CUPTI's state belongs to the parent; never touch it again. */
void cuda_source_after_fork(void);

#endif
