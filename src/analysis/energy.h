/*
 * energy.h: the energy of GPUs, by kernel family, scope and step. Computed if report_options.steps.
 *
 * NVML tells the power of a board a few times a second. A reading holds until the next one of the
 * GPU; the energy between two is divided by time: the time without work is idle, the rest belongs
 * to the work, in proportion to its duration. So all parts add up to the whole, but of two kernels
 * that take turns between two readings, the one that draws more gets too little.
 */
#ifndef PITOT_ANALYSIS_ENERGY_H
#define PITOT_ANALYSIS_ENERGY_H

#include "analysis/critical_path.h"

struct energy_part {
	struct path_place place; /* of a kernel family, copies, … */
	uint32_t path; /* of a scope: item of nvtx_ranges.paths, or SCOPE_NONE */
	uint64_t count; /* pieces of work */
	double ns; /* time of the GPUs, of which overlapping work has its share */
	double joules;
};

struct energy_loop {
	uint32_t process;
	uint64_t steps; /* whose power is known from the start to the end */
	uint64_t gpus; /* that the process used */
	double joules; /* of a step: the median, with idle time */
	double ns; /* the median */
};

struct energy {
	struct energy_part *families, *scopes; /* by energy, descending */
	size_t family_count, scope_count;
	struct energy_loop *loops; /* those with steps and known power */
	size_t loop_count;
	uint64_t readings;
	double joules, idle_joules; /* of all GPUs while their power is known */
	double known_ns; /* of GPU time in `families`, for which the power is known */
	double all_ns;
	/*
	 * Relative, one standard deviation: what NVML's readings may be off by, and how much the
	 * mean of the readings may differ by chance. Parts: how much the power differs between
	 * readings, instead, because the parts may differ as much.
	 */
	double uncertainty, part_uncertainty;
};

#define ENERGY_METER_ERROR 0.05 /* NVML: the power of boards is accurate to 5 % */

#endif
