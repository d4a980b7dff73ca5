/*
 * hotspots.h: kernels grouped by one property, with exact quantiles. Each selected kernel is in
 * exactly one group, so the totals of the groups add up to the total of all kernels.
 */
#ifndef PITOT_ANALYSIS_HOTSPOTS_H
#define PITOT_ANALYSIS_HOTSPOTS_H

#include "analysis/report.h"
#include "analysis/stats.h"

/* Values of --by, by hotspot_by, then "nvtx", the name of scopes elsewhere; ends with NULL. */
extern const char *const hotspot_by_names[];

static inline enum hotspot_by hotspot_by_choice(int choice)
{
	return choice == HOTSPOT_KINDS ? HOTSPOT_SCOPE : (enum hotspot_by)choice;
}

#define HOTSPOT_NO_KEY UINT32_MAX

#define HOTSPOT_CALLERS_MAX 8u

/* The kernels of a group that were launched from one line. */
struct caller_share {
	uint32_t caller; /* CALLER_NONE: unknown */
	uint64_t count, total_ns;
};

struct hotspot {
	uint32_t process; /* for STREAM and THREAD */
	uint32_t key;
	struct duration_stats time; /* of the kernels with times */
	uint64_t untimed; /* kernels without times, not in time.count */
	uint32_t config; /* its most frequent row of kernel_config, or TRACE_NO_ROW */
	uint64_t config_count; /* kernels with that configuration */
	uint32_t device; /* item of struct gpus that ran its first kernel */
	/* Lines that launched most of it, by time; see report_options.callers_of. */
	struct caller_share callers[HOTSPOT_CALLERS_MAX];
	uint32_t caller_count; /* of all its callers */
	/* Used while counting: rank by first kernel; item of `launched` of the latest kernel. */
	uint32_t number, launched;
};

/* Kernels of a hotspot with the same launching stack, or with the same capturing line. */
struct launched {
	uint32_t hotspot; /* item */
	uint32_t row; /* of table stack, or TRACE_NO_ROW */
	uint32_t process, stack; /* id of the stack in its process; 0: none */
	uint64_t ns; /* sum over those with times */
	struct caller_share share; /* excluding kernels whose line is known from the capture */
};

struct hotspots {
	enum hotspot_by by;
	struct hotspot *items; /* by total, longest first */
	size_t count;
	uint64_t kernels; /* all selected ones, with and without times */
	uint64_t untimed;
	uint64_t total_ns;
	struct launched *launched; /* in the order of their first kernels; NULL without stacks */
	size_t launched_count;
};

#endif
