/*
 * range_turns.h: which occurrence of which range is measured, with --measure graph and range. A
 * measurement needs an occurrence of its range for each pass of the metrics, so the engine stays
 * with one range until it has them all, or until the range has not come for 5 s. Next is the range
 * that was measured least among those that came within the last 5 s. Ranges inside of one that is
 * measured are not seen, so after its 1st, 2nd, 4th, 8th, … measurement an occurrence is left out.
 *
 * Only the thread that has claimed the engine calls these functions (launch_engine.h).
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_TURNS_H
#define PITOT_CAPTURE_ENGINES_RANGE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/settings.h"

#define RANGE_TURNS_MAX 64u /* different ranges; further ones are not measured */

/* Forgets all ranges. --skip and --count are of each range. */
void range_turns_set(const struct settings *wanted);
/* Whether this occurrence of the range `key` is measured. `nests`: others may be inside of it. */
bool range_turns_begin(uint64_t key, bool nests, uint64_t now_ns);
/* The range that is measured has had its last pass; `measured`: with success. */
void range_turns_end(bool measured);
/* Ranges beyond RANGE_TURNS_MAX since the last call. */
uint64_t range_turns_refused(void);

#endif
