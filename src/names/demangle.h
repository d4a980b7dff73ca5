/*
 * demangle.h: demangles names of C++ (Itanium ABI) and Rust, and shortens names of GPU kernels for
 * columns of reports. Safe for concurrent use.
 */
#ifndef PITOT_NAMES_DEMANGLE_H
#define PITOT_NAMES_DEMANGLE_H

#include "names/kernel_name.h"

#define DEMANGLE_INPUT_MAX ((size_t)16 << 10)	/* bytes; longer names are not demangled */
#define DEMANGLE_OUTPUT_MAX ((size_t)64 << 10)

/*
 * Appends the demangled symbol with its parameters and, for templates, its return type. Appends the
 * name itself if it is not mangled, malformed, too long, or crafted to take forever. Returns
 * whether it was demangled.
 */
bool demangle(const char *name, struct strbuf *out);

/* Appends the short form of a kernel name, mangled or not (names/kernel_name.h). */
void kernel_name_short(const char *name, struct strbuf *out);
/* Appends the short form or, if `full`, the demangled name. */
void kernel_name_text(const char *name, bool full, struct strbuf *out);

#endif
