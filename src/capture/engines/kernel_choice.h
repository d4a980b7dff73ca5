/*
 * kernel_choice.h: selects the launches that --engine range-profiler and sass-metrics measure: by
 * the kernel's name, and by number among the matching launches. Any thread. Allocates memory only
 * to compare a name with patterns of readable names, once per name.
 */
#ifndef PITOT_CAPTURE_ENGINES_KERNEL_CHOICE_H
#define PITOT_CAPTURE_ENGINES_KERNEL_CHOICE_H

#include <stdbool.h>

#include "schema/settings.h"

/* Sets a session's selection and restarts the count. */
void kernel_choice_set(const struct settings *wanted);
/* Whether kernels of this mangled name are selected; NULL: the kernel has no name. */
bool kernel_choice_has_name(const char *name);
/* Must be called when code is unloaded: the addresses of names may be reused. */
void kernel_choice_forget_names(void);
/* Counts a matching launch. Returns whether its number is selected. */
bool kernel_choice_is_turn(void);
/* Number of matching launches so far. */
uint64_t kernel_choice_matched(void);
/* Whether no later launch can be selected. */
bool kernel_choice_is_done(void);

#endif
