/*
 * gpu_walk.h: walks over all GPU work of all processes and tables, in order of its start.
 *
 * Tables are sorted within a process, so this is a merge, and memory does not grow with the number
 * of rows. Rows without times are skipped and counted.
 */
#ifndef PITOT_ANALYSIS_GPU_WALK_H
#define PITOT_ANALYSIS_GPU_WALK_H

#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "trace/events.h"

struct gpu_operation {
	uint64_t start_ns, end_ns; /* cut to the window; start <= end */
	uint32_t row; /* in the table of `work` */
	uint32_t stream;
	uint32_t process;
	uint16_t gpu;
	uint8_t work; /* enum gpu_work */
};

struct gpu_source;

struct gpu_walk {
	const struct gpus *gpus;
	const struct selection *selection;
	struct event_columns columns[GPU_WORK_KINDS];
	struct gpu_source *sources; /* heap by the start of the next row */
	size_t count;
	uint64_t next_ns; /* the first of `sources` stays the first until its row starts later */
	uint64_t untimed; /* rows skipped so far because start or end is missing */
};

/* Loads nothing. Applies only the selection's window, process and device. 0 or -ENOMEM. */
int gpu_walk_init(struct gpu_walk *w, const struct gpus *gpus, const struct selection *s) MUST_USE;
void gpu_walk_release(struct gpu_walk *w);
bool gpu_walk_next(struct gpu_walk *w, struct gpu_operation *op);

/* Roles of the columns that a walk needs; gpu_walk_load loads them. 0 or a negative code. */
#define GPU_WALK_ROLES (ROLES_TIMES | 1u << ROLE_DEVICE | 1u << ROLE_STREAM)
int gpu_walk_load(struct trace *t, struct error *e) MUST_USE;

#endif
