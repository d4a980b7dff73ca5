/*
 * module_build.h: compiles parts of the unwind rules of a module of this process, from copies of
 * the pages of its call frame information that they need. Collector thread only.
 */
#ifndef PITOT_STACK_UNWIND_MODULE_BUILD_H
#define PITOT_STACK_UNWIND_MODULE_BUILD_H

#include "stack/unwind/modules.h"

struct module_build;

/* The module must stay as long as the build. NULL: no memory, or the module cannot be read. */
struct module_build *module_build_new(struct stack_module *module, struct unwind_store *store);
void module_build_free(struct module_build *b);
struct stack_module *module_build_of(const struct module_build *b);

/*
 * One part, to be freed with unwind_part_free(). NULL: no memory, or the module cannot be read any
 * more.
 */
struct unwind_part *module_build_part(struct module_build *b, uint32_t number);

/* There is no search table: to find one part, all is read. */
bool module_build_reads_all(const struct module_build *b);

#endif
