/*
 * collective_wait.h: for which other ranks the part of a collective waits: the edges between ranks.
 *
 * No rank ends an all-reduce, all-gather, reduce-scatter or all-to-all before all have begun it. Of
 * a broadcast or scatter each rank needs only the root, and of a reduce or gather only the root
 * needs the others. What the other parts of these wait for is not known. A send and its receive
 * need each other, but one that ended before the other began did not wait: it was buffered. The
 * same holds for two parts of which the root or the function is unknown; of more nothing is known.
 *
 * A part waits from its own begin to the last begin of those that it needs. The rest of it is its
 * transfer.
 */
#ifndef PITOT_RANKS_COLLECTIVE_WAIT_H
#define PITOT_RANKS_COLLECTIVE_WAIT_H

#include "ranks/collective_match.h"

#define NEEDS_ALL UINT32_MAX

/*
 * Finds for each part of a whole match, in their order, which one it needs: an item of `parts`, its
 * own for none, or NEEDS_ALL of the match. `needs` has room for all of them.
 */
void collective_find_needs(const struct collective_part *parts, const struct collective_match *m,
			   uint32_t *needs);

/*
 * Finds for each part, from what it needs, the item of `parts` for which it waited last: its own if
 * no other one began later by more than uncertainty_ns. `last` may be `needs`.
 */
void collective_find_last(const struct collective_part *parts, const struct collective_match *m,
			  const uint32_t *needs, uint64_t uncertainty_ns, uint32_t *last);

#endif
