/* stacks_names.h: names of frames, and classification by name. Safe for concurrent use. */
#ifndef PITOT_ANALYSIS_STACKS_NAMES_H
#define PITOT_ANALYSIS_STACKS_NAMES_H

#include "base/strbuf.h"

#define FUNCTION_NAME_MAX 100 /* bytes; longer names lose their template arguments */

/*
 * Appends a demangled name without parameters, return type and compiler annotations; keeps template
 * arguments only while the name stays short.
 */
void function_name_short(const char *name, struct strbuf *out);

/* Appends "function (file.py:line)". */
void python_name(const char *function, const char *file, uint32_t line, struct strbuf *out);

/* Program or library that contains the Python interpreter. */
bool is_interpreter(const char *path);
/* The same, or the C library that starts the interpreter. */
bool runs_python(const char *path);
/* Name of a PyTorch thread that runs the backward pass. */
bool is_autograd_thread(const char *name);
/* Native file that is not the user's: of a GPU's vendor, Pitot, Python, a framework, the system. */
bool is_library_module(const char *path);
/* Python file or header of an installed package, of Python, the system or CUDA. */
bool is_library_source(const char *path);

/* Python function that only calls another: torch's _call_impl, a decorator's wrapper, runpy. */
bool is_framework_wrapper(const char *function, const char *file);
/* Python code of a framework itself (torch, JAX, …), not of a model or another library. */
bool is_framework_source(const char *file);
/* Native function with which every stack begins. */
bool is_start_of_thread(const char *function);

#endif
