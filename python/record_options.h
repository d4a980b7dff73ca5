/* record_options.h: converts settings from Python to a struct pitot_options. */
#ifndef PITOT_PYTHON_RECORD_OPTIONS_H
#define PITOT_PYTHON_RECORD_OPTIONS_H

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED /* free-threaded CPython has no limited API before 3.15 */
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include "pitot/pitot.h"

extern PyObject *usage_error; /* pitot.UsageError */

/* A struct pitot_options, and the texts that it refers to. */
struct options {
	struct pitot_options options;
	PyObject *texts; /* a list */
};

/*
 * Reads a dict with the names of the struct's fields, and a path or None. None as a value: not
 * given. Returns 0, or -1 with an exception.
 */
int options_init(struct options *o, PyObject *path, PyObject *dict);
void options_release(struct options *o);

/* Raises "<key> must be <what>, not <value>". Returns -1. */
int raise_wrong(PyObject *class, const char *key, const char *what, PyObject *value);

#endif
