/*
 * time_lanes.h: what GPUs, streams and launching threads did over time, as columns of equal length:
 * for each lane how much of each column something ran. Overlapping work counts once.
 */
#ifndef PITOT_ANALYSIS_TIME_LANES_H
#define PITOT_ANALYSIS_TIME_LANES_H

#include "analysis/report.h"

enum time_lane_kind { LANE_GPU, LANE_STREAM, LANE_THREAD };

struct time_lane {
	uint64_t *ns; /* by column: in which something ran; of a thread: a call */
	uint64_t *wait_ns; /* of these, of a thread: in calls that wait; NULL: GPUs, streams */
	uint64_t total_ns, until_ns, wait_until_ns;
	uint32_t process, id; /* id: stream or thread; of a GPU: item of struct gpus */
	uint32_t gpu; /* of a stream: item of struct gpus */
	uint8_t kind; /* enum time_lane_kind */
};

struct time_lanes {
	uint64_t start_ns, end_ns;
	uint64_t column_ns; /* rounded up: the last column may end after end_ns */
	unsigned columns;
	/* Each GPU, with its streams behind it, then threads; the busiest first. */
	struct time_lane *items;
	size_t count;
	size_t streams, threads; /* that have something in the window, also those without a lane */
};

/*
 * Fills *out with the report's window in so many columns, and at most so many streams of each GPU
 * and threads. 0 or -ENOMEM; time_lanes_release in either case.
 */
int time_lanes_find(struct time_lanes *out, const struct report *r, unsigned columns,
		    uint64_t streams, uint64_t threads) MUST_USE;
void time_lanes_release(struct time_lanes *l);

#endif
