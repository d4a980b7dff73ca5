/*
 * module_build.h: compiles parts of the unwind rules of a module of this process, from copies of
 * the needed pages of its call frame information. Collector thread only.
 */
#ifndef PITOT_STACK_UNWIND_MODULE_BUILD_H
#define PITOT_STACK_UNWIND_MODULE_BUILD_H

#include "stack/unwind/stack_module.h"

struct module_build;

/* The module must outlive the build. Returns NULL without memory or if the module is unreadable. */
struct module_build *module_build_new(struct stack_module *module, struct unwind_store *store);
void module_build_free(struct module_build *b);
struct stack_module *module_build_of(const struct module_build *b);

/*
 * Compiles one part, to be freed with unwind_part_free(). Returns NULL without memory, or when the
 * module has become unreadable.
 */
struct unwind_part *module_build_part(struct module_build *b, uint32_t number);

/* Whether there is no search table, so that finding one part reads everything. */
bool module_build_reads_all(const struct module_build *b);

#endif
