/*
 * gpus.h: the GPUs of a recording. Each process numbers its devices itself; rows of table `device`
 * with equal uuids are one GPU. An ordinal without a row is a separate GPU of its process.
 */
#ifndef PITOT_ANALYSIS_GPUS_H
#define PITOT_ANALYSIS_GPUS_H

#include "base/map.h"
#include "schema/theoretical_occupancy.h"
#include "trace/trace.h"

/* Further ordinals (of a damaged or hostile recording) all map to the last GPU. */
#define GPUS_MAX 1024

struct gpu {
	uint32_t row; /* in table device, or TRACE_NO_ROW */
	uint32_t ordinal; /* CUDA ordinal in the first process that names it */
	const char *name; /* "" if unknown; belongs to the trace */
	const char *uuid;
	uint8_t vendor; /* enum gpu_vendor */
};

struct gpus {
	struct gpu *items;
	size_t count;
	struct map index; /* process << 32 | ordinal -> item */
};

/* Loads table device and the device columns of the tables of work. 0 or a negative code. */
int gpus_init(struct gpus *g, struct trace *t, struct error *e) MUST_USE;
void gpus_release(struct gpus *g);
/* Index of the GPU with this ordinal in a process. Every pair that occurs in a table is known. */
size_t gpus_find(const struct gpus *g, size_t process, uint32_t ordinal);

/* Whether there are GPUs, and all are AMD's: the words of what is said are HIP's then. */
bool gpus_are_amd(const struct gpus *g);

/*
 * Theoretical occupancy from rows of the loaded tables. 0 or a negative code; E_UNSUPPORTED also
 * for TRACE_NO_ROW.
 */
int occupancy_of_rows(const struct trace *t, uint32_t device_row, uint32_t config_row,
		      struct occupancy *out);

#endif
