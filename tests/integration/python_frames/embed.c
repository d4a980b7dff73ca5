/*
 * embed.c LIBPYTHON: a program with an interpreter in it, opened with RTLD_LOCAL: frames before it
 * starts, while it runs, in a second interpreter, after it has ended, and once more from the
 * start. Says "ok", or what was wrong.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stack/python/python_code.h"
#include "stack/python/python_eval.h"

/*
 * What this program uses of Python's stable interface, so that it needs no headers of one version.
 */
struct method {
	const char *name;
	void *(*function)(void *, void *);
	int flags;
	const char *text;
};
#define METH_NOARGS_ 4

static void *library;
static struct python_runtime runtime;
static struct python_eval eval;
static struct python_codes *codes;
static char seen[4096];

static void *symbol(const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		printf("no %s\n", name);
		_exit(1);
	}
	return address;
}

#define CALL(type, name, ...) ((type)symbol(name))(__VA_ARGS__)

/* Names of the thread's frames, innermost first, into `seen`. */
static void look(void)
{
	struct python_frame frames[64];
	bool complete;
	unsigned n = python_walk(&runtime, frames, 64, &complete);
	size_t used = 0;

	python_code_ids(codes, frames, n);
	seen[0] = 0;
	for (unsigned i = 0; i < n; i++) {
		struct python_code code;

		if (python_code_get(codes, frames[i].id, &code))
			used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%.*s:%u ",
						 (int)code.name_length, code.name,
						 python_line(codes, frames[i].id, frames[i].last));
	}
}

static void expect(const char *what, const char *names)
{
	if (!strcmp(seen, names))
		return;
	printf("%s: '%s', expected '%s'\n", what, seen, names);
	_exit(1);
}

static void *look_method(void *self, void *unused)
{
	(void)self;
	(void)unused;
	look();
	return CALL(void *(*)(long), "PyLong_FromLong", 0);
}

static void run(const char *text)
{
	static struct method method = { "look", look_method, METH_NOARGS_, NULL };
	void *module = CALL(void *(*)(const char *), "PyImport_AddModule", "__main__");
	void *function = CALL(void *(*)(struct method *, void *, void *), "PyCFunction_NewEx",
			      &method, NULL, NULL);

	CALL(int (*)(void *, const char *, void *), "PyObject_SetAttrString", module, "look",
	     function);
	if (CALL(int (*)(const char *, void *), "PyRun_SimpleStringFlags", text, NULL) != 0) {
		printf("'%s' failed\n", text);
		_exit(1);
	}
}

static void second_interpreter(void)
{
	void *first = CALL(void *(*)(void *), "PyThreadState_Swap", NULL);
	void *second;

	CALL(void *(*)(void *), "PyThreadState_Swap", first);
	second = CALL(void *(*)(void), "Py_NewInterpreter");
	run("def sub():\n  look()\nsub()");
	/*
	 * Before 3.12 the interpreter does not tell this thread's current state without the GIL,
	 * only its first one.
	 */
	expect("second interpreter", runtime.version >= 0x030c0000 ? "sub:2 <module>:3 " : "");
	CALL(void (*)(void *), "Py_EndInterpreter", second);
	CALL(void *(*)(void *), "PyThreadState_Swap", first);
}

int main(int argc, char **argv)
{
	struct error e = { 0 };

	if (python_runtime_find(&runtime, &e) != -ENOENT) {
		puts("a Python where there is none");
		return 1;
	}
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library) {
		puts("cannot open the library");
		return 1;
	}
	if (python_runtime_find(&runtime, &e) < 0 || python_eval_find(&runtime, &eval, &e) < 0 ||
	    !eval.count) {
		printf("not found: %s\n", e.text);
		return 1;
	}
	codes = python_codes_new(1024, 1 << 20);
	if (!codes)
		return 1;
	python_codes_attach(codes, &runtime);
	look();
	expect("before it starts", "");
	for (int i = 0; i < 3; i++) {
		CALL(void (*)(int), "Py_InitializeEx", 0);
		look();
		expect("outside of Python", "");
		run("def f():\n  look()\nclass C:\n  f()\n  g = [look() for _ in range(2)]\n");
		run("f()");
		expect("in Python", "f:2 <module>:1 ");
		second_interpreter();
		CALL(int (*)(void), "Py_FinalizeEx");
		look();
		expect("after it has ended", "");
	}
	puts("ok");
	return 0;
}
