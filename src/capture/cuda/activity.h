/*
 * activity.h: turns CUPTI's activity records into rows. Must be called on the collector's thread.
 *
 * No value is invented: a time of 0, an end before its start, and a field that the loaded CUPTI
 * does not have are all missing values. Records with such times count as losses, and are still
 * recorded.
 */
#ifndef PITOT_CAPTURE_CUDA_ACTIVITY_H
#define PITOT_CAPTURE_CUDA_ACTIVITY_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

struct activity_counts {
	uint64_t records, kernels;
	uint64_t launched; /* kernels outside graphs */
	uint64_t graph_launches; /* graphs with one record for the whole launch */
	uint64_t no_time, reversed_time, incomplete, unknown;
	uint64_t unreadable; /* buffers that could not be read to their end */
};

void activity_reset(void);

struct activity_decoded {
	uint64_t records;
	uint64_t work_ns; /* from the first start of GPU work in the buffer to the last end */
};

/* Decodes the valid bytes of a buffer, which is in that slot (buffers.h). */
struct activity_decoded activity_decode(const struct cupti *cupti, struct writer *w, uint8_t *bytes,
					size_t valid, unsigned slot);

/* Says which CUPTI writes the records, to whoever reads them in its place (shared_area.h). */
void activity_share(uint32_t cupti_version);

/*
 * The bounds of a recording's window: times, and the correlation ids of the first and last recorded
 * call (0: none yet).
 */
struct activity_window {
	uint64_t opened_ns; /* 0: CUPTI recorded nothing before the window opened */
	uint64_t closed_ns; /* UINT64_MAX: calls are still being recorded */
	uint64_t first_call, last_call;
};

/*
 * Sets the window. Work that was launched after it closed is left out. If CUPTI recorded kernels
 * before it opened, kernels launched before are left out too; until a call is known, those that
 * began before.
 */
void activity_set_window(const struct activity_window *w);

/* Totals since activity_reset. */
const struct activity_counts *activity_counts(void);

#endif
