/*
 * rank_measures.h: what is measured of each rank, and the ranks that differ from the others in it.
 *
 * A step is a range that is named like one (steps.h); numbers in names do not count. Of several
 * such names the one with most time counts, and the time of a step is the median from one beginning
 * to the next. If the ranks name their steps differently, their time is unknown.
 */
#ifndef PITOT_ANALYSIS_RANK_MEASURES_H
#define PITOT_ANALYSIS_RANK_MEASURES_H

#include "analysis/rank_pieces.h"
#include "ranks/spread.h"

/* X(id, key in JSON, head of its column, unit of the report) */
#define RANK_MEASURES(X)                                                                           \
	X(STEP, "step_ns", "step", NS)                                                             \
	X(BUSY, "busy_ns", "busy", NS) /* kernels and copies */                                    \
	X(WAIT, "wait_ns", "waiting", NS) /* for other ranks */                                    \
	X(EXPOSED, "exposed_ns", "exposed", NS) /* only collectives ran, incl. waiting */          \
	X(MEMORY, "memory_bytes", "memory", BYTES) /* the most that was used of the GPU's */       \
	X(CLOCK, "clock_mhz", "MHz", COUNT) /* mean while the GPU was busy */                      \
	X(TEMPERATURE, "temperature_c", "deg C", COUNT) /* the highest */

enum rank_measure {
#define X(id, ...) MEASURE_##id,
	RANK_MEASURES(X)
#undef X
		MEASURES
};

struct rank_measures {
	double values[MEASURES]; /* NaN: unknown */
	double heat[MEASURES]; /* -1 to 1: how far below or above the median; NaN: unknown */
	uint32_t steps_of; /* item of rank_times.texts: name of the steps; UINT32_MAX: none */
};

struct rank_outlier {
	uint32_t rank; /* item of collectives.ranks */
	uint8_t measure; /* enum rank_measure */
	double value, median, score;
};

struct measured_ranks {
	struct rank_measures *items; /* parallel to collectives.ranks */
	size_t count;
	struct rank_outlier *outliers; /* by score, the farthest first */
	size_t outlier_count;
};

/*
 * Fills in what is known of a rank of the open report. state_ns: times by enum rank_state;
 * steady_ns: end of its start-up. 0 or -ENOMEM.
 */
int rank_measures_find(struct rank_pieces *p, const struct job_rank *rank, const uint64_t *state_ns,
		       uint64_t steady_ns, struct rank_measures *out) MUST_USE;
/* The mean over the ranks; 0 if it is unknown of one, or their steps have different names. */
uint64_t rank_measures_step_ns(const struct measured_ranks *m);
/*
 * Compares the ranks, by the time in which they were compared. uncertainty_ns: of each wait that is
 * known. 0 or -ENOMEM.
 */
int rank_measures_compare(struct measured_ranks *m, uint64_t span_ns, uint64_t uncertainty_ns,
			  uint64_t waits) MUST_USE;

#endif
