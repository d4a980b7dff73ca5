/*
 * marked_ranges.h: implements --measure range, which measures the program's ranges (NVTX push and
 * pop, scopes) from begin to end on their thread, and --measure graph, which measures launches of
 * CUDA graphs. A process measures one at a time, which range_schedule.h selects.
 *
 * A measured range owns the engine while it is open, perhaps for seconds. Its measurement
 * is ended by its own thread, or earlier by a thread that ends the session or destroys the context
 * and calls marked_ranges_cancel(). If the thread exits before its range ends, nothing else is
 * measured until one of these happens.
 */
#ifndef PITOT_CAPTURE_ENGINES_MARKED_RANGES_H
#define PITOT_CAPTURE_ENGINES_MARKED_RANGES_H

#include "capture/engines/launch_engine.h"
#include "capture/nvtx/nvtx_choice.h"

#ifdef PITOT_HAS_PROFILER_HOST

/* For nvtx_choice_set(). */
extern const struct nvtx_watch marked_ranges_watch;

/* Ends the measurement of the open range, if any, and discards its values. Any thread. */
void marked_ranges_cancel(void);
void marked_ranges_after_fork(void);

/*
 * Describes the launch of a graph in *range. Returns whether it is measured. Must be called in the
 * launch's callback, on the thread that owns the engine.
 */
bool marked_ranges_graph(const struct cupti *cupti, const CUpti_CallbackData *data,
			 uint64_t start_ns, struct marked_range *range);

#endif
#endif
