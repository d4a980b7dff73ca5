/* kernel_name.h: shortens names of GPU kernels to fit into a column or a slice of a timeline. */
#ifndef PITOT_NAMES_KERNEL_NAME_H
#define PITOT_NAMES_KERNEL_NAME_H

#include "base/strbuf.h"

#define KERNEL_NAME_MAX 72	/* bytes */

/* Returns the mangled part of a kernel name: nvcc prefixes static kernels with the file's name. */
const char *kernel_name_mangled(const char *name);

/*
 * Appends the short form of a kernel name: without namespaces, return type and parameters, and with
 * only those template arguments that describe what it does. `name` is what kernel_name_mangled()
 * returned, `text` its demangled form, or `name` itself if it has none. Distinct kernels may get
 * equal short names. Bytes that could control a terminal are replaced.
 */
void kernel_name_shorten(const char *name, const char *text, struct strbuf *out);

#endif
