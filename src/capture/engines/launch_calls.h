/* launch_calls.h: the program's calls, by callbacks of CUPTI on their threads. */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_CALLS_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_CALLS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"

#ifdef PITOT_HAS_PROFILER_HOST

/*
 * Must be called when a driver call that launches begins, before all other work of the callback,
 * and when it ends, after all other work. `function` is its name; `graph`: it launches a graph.
 */
void launch_calls_enter(const CUpti_CallbackData *data, const char *function, bool graph);
void launch_calls_exit(const CUpti_CallbackData *data);
/*
 * Must be called in the callbacks of each function of stream_captures_is_function(). Before a
 * capture begins, the measurement in progress ends.
 */
void launch_calls_stream(const CUpti_CallbackData *data, const char *function);
/* Must be called from callbacks of the resource domain. */
void launch_calls_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

#endif
#endif
