/*
 * activity.h: turns CUPTI's activity records into rows. Collector thread only.
 *
 * Nothing is made up: a time of 0 is missing, an end before its start is missing, a field that the
 * loaded CUPTI does not have is missing; each such record is counted as loss, and kept.
 */
#ifndef PITOT_CAPTURE_CUDA_ACTIVITY_H
#define PITOT_CAPTURE_CUDA_ACTIVITY_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

struct activity_counts {
	uint64_t records, kernels;
	uint64_t launched; /* kernels outside of graphs */
	uint64_t graph_launches; /* graphs recorded as a whole */
	uint64_t no_time, reversed_time, incomplete, unknown;
	uint64_t unreadable; /* buffers that could not be read to their end */
};

void activity_reset(void);

struct activity_decoded {
	uint64_t records;
	uint64_t work_ns; /* from the first start of GPU work among them to the last end */
};

/* Decodes the valid bytes of a buffer. */
struct activity_decoded activity_decode(const struct cupti *cupti, struct writer *w, uint8_t *bytes,
					size_t valid);

/*
 * What is in a recording, of a window: times, and the correlation ids of the calls that were
 * recorded, 0: none yet.
 */
struct activity_window {
	uint64_t opened_ns; /* 0: before that, CUPTI recorded nothing */
	uint64_t closed_ns; /* calls are recorded no more; UINT64_MAX: they are */
	uint64_t first_call, last_call;
};

/*
 * Leaves out work that was launched after the window had closed; where CUPTI recorded kernels
 * before it opened, also those that were launched, or while no call is known, began before.
 */
void activity_within(const struct activity_window *w);

/* Totals since activity_reset. */
const struct activity_counts *activity_counts(void);

#endif
