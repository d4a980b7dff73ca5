/* module_name.h: display names of mapped files. Safe for concurrent use. */
#ifndef PITOT_NAMES_MODULE_NAME_H
#define PITOT_NAMES_MODULE_NAME_H

#include "base/strbuf.h"

/* Appends the base name of a mapped file, without " (deleted)". */
void module_name(const char *path, struct strbuf *out);

/* Whether a library's frames below a CUDA call are of no interest: CUDA's own, CUPTI, Pitot. */
bool is_vendor_module(const char *path);

#endif
