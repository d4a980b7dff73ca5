/* stacks_names.h: what frames of call stacks are called. Safe for concurrent use. */
#ifndef PITOT_ANALYSIS_STACKS_NAMES_H
#define PITOT_ANALYSIS_STACKS_NAMES_H

#include "base/strbuf.h"

#define FUNCTION_NAME_MAX 100 /* bytes; longer names lose their template arguments */

/* What follows the last '/'. */
const char *base_name(const char *path);

/*
 * Appends a demangled name without parameters, return type and the compiler's notes; template arguments only while the
 * name stays short.
 */
void function_name_short(const char *name, struct strbuf *out);

/* Appends "function (file.py:line)". */
void python_name(const char *function, const char *file, uint32_t line, struct strbuf *out);

/* A library whose frames below a call of CUDA tell nothing about the program: CUDA's own, CUPTI, Pitot. */
bool is_vendor_module(const char *path);

#endif
