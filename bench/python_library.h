/*
 * python_library.h: a libpython for benchmarks, through declarations from Python's stable ABI, so
 * that no headers of a particular version are needed.
 */
#ifndef PITOT_BENCH_PYTHON_LIBRARY_H
#define PITOT_BENCH_PYTHON_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

struct python_method {
	const char *name;
	void *(*function)(void *, void *);
	int flags; /* METH_…_ */
	const char *text;
};
#define METH_NOARGS_ 4
#define METH_O_ 8

static void *library;

#define CALL(type, name, ...) ((type)dlsym(library, name))(__VA_ARGS__)

/* Opens the named library, or (NULL) the newest. */
static bool open_library(const char *path)
{
	for (unsigned minor = 14; !path && !library && minor >= 9; minor--) {
		char name[32];

		snprintf(name, sizeof(name), "libpython3.%u.so.1.0", minor);
		library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	}
	if (path)
		library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	return library;
}

/* Starts the interpreter and runs a script with these functions. Returns 0, or 1 if it fails. */
static int run_script(const char *script, struct python_method *methods, size_t count)
{
	void *module;

	CALL(void (*)(int), "Py_InitializeEx", 0);
	printf("CPython %s\n", CALL(const char *(*)(void), "Py_GetVersion"));
	module = CALL(void *(*)(const char *), "PyImport_AddModule", "__main__");
	for (size_t i = 0; i < count; i++) {
		void *function = CALL(void *(*)(struct python_method *, void *, void *),
				      "PyCFunction_NewEx", &methods[i], NULL, NULL);

		CALL(int (*)(void *, const char *, void *), "PyObject_SetAttrString", module,
		     methods[i].name, function);
	}
	return CALL(int (*)(const char *, void *), "PyRun_SimpleStringFlags", script, NULL) != 0;
}

#endif
