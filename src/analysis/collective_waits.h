/* collective_waits.h: how long the kernels of collectives only wait for other ranks. */
#ifndef PITOT_ANALYSIS_COLLECTIVE_WAITS_H
#define PITOT_ANALYSIS_COLLECTIVE_WAITS_H

#include "analysis/collectives.h"
#include "base/map.h"

#define WAIT_UNKNOWN UINT64_MAX

/*
 * Maps rows of kernels of an open report, those of collectives of several ranks, to their waits.
 * Unknown are those of collectives of which a rank was not recorded, and all if the clocks of ranks
 * are not comparable (rank_times.waits_known). 0 or -ENOMEM.
 */
int collective_waits_list(const struct collectives *c, bool waits_known,
			  struct map *waits) MUST_USE;

#endif
