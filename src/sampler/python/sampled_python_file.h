/*
 * sampled_python_file.h: whether an ELF file is a CPython interpreter, from its symbols.
 */
#ifndef PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_FILE_H
#define PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_FILE_H

#include <stdbool.h>

#include "stack/python/python_eval.h"

enum python_name {
	PYTHON_RUNTIME, /* _PyRuntime */
	PYTHON_VERSION, /* Py_Version: from 3.11 on */
	PYTHON_CODE_TYPE,
	PYTHON_STRING_TYPE,
	PYTHON_BYTES_TYPE,
	PYTHON_GET_BACK, /* PyFrame_GetBack: from 3.9 on */
	PYTHON_NEW_REF, /* Py_NewRef: from 3.10 on */
	PYTHON_TRACE_REFS, /* builds whose objects look differently */
	PYTHON_DEBUG,
	PYTHON_NAMES,
};

/* Addresses are ELF virtual addresses; 0: it has no such symbol. */
struct sampled_python_file {
	uint64_t symbols[PYTHON_NAMES];
	struct python_eval eval;
};

/*
 * 0; -ENOENT when the file is none; or another negative code when it cannot be read. Only what is
 * needed of it is read: the dynamic symbols, and all symbols of an interpreter.
 */
int sampled_python_file_read(int fd, struct sampled_python_file *out) MUST_USE;

#endif
