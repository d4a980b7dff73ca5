/* sampled_python_file.h: recognizes CPython interpreters by the symbols of their ELF files. */
#ifndef PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_FILE_H
#define PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_FILE_H

#include <stdbool.h>

#include "stack/python/python_eval.h"

enum python_name {
	PYTHON_RUNTIME, /* _PyRuntime: since 3.7 */
	PYTHON_VERSION, /* Py_Version: since 3.11 */
	PYTHON_CODE_TYPE,
	PYTHON_STRING_TYPE,
	PYTHON_BYTES_TYPE,
	PYTHON_GET_BACK, /* PyFrame_GetBack: since 3.9 */
	PYTHON_NEW_REF, /* Py_NewRef: since 3.10 */
	PYTHON_CONFIG, /* PyConfig_InitPythonConfig: since 3.8 */
	PYTHON_TRACE_REFS, /* only in builds with another layout of objects */
	PYTHON_DEBUG,
	PYTHON_NAMES,
};

/* ELF virtual addresses; 0: no such symbol. */
struct sampled_python_file {
	uint64_t symbols[PYTHON_NAMES];
	struct python_eval eval;
};

/*
 * Returns 0; -ENOENT when the file is no interpreter; or another negative code when it cannot be
 * read. Reads only what is needed: the dynamic symbols, and of an interpreter all symbols.
 */
int sampled_python_file_read(int fd, struct sampled_python_file *out) MUST_USE;

#endif
