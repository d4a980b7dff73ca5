/*
 * demangle.h: names of C++ (Itanium) and Rust as their authors wrote them, and names of GPU kernels
 * as a column of a report can hold them. Safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_DEMANGLE_H
#define PITOT_SYMBOL_DEMANGLE_H

#include "names/kernel_name.h"

#define DEMANGLE_INPUT_MAX ((size_t)16 << 10)	/* bytes; longer names stay as they are */
#define DEMANGLE_OUTPUT_MAX ((size_t)64 << 10)

/*
 * Appends the readable form of a symbol with its parameters and, for templates, its return type.
 * Appends the name itself when it is not mangled, broken, too long, or made to take forever.
 * Returns whether it was demangled.
 */
bool demangle(const char *name, struct strbuf *out);

/* Appends the short form of a kernel's name, mangled or not: names/kernel_name.h. */
void kernel_name_short(const char *name, struct strbuf *out);

#endif
