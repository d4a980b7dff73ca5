/*
 * range_choice.h: what the engines that measure launches ask the driver before they do: whether a
 * stream captures, and the thread's context. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H
#define PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"

/* Finds the driver's functions. Returns false if it cannot tell which streams capture. */
bool range_choice_find_driver(void);
/*
 * Asks the driver whether the launch that begins runs immediately instead of being captured.
 * Returns false if that is unknown.
 */
bool range_choice_runs_at_once(const CUpti_CallbackData *data, const char *function);
/* The calling thread's context; NULL: it has none. */
CUcontext range_choice_current_context(void);

#endif
