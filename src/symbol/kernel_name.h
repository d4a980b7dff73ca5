/*
 * kernel_name.h: names of GPU kernels as a column of a report can hold them. Safe for concurrent
 * use.
 */
#ifndef PITOT_SYMBOL_KERNEL_NAME_H
#define PITOT_SYMBOL_KERNEL_NAME_H

#include "base/strbuf.h"

#define KERNEL_NAME_MAX 72	/* columns, at most */

/*
 * Appends the short form of a kernel's name, mangled or not: without namespaces, return type and
 * parameters, with the template arguments that tell what it does, and without all others. Distinct
 * kernels can get equal short names. Bytes that a terminal could obey are replaced.
 */
void kernel_name_short(const char *name, struct strbuf *out);

#endif
