/*
 * range_choice.h: which launches --engine range-profiler and sass-metrics measure: by the kernel's
 * name, not into a stream that captures, and of those some after others. Any thread; nothing is
 * allocated, but for patterns of readable names, once a name.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H
#define PITOT_CAPTURE_ENGINES_RANGE_CHOICE_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"
#include "schema/settings.h"

/* What a session wants; counting begins. */
void range_choice_set(const struct settings *wanted);
/* false: the driver does not say which streams capture. */
bool range_choice_find_driver(void);

/* Whether kernels of that (mangled) name are wanted; NULL: it has none. */
bool range_choice_has_name(const char *name);
/* Names may lie elsewhere from here on. */
void range_choice_forget_names(void);
/*
 * Asks the driver whether the launch that begins runs now. A function of which that is not known
 * does not.
 */
bool range_choice_runs_at_once(const CUpti_CallbackData *data, const char *function);
/* That of the calling thread; NULL: it has none. */
CUcontext range_choice_current_context(void);
/* Counts a launch that might be measured. true: it is. */
bool range_choice_is_turn(void);
/* No launch will be. */
bool range_choice_is_done(void);

#endif
