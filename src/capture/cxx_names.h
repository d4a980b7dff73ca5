/* cxx_names.h: demangles C++ names inside the target, using the program's own C++ library. */
#ifndef PITOT_CAPTURE_CXX_NAMES_H
#define PITOT_CAPTURE_CXX_NAMES_H

#include <stdbool.h>

#include "base/strbuf.h"

/*
 * Appends the demangled name, by __cxa_demangle if the program has it in its global scope. Returns
 * false, and appends nothing, if it has not or if `name` is not a mangled name.
 */
bool cxx_demangle(const char *name, struct strbuf *out);

#endif
