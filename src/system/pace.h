/*
 * pace.h: decides when something expensive is read again.
 *
 * `interval_ns` is the declared interval. At first, readings are more frequent, for short runs:
 * each is twice as late as the one before. Where the cost of a reading is not known beforehand,
 * pace_add() keeps it below one part in `share` of a processor.
 */
#ifndef PITOT_SYSTEM_PACE_H
#define PITOT_SYSTEM_PACE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"

struct pace {
	uint64_t first_ns, last_ns; /* 0: not read yet */
	uint64_t cost_wait_ns; /* CPU time of a reading, times `share`, smoothed; 0: unknown */
	bool warm; /* after the first reading, which binds functions and fills caches */
};

/* Without the early readings. */
static inline bool pace_is_due_after(struct pace *p, uint64_t interval_ns, uint64_t now_ns)
{
	uint64_t wait_ns = MAX(interval_ns, p->cost_wait_ns);

	/* Rounds are not exactly on time: what is due a little later is due now. */
	if (p->last_ns && now_ns - p->last_ns < wait_ns - wait_ns / 16)
		return false;
	if (!p->first_ns)
		p->first_ns = now_ns;
	p->last_ns = now_ns;
	return true;
}

static inline bool pace_is_due(struct pace *p, uint64_t interval_ns, uint64_t now_ns)
{
	return pace_is_due_after(p, MIN((now_ns - p->first_ns) / 2, interval_ns), now_ns);
}

/* Reports the CPU time of a reading. */
static inline void pace_add(struct pace *p, uint64_t cpu_ns, unsigned share)
{
	uint64_t wait_ns = cpu_ns * share;

	if (p->warm)
		p->cost_wait_ns = p->cost_wait_ns ? (3 * p->cost_wait_ns + wait_ns) / 4 : wait_ns;
	p->warm = true;
}

#endif
