/*
 * range_choice.h: selects the launches that --engine range-profiler and sass-metrics measure: by
 * the kernel's name, outside stream capture, and by number among the matching launches. Any thread.
 * Allocates memory only to compare a name with patterns of readable names, once per name.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H
#define PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"
#include "schema/settings.h"

/* Sets a session's selection and restarts the count. */
void range_choice_set(const struct settings *wanted);
/* Finds the driver's functions. Returns false if it cannot tell which streams capture. */
bool range_choice_find_driver(void);

/* Whether kernels of this mangled name are selected; NULL: the kernel has no name. */
bool range_choice_has_name(const char *name);
/* Must be called when a module is unloaded: the addresses of names may be reused. */
void range_choice_forget_names(void);
/*
 * Asks the driver whether the launch that begins runs immediately instead of being captured.
 * Returns false if that is unknown.
 */
bool range_choice_runs_at_once(const CUpti_CallbackData *data, const char *function);
/* The calling thread's context; NULL: it has none. */
CUcontext range_choice_current_context(void);
/* Counts a matching launch. Returns whether its number is selected. */
bool range_choice_is_turn(void);
/* Number of matching launches so far. */
uint64_t range_choice_matched(void);
/* Whether no later launch can be selected. */
bool range_choice_is_done(void);

#endif
