/*
 * collective_name.h: which collective a kernel of NCCL or RCCL executes, by its name. The name is
 * only a hint: a kernel may execute other collectives of its group as well.
 */
#ifndef PITOT_RANKS_COLLECTIVE_NAME_H
#define PITOT_RANKS_COLLECTIVE_NAME_H

#include <stdbool.h>

#include "schema/schema.h"

/* False: the kernel is not of NCCL. `name` may be mangled. */
bool collective_name_parse(const char *name, enum collective_function *out);

/*
 * Whether every rank's result depends on every rank, so that no rank can end it before all have
 * begun it.
 */
bool collective_is_mutual(enum collective_function function);

#endif
