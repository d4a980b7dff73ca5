/* stacks_names.h: what frames of call stacks are called. Safe for concurrent use. */
#ifndef PITOT_ANALYSIS_STACKS_NAMES_H
#define PITOT_ANALYSIS_STACKS_NAMES_H

#include "base/strbuf.h"

#define FUNCTION_NAME_MAX 100 /* bytes; longer names lose their template arguments */

/*
 * Appends a demangled name without parameters, return type and the compiler's notes; template
 * arguments only while the name stays short.
 */
void function_name_short(const char *name, struct strbuf *out);

/* Appends "function (file.py:line)". */
void python_name(const char *function, const char *file, uint32_t line, struct strbuf *out);

/* The program or library that runs Python. */
bool is_interpreter(const char *path);
/* The same, and the C library that starts it. */
bool runs_python(const char *path);
/* A thread of PyTorch that runs the backward pass, by its name. */
bool is_autograd_thread(const char *name);
/* Code of CUDA's libraries, the driver's and the runtime's among them. */
bool is_cuda_module(const char *path);
/* A native function of CUDA's runtime, wherever it is: nvcc links that into programs. */
bool is_cuda_function(const char *function);
/* One that is on the way from a line that launches to the driver. */
bool is_cuda_launch(const char *function);
/* A native file that is not the user's own: of CUDA, Pitot, Python, a framework, or the system. */
bool is_library_module(const char *path);
/*
 * A Python file or a header of a library: installed packages, Python's own, the system's and CUDA's
 * headers.
 */
bool is_library_source(const char *path);

/*
 * A Python function that only calls another one: torch's _call_impl, a decorator's wrapper, runpy.
 */
bool is_framework_wrapper(const char *function, const char *file);
/*
 * Python code of a framework itself (torch, JAX, …), where a model's or a library's module is none.
 */
bool is_framework_source(const char *file);
/* A native function that every stack begins with. */
bool is_start_of_thread(const char *function);

#endif
