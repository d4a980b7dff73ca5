/* cxx_names.h: names of kernels as a person wrote them, by what the program has for that. */
#ifndef PITOT_CAPTURE_CXX_NAMES_H
#define PITOT_CAPTURE_CXX_NAMES_H

#include <stdbool.h>

#include "base/strbuf.h"

/*
 * Appends it by the program's C++ library, if it has one that all can see. false, and nothing: it
 * has not, or that is no such name.
 */
bool cxx_demangle(const char *name, struct strbuf *out);

#endif
