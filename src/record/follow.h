/*
 * follow.h: reads a recording while it grows, for the live line: the headers of new blocks, and
 * start and end of new kernels.
 */
#ifndef PITOT_RECORD_FOLLOW_H
#define PITOT_RECORD_FOLLOW_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

struct follow;

struct follow_state {
	uint64_t bytes; /* size of all segments */
	uint64_t kernels; /* so far */
	uint64_t lost; /* sum of the counts in table loss */
	uint64_t kernels_per_s; /* since the last step */
	/* GPU utilization of the latest second on disk, mean of the GPUs in use. */
	unsigned utilization_percent;
	size_t gpus; /* seen so far, by ordinal */
};

/* Returns NULL without memory. */
struct follow *follow_new(const char *directory) MUST_USE;
void follow_free(struct follow *f);

/*
 * Reads new blocks. Damaged and unreadable files are skipped: the reader of the recording reports
 * them.
 */
void follow_step(struct follow *f, struct follow_state *state);

/*
 * Appends the live line, without line end, cut to `width` columns. cpu_only: no GPU work is
 * recorded.
 */
void follow_line(const struct follow_state *state, bool cpu_only, uint64_t elapsed_ns,
		 unsigned width, struct strbuf *out);

#endif
