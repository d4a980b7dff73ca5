/*
 * cupti_gap.h: time that should be recorded and in which another client has CUPTI, because it was
 * first. The number of launches in it is unknown, because none are seen.
 */
#ifndef PITOT_CAPTURE_CUDA_CUPTI_GAP_H
#define PITOT_CAPTURE_CUDA_CUPTI_GAP_H

#include "base/strbuf.h"
#include "format/writer.h"

/*
 * The recorder has been without CUPTI since then; 0: it has CUPTI, or needs none. Vendor thread, or
 * the thread that starts the recorder.
 */
void cupti_gap(uint64_t since_ns);

/*
 * Writes rows of loss. A gap has several, each beginning where the previous one ends, so that a
 * SIGKILL loses only the last part. Collector's thread.
 */
void cupti_gap_write(struct writer *w);
/* Ends the gap, writes the rest, and appends a summary; returns false if there was no gap. */
bool cupti_gap_end(struct writer *w, struct strbuf *text);

void cupti_gap_after_fork(void);

#endif
