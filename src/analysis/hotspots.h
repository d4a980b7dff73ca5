/*
 * hotspots.h: kernels grouped by one of their properties, with exact quantiles. Each kernel that
 * the selection wants is in exactly one group, so the groups' totals sum to the total of all
 * kernels.
 */
#ifndef PITOT_ANALYSIS_HOTSPOTS_H
#define PITOT_ANALYSIS_HOTSPOTS_H

#include "analysis/callers.h"
#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/stats.h"

enum hotspot_by {
	HOTSPOT_KERNEL, /* name; key: string id */
	HOTSPOT_CONFIG, /* name, launch configuration and resources; key: row of kernel_config */
	HOTSPOT_STREAM, /* key: stream id in its process */
	HOTSPOT_DEVICE, /* key: item of struct gpus */
	HOTSPOT_THREAD, /* that launched; key: thread id in its process, HOTSPOT_NO_KEY unknown */
	/* Innermost scope around the launch; key: string id of its name, HOTSPOT_NO_KEY without. */
	HOTSPOT_SCOPE,
	HOTSPOT_CALLER, /* line that launched; key: caller, HOTSPOT_NO_KEY unknown */
	HOTSPOT_KINDS,
};

extern const char *const hotspot_by_names[]; /* as options name them; ends with NULL */

#define HOTSPOT_NO_KEY UINT32_MAX

#define HOTSPOT_CALLERS_MAX 8u

/* What of a group was launched from one line. */
struct caller_share {
	uint32_t caller; /* CALLER_NONE: unknown */
	uint64_t count, total_ns;
};

struct hotspot {
	uint32_t process; /* for STREAM and THREAD */
	uint32_t key;
	struct duration_stats time; /* of the kernels with times */
	uint64_t untimed; /* kernels without times, besides time.count */
	uint32_t config; /* its commonest row of kernel_config, or TRACE_NO_ROW */
	uint64_t config_count; /* kernels with that one */
	uint32_t device; /* item of struct gpus that ran the first of them */
	/* The lines that launched most of it, by time; of the first groups only, when asked for. */
	struct caller_share callers[HOTSPOT_CALLERS_MAX];
	uint32_t caller_count; /* of them all */
	/*
	 * While they are counted: in the order of their first kernels; and what launched the last
	 * one.
	 */
	uint32_t number, launched;
};

/*
 * Kernels of a hotspot that were launched with one stack; or the ones that one line captured, which
 * have no stack here.
 */
struct launched {
	uint32_t hotspot; /* item */
	uint32_t row; /* of table stack, or TRACE_NO_ROW */
	uint32_t process, stack; /* id of the stack in its process; 0: none */
	uint64_t ns; /* of all of them that have times */
	struct caller_share share; /* excluding kernels whose line is known from the capture */
};

struct hotspots {
	enum hotspot_by by;
	struct hotspot *items; /* by total, longest first */
	size_t count;
	uint64_t kernels; /* all that were wanted, with and without times */
	uint64_t untimed;
	uint64_t total_ns;
	struct launched *launched; /* in the order of their first kernels; none without stacks */
	size_t launched_count;
};

#endif
