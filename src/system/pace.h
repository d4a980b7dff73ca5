/*
 * pace.h: decides when something expensive is read again.
 *
 * `interval_ns` is the declared interval. At first, readings are more frequent, for short runs: the
 * interval is a quarter of the time since the first reading. Where the cost of a reading is not
 * known beforehand, pace_add() keeps it below one part in PACE_SHARE of a processor.
 */
#ifndef PITOT_SYSTEM_PACE_H
#define PITOT_SYSTEM_PACE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"

#define PACE_SHARE 2000u

struct pace {
	uint64_t first_ns, last_ns; /* 0: not read yet */
	uint64_t cost_ns; /* CPU time of a reading, smoothed; 0: unknown */
	bool warm; /* after the first reading, which binds functions and fills caches */
};

static inline bool pace_is_due(struct pace *p, uint64_t interval_ns, uint64_t now_ns)
{
	uint64_t wait_ns = MAX(MIN((now_ns - p->first_ns) / 4, interval_ns),
			       p->cost_ns * PACE_SHARE);

	if (p->last_ns && now_ns - p->last_ns < wait_ns)
		return false;
	if (!p->first_ns)
		p->first_ns = now_ns;
	p->last_ns = now_ns;
	return true;
}

/* Reports the CPU time of a reading. */
static inline void pace_add(struct pace *p, uint64_t cpu_ns)
{
	if (p->warm)
		p->cost_ns = p->cost_ns ? (3 * p->cost_ns + cpu_ns) / 4 : cpu_ns;
	p->warm = true;
}

#endif
