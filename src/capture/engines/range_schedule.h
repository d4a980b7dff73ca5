/*
 * range_schedule.h: selects the occurrences of ranges that --measure graph and range measure. A
 * measurement needs one occurrence of its range for each pass of the metrics, so the engine stays
 * with a range until all passes are done, or until the range has not occurred for 5 s. Next comes
 * the range with the fewest measurements among those that occurred within the last 5 s. Ranges
 * inside a measured range are not seen, so an occurrence of the outer range is left out after its
 * 1st, 2nd, 4th, 8th, … measurement.
 *
 * Must be called by the thread that owns the engine (launch_engine.h), unless noted.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_SCHEDULE_H
#define PITOT_CAPTURE_ENGINES_RANGE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/settings.h"

#define RANGE_SCHEDULE_MAX 64u /* different ranges; further ones are not measured */

/* Forgets all ranges. --skip and --count apply to each range separately. */
void range_schedule_set(const struct settings *wanted);
/* Whether this occurrence of range `key` is measured. `nests`: it may contain other ranges. */
bool range_schedule_begin(uint64_t key, bool nests, uint64_t now_ns);
/* Ends the current range's measurement; `measured`: all its passes succeeded. */
void range_schedule_end(bool measured);
/* Occurrences of ranges beyond RANGE_SCHEDULE_MAX since the last call. Collector's thread. */
uint64_t range_schedule_refused(void);

#endif
