/* module_name.h: mapped files of a program, as they are shown. Safe for concurrent use. */
#ifndef PITOT_NAMES_MODULE_NAME_H
#define PITOT_NAMES_MODULE_NAME_H

#include "base/strbuf.h"

/* Appends what a mapped file is called; that it has been deleted meanwhile is no part of it. */
void module_name(const char *path, struct strbuf *out);

/*
 * A library whose frames below a call of CUDA tell nothing about the program: CUDA's own, CUPTI,
 * Pitot.
 */
bool is_vendor_module(const char *path);

#endif
