/*
 * pace.h: how often something expensive is read.
 *
 * `rest_ns` is what its declaration says; at first it is read more often, for short runs: after a
 * quarter of the time since the first reading. Where nobody knows before what a reading costs,
 * pace_add keeps it below one part in PACE_SHARE of a processor.
 */
#ifndef PITOT_SYSTEM_PACE_H
#define PITOT_SYSTEM_PACE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"

#define PACE_SHARE 2000u

struct pace {
	uint64_t first_ns, last_ns; /* 0: not read yet */
	uint64_t cost_ns; /* CPU time of a reading, smoothed; 0: not known */
	bool warm; /* the first reading, which binds functions and fills caches, is over */
};

static inline bool pace_is_due(struct pace *p, uint64_t rest_ns, uint64_t now_ns)
{
	uint64_t rest = MAX(MIN((now_ns - p->first_ns) / 4, rest_ns), p->cost_ns * PACE_SHARE);

	if (p->last_ns && now_ns - p->last_ns < rest)
		return false;
	if (!p->first_ns)
		p->first_ns = now_ns;
	p->last_ns = now_ns;
	return true;
}

/* A reading took that much CPU time. */
static inline void pace_add(struct pace *p, uint64_t cpu_ns)
{
	if (p->warm)
		p->cost_ns = p->cost_ns ? (3 * p->cost_ns + cpu_ns) / 4 : cpu_ns;
	p->warm = true;
}

#endif
