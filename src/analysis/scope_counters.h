/*
 * scope_counters.h: the program's own counters by scope: what was added, and the gauges' values.
 * All figures except `self` include nested scopes.
 */
#ifndef PITOT_ANALYSIS_SCOPE_COUNTERS_H
#define PITOT_ANALYSIS_SCOPE_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scope_counter {
	uint32_t path; /* of report.ranges; SCOPE_NONE: outside of scopes, or unknown */
	uint32_t name, unit; /* string ids */
	bool is_gauge;
	uint64_t count; /* additions, or values of a gauge */
	double sum, self; /* of a gauge: of its values */
	double min, max; /* of a gauge's values */
};

struct scope_counters {
	struct scope_counter *items; /* by counter, then path: a scope before those inside of it */
	size_t count;
};

#endif
