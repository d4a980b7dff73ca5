/*
 * gpus.h: the GPUs of a recording. Processes number their devices each for itself; rows of table
 * `device` with one uuid are one GPU. An ordinal without such a row is a GPU of its own in its
 * process.
 */
#ifndef PITOT_ANALYSIS_GPUS_H
#define PITOT_ANALYSIS_GPUS_H

#include "base/map.h"
#include "trace/trace.h"

#define GPUS_MAX                                                                                   \
	1024 /* further ordinals (a damaged or hostile recording) are all counted as the last one */

struct gpu {
	uint32_t row; /* in table device, or TRACE_NO_ROW */
	uint32_t ordinal; /* CUDA ordinal in the first process that names it */
	const char *name; /* "" if unknown; belongs to the trace */
	const char *uuid;
};

struct gpus {
	struct gpu *items;
	size_t count;
	struct map index; /* process << 32 | ordinal -> item */
};

/* Loads table device and the device columns of the tables of work. 0 or a negative code. */
int gpus_init(struct gpus *g, struct trace *t, struct error *e) MUST_USE;
void gpus_release(struct gpus *g);
/* Index of the GPU that a process calls `ordinal`. Any pair that occurs in the tables is known. */
size_t gpus_find(const struct gpus *g, size_t process, uint32_t ordinal);

#endif
