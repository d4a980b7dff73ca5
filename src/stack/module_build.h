/*
 * module_build.h: builds the unwind table of a module of this process, a few milliseconds at a time.
 * Collector thread only.
 */
#ifndef PITOT_STACK_MODULE_BUILD_H
#define PITOT_STACK_MODULE_BUILD_H

#include "stack/modules.h"

struct module_build;

/* Starts. The module must stay as long as the build. NULL: no memory. */
struct module_build *module_build_new(struct stack_module *module, size_t bytes_max);
void module_build_free(struct module_build *b);
struct stack_module *module_build_of(const struct module_build *b);

/*
 * Goes on until about `deadline_ns` of CLOCK_MONOTONIC. 1: there is more to do; 0: *table is set, which
 * may be one without rows; -ENOMEM or E_LIMIT: there will be none; -EFAULT: the module went away.
 */
int module_build_step(struct module_build *b, uint64_t deadline_ns, struct unwind_table **table);

#endif
