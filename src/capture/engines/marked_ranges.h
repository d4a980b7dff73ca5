/*
 * marked_ranges.h: what --measure range and graph measure: the program's ranges (NVTX push and pop,
 * scopes) from begin to end on their thread, and launches of CUDA graphs. One at a time in a
 * process; which one, range_turns.h decides.
 *
 * A range holds the engine's claim while it is open, perhaps for seconds, so its end is up to
 * whoever comes first: its own thread, or the thread that ends the session or destroys the context
 * and calls marked_ranges_cancel().
 */
#ifndef PITOT_CAPTURE_ENGINES_MARKED_RANGES_H
#define PITOT_CAPTURE_ENGINES_MARKED_RANGES_H

#include "capture/engines/launch_engine.h"

#ifdef PITOT_HAS_PROFILER_HOST

/* Whether begin and end of the program's ranges reach the engine. */
void marked_ranges_watch(bool on);
/* Throws away what the open range has measured. Any thread. */
void marked_ranges_cancel(void);
void marked_ranges_after_fork(void);

/*
 * Describes the launch of a graph, in its callback, on the thread that has claimed the engine.
 * Returns whether it is measured.
 */
bool marked_ranges_graph(const struct cupti *cupti, const CUpti_CallbackData *data,
			 uint64_t start_ns, struct marked_range *range);

#endif
#endif
