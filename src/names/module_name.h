/* module_name.h: display names of mapped files. Safe for concurrent use. */
#ifndef PITOT_NAMES_MODULE_NAME_H
#define PITOT_NAMES_MODULE_NAME_H

#include "base/strbuf.h"

/* Appends the base name of a mapped file, without " (deleted)". */
void module_name(const char *path, struct strbuf *out);

/* Whether a library's frames below a call are of no interest: a GPU vendor's runtime, Pitot. */
bool is_vendor_module(const char *path);

#endif
