/*
 * kernel_name.h: names of GPU kernels as a column of a report or a slice of a timeline can hold
 * them.
 */
#ifndef PITOT_NAMES_KERNEL_NAME_H
#define PITOT_NAMES_KERNEL_NAME_H

#include "base/strbuf.h"

#define KERNEL_NAME_MAX 72	/* columns, at most */

/*
 * The part of a kernel's name that a demangler takes: nvcc puts a prefix with the name of the file
 * before that of a static one.
 */
const char *kernel_name_mangled(const char *name);

/*
 * Appends the short form of a kernel's name: without namespaces, return type and parameters, with
 * the template arguments that tell what it does, and without all others. `text` is the readable
 * form of `name`, which is kernel_name_mangled's; the same pointer where it has none. Distinct
 * kernels can get equal short names. Bytes that a terminal could obey are replaced.
 */
void kernel_name_shorten(const char *name, const char *text, struct strbuf *out);

#endif
