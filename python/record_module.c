/*
 * record_module.c: pitot._record, include/pitot/pitot.h and scope.h for Python, on the limited API
 * of CPython 3.9.
 *
 * The recorder is searched once, when this module is imported: a libpitot.so loaded by `pitot
 * record`, the driver or the program itself; the one that the driver will load; the one of this
 * package. A second copy would not know the recordings of the first. Without a recorder, scopes,
 * marks and counters do nothing, and start raises the reason.
 */
#include "record_options.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "record_library.h"
#include "record_operators.h"
#include "record_scopes.h"

#ifndef METH_FASTCALL /* exists since 3.7; the limited API has it since 3.10, with this value */
#define METH_FASTCALL 0x0080
#endif

#define SCOPES_MAX 4096 /* most cached scopes; names made up at run time are not cached */

static PyObject *error_class, *file_error;

/* Returns the path of the recorder, or None and the reason. */
static PyObject *library(PyObject *module, PyObject *unused)
{
	Dl_info info;

	(void)module;
	(void)unused;
	if (recorder.start && dladdr((void *)recorder.start, &info))
		return Py_BuildValue("Ns", PyUnicode_DecodeFSDefault(info.dli_fname), "");
	return Py_BuildValue("Os", Py_None, no_recorder);
}

/* --- recordings --- */

static PyObject *fail(int code)
{
	PyObject *class = code == EINVAL || code == E2BIG                     ? usage_error
			  : code == EAGAIN || code == EBUSY || code == ENOMEM ? error_class
									      : file_error;

	PyErr_SetString(class, recorder.error());
	return NULL;
}

static bool check_recorder(void)
{
	if (!recorder.start)
		PyErr_Format(error_class,
			     "no recorder was found (%s); it needs Linux on x86-64 or aarch64, and "
			     "is part of the package: `pip install .`",
			     no_recorder);
	return recorder.start != NULL;
}

/* Receives the recorder's messages. Errors become exceptions; other messages are printed on request. */
struct messages {
	char warning[PATH_MAX];
	int verbose; /* prints them as gpufl does */
};

static void store_warning(void *context, int level, const char *text)
{
	struct messages *messages = context;

	if (level == PITOT_LOG_WARNING)
		snprintf(messages->warning, sizeof(messages->warning), "%s", text);
	else if (messages->verbose)
		fprintf(stderr, "[gpufl] %s\n", text);
}

static int warn(const char *text)
{
	return *text ? PyErr_WarnEx(PyExc_RuntimeWarning, text, 3) : 0;
}

static const char running[] = "pitot_session", ended[] = "pitot_session that has ended";

/* Stops a session that an exception, such as KeyboardInterrupt, has kept from its owner. */
static void capsule_free(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, running))
		recorder.stop(PyCapsule_GetPointer(capsule, running));
}

/* Arguments: path or None, settings. Returns (session, path); None: recording is switched off. */
static PyObject *start(PyObject *module, PyObject *args)
{
	struct pitot_session *session;
	struct messages messages = { "", 0 };
	PyObject *path, *dict, *capsule;
	struct options o;
	int code;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!", &path, &PyDict_Type, &dict) || !check_recorder() ||
	    options_init(&o, path, dict) < 0)
		return NULL;
	o.options.log = store_warning;
	o.options.log_context = &messages;
	Py_BEGIN_ALLOW_THREADS session = recorder.start(&o.options);
	code = errno;
	Py_END_ALLOW_THREADS options_release(&o);
	if (!session && code == ECANCELED)
		Py_RETURN_NONE;
	if (!session)
		return fail(code);
	capsule = PyCapsule_New(session, running, capsule_free);
	if (!capsule)
		recorder.stop(session);
	if (!capsule || warn(messages.warning) < 0) {
		Py_XDECREF(capsule);
		return NULL;
	}
	return Py_BuildValue("NN", capsule, PyUnicode_DecodeFSDefault(recorder.path(session)));
}

/* Argument: a dict of settings. */
static PyObject *check(PyObject *module, PyObject *dict)
{
	struct options o;

	(void)module;
	if (options_init(&o, Py_None, dict) < 0)
		return NULL;
	options_release(&o);
	Py_RETURN_NONE;
}

/* Argument: a session of start, which must not be used any more. */
static PyObject *stop(PyObject *module, PyObject *capsule)
{
	struct pitot_session *session = PyCapsule_GetPointer(capsule, running);
	int rc;

	(void)module;
	if (!session || PyCapsule_SetName(capsule, ended) != 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = recorder.stop(session);
	Py_END_ALLOW_THREADS;
	if (rc < 0 && PyErr_WarnEx(PyExc_RuntimeWarning, recorder.error(), 1) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* Argument: a session of start, which ends with the process. */
static PyObject *leave(PyObject *module, PyObject *capsule)
{
	(void)module;
	return PyCapsule_SetName(capsule, ended) == 0 ? Py_BuildValue("") : NULL;
}

/* Returns a session of start, or that of init for None; false when it is neither. */
static bool find_session(PyObject *capsule, struct pitot_session **session)
{
	*session = capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, running);
	return *session || capsule == Py_None;
}

/* Arguments: a session as for find_session(), a dict with engine, delay_ns and duration_ns. */
static PyObject *engine_begin(PyObject *module, PyObject *args)
{
	struct pitot_session *session;
	PyObject *capsule, *dict;
	struct options o;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyDict_Type, &dict) ||
	    !find_session(capsule, &session) || options_init(&o, Py_None, dict) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = recorder.engine_begin(
		session, o.options.engine, o.options.delay_ns, o.options.duration_ns);
	Py_END_ALLOW_THREADS options_release(&o);
	if (rc == -EINVAL)
		raise_wrong(usage_error, "the engine", "one beyond trace, such as pc-sampling",
			    PyDict_GetItemString(dict, "engine"));
	else if (rc < 0)
		PyErr_SetString(error_class, recorder.error());
	if (rc == 0 || (rc > 0 && warn(recorder.error()) == 0))
		Py_RETURN_NONE;
	if (rc > 0)
		recorder.engine_end(session);
	return NULL;
}

/* Argument: a session as for find_session(). */
static PyObject *engine_end(PyObject *module, PyObject *capsule)
{
	struct pitot_session *session;

	(void)module;
	if (!find_session(capsule, &session))
		return NULL;
	Py_BEGIN_ALLOW_THREADS recorder.engine_end(session);
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *flush(PyObject *module, PyObject *unused)
{
	int rc;

	(void)module;
	(void)unused;
	if (!check_recorder())
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = recorder.flush(NULL);
	Py_END_ALLOW_THREADS if (rc < 0) return fail(-rc);
	Py_RETURN_NONE;
}

/* Arguments: a path or None, nanoseconds. Returns the number of segments. */
static PyObject *dump(PyObject *module, PyObject *args)
{
	unsigned long long last_ns;
	PyObject *path = NULL;
	int rc, is_none;

	(void)module;
	if (!PyArg_ParseTuple(args, "OK", &path, &last_ns) || !check_recorder())
		return NULL;
	is_none = path == Py_None;
	if (!is_none && !PyUnicode_FSConverter(path, &path))
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = recorder.dump(is_none ? NULL : PyBytes_AsString(path), last_ns);
	Py_END_ALLOW_THREADS if (!is_none) Py_DECREF(path);
	if (rc < 0)
		return fail(-rc);
	return PyLong_FromLong(rc);
}

/* Arguments: settings of the program, its defaults, whether to print messages. False: recording is switched off. */
static PyObject *init(PyObject *module, PyObject *args)
{
	struct messages messages = { "", 0 };
	PyObject *code, *defaults;
	struct options o, weak;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O!p", &PyDict_Type, &code, &PyDict_Type, &defaults,
			      &messages.verbose) ||
	    !check_recorder() || options_init(&weak, Py_None, defaults) < 0)
		return NULL;
	if (options_init(&o, Py_None, code) < 0) {
		options_release(&weak);
		return NULL;
	}
	o.options.defaults = &weak.options;
	o.options.log = store_warning;
	o.options.log_context = &messages;
	Py_BEGIN_ALLOW_THREADS rc = recorder.init(&o.options);
	Py_END_ALLOW_THREADS options_release(&o);
	options_release(&weak);
	if (rc < 0)
		return fail(-rc);
	return warn(messages.warning) < 0 ? NULL : PyBool_FromLong(rc);
}

static PyObject *shutdown(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	if (recorder.start) {
		Py_BEGIN_ALLOW_THREADS recorder.shutdown();
		Py_END_ALLOW_THREADS
	}
	Py_RETURN_NONE;
}

/*
 * Arguments: two paths as bytes, texts, milliseconds, retries, force; "" and 0: not given. Returns
 * the number of records; raises OSError.
 */
static PyObject *upload(PyObject *module, PyObject *args)
{
	struct pitot_upload_options o = { .size = sizeof(o), .force = PITOT_OFF };
	unsigned long long timeout_ms, retries;
	const char **const texts[] = { &o.cursor, &o.url, &o.api_key, &o.api_path, &o.session };
	int64_t records;
	int force;

	(void)module;
	if (!PyArg_ParseTuple(args, "yyssssKKp", &o.path, &o.cursor, &o.url, &o.api_key,
			      &o.api_path, &o.session, &timeout_ms, &retries, &force) ||
	    !check_recorder())
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!**texts[i])
			*texts[i] = NULL;
	o.timeout_ns = timeout_ms * 1000000;
	o.retries = retries ? retries : PITOT_NONE;
	o.force = force ? PITOT_ON : PITOT_OFF;
	Py_BEGIN_ALLOW_THREADS records = recorder.upload(&o);
	Py_END_ALLOW_THREADS return records < 0 ? fail((int)-records)
						: PyLong_FromLongLong(records);
}

/* --- scopes --- */

/* A scope's state belongs to the thread, so one object is reentrant and serves all threads. */
struct scope {
	PyObject_HEAD PyObject *bytes, *exit; /* exit: __exit__, bound to `bytes` */
	const char *text; /* within `bytes` */
};

static PyTypeObject *scope_type; /* Scope, then the class set by scope_class() */
static PyObject *scopes; /* cached scopes, by name */

static struct scope *scope_of(PyObject *self)
{
	return (struct scope *)(void *)self;
}

static PyObject *scope_exit(PyObject *bytes, PyObject *const *args, Py_ssize_t count);
static PyMethodDef scope_exit_method = { "__exit__", (PyCFunction)(void (*)(void))scope_exit,
					 METH_FASTCALL, NULL };

static PyObject *scope_make(PyObject *name)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(scope_type, Py_tp_alloc);
	PyObject *bytes, *self;

	if (!PyUnicode_Check(name)) {
		raise_wrong(PyExc_TypeError, "the name of a scope", "a str", name);
		return NULL;
	}
	bytes = PyUnicode_AsEncodedString(name, "utf-8", "replace");
	self = bytes ? allocate(scope_type, 0) : NULL;
	if (!self) {
		Py_XDECREF(bytes);
		return NULL;
	}
	scope_of(self)->bytes = bytes;
	scope_of(self)->text = PyBytes_AsString(bytes);
	scope_of(self)->exit = PyCFunction_NewEx(&scope_exit_method, bytes, NULL);
	if (!scope_of(self)->exit ||
	    (PyDict_Size(scopes) < SCOPES_MAX && PyDict_SetItem(scopes, name, self) < 0))
		Py_CLEAR(self);
	return self;
}

/* A function instead of the type, with a cache: 25 ns instead of 75. */
static PyObject *scope(PyObject *module, PyObject *name)
{
	PyObject *self = NULL;

	(void)module;
#ifdef Py_GIL_DISABLED
	if (PyDict_GetItemRef(scopes, name, &self) < 0)
		return NULL;
#else
	self = PyDict_GetItemWithError(scopes, name);
	Py_XINCREF(self);
#endif
	return self || PyErr_Occurred() ? self : scope_make(name);
}

/* Argument: a subclass of Scope, from then on the class of new scopes. */
static PyObject *scope_class(PyObject *module, PyObject *class)
{
	(void)module;
	Py_INCREF(class);
	scope_type = (PyTypeObject *)class;
	Py_INCREF(class);
	return class;
}

static void scope_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(scope_of(self)->exit);
	Py_XDECREF(scope_of(self)->bytes);
	release(self);
	Py_DECREF(type);
}

#define SCOPE_FUNCTIONS                                                                            \
	{                                                                                          \
		recorder.scope_begin, recorder.scope_begin_runs, recorder.scope_end,               \
			recorder.scope_start, recorder.scope_finish                                \
	}

static PyObject *scope_enter(PyObject *self, PyObject *unused)
{
	struct scope_functions made = SCOPE_FUNCTIONS;

	(void)unused;
	if (recorder.start && open_scope(&made, scope_of(self)->text, 0, 0) < 0)
		return NULL;
	Py_INCREF(self);
	return self;
}

static PyObject *scope_exit(PyObject *bytes, PyObject *const *args, Py_ssize_t count)
{
	struct scope_functions made = SCOPE_FUNCTIONS;

	(void)args;
	(void)count;
	if (recorder.start && close_scope(&made, PyBytes_AsString(bytes)) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/*
 * The class's __exit__ is a descriptor with the method that its scope has: `with` would bind
 * another one each time, which takes 30 ns.
 */
static PyObject *exit_get(PyObject *self, PyObject *scope, PyObject *type)
{
	PyObject *found = scope ? scope_of(scope)->exit : self;

	(void)type;
	Py_INCREF(found);
	return found;
}

/* contextlib.ExitStack calls what the class has, with the scope. */
static PyObject *exit_call(PyObject *self, PyObject *args, PyObject *named)
{
	PyObject *scope = PyTuple_Size(args) ? PyTuple_GetItem(args, 0) : Py_None;

	(void)self;
	(void)named;
	if (PyObject_TypeCheck(scope, scope_type))
		return scope_exit(scope_of(scope)->bytes, NULL, 0);
	raise_wrong(PyExc_TypeError, "the argument of __exit__", "a scope", scope);
	return NULL;
}

/* Arguments: repeat, warmup. __exit__ ends the scope. */
static PyObject *scope_begin_runs(PyObject *self, PyObject *args)
{
	struct scope_functions made = SCOPE_FUNCTIONS;
	unsigned int repeat, warmup;

	if (!PyArg_ParseTuple(args, "II", &repeat, &warmup))
		return NULL;
	if (recorder.start && open_scope(&made, scope_of(self)->text, repeat, warmup) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *mark(PyObject *module, PyObject *text)
{
	PyObject *bytes;

	(void)module;
	if (!PyUnicode_Check(text)) {
		raise_wrong(PyExc_TypeError, "the text of a mark", "a str", text);
		return NULL;
	}
	bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
	if (!bytes)
		return NULL;
	if (recorder.start)
		recorder.mark(PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	Py_RETURN_NONE;
}

/* Argument: the path of torch._C. Returns why operators have no scopes; then they need no end. */
static PyObject *watch_operators(PyObject *module, PyObject *path)
{
	struct operator_scopes made = { recorder.scope_begin, recorder.scope_end };
	const char *reason = NULL;
	PyObject *bytes;

	(void)module;
	if (!PyUnicode_FSConverter(path, &bytes))
		return NULL;
	if (recorder.start)
		reason = operators_begin(&made, PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return Py_BuildValue("z", reason);
}

static PyObject *unwatch_operators(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	if (recorder.start)
		operators_end();
	Py_RETURN_NONE;
}

/* --- numbers --- */

/* Arguments: name, unit, description. Returns the counter's number, or 0 without a recorder. */
static PyObject *counter(PyObject *module, PyObject *args)
{
	const char *name, *unit, *description;

	(void)module;
	if (!PyArg_ParseTuple(args, "sss", &name, &unit, &description))
		return NULL;
	return PyLong_FromUnsignedLong(recorder.start ? recorder.counter(name, unit, description)
						      : 0);
}

/* Opens or closes a window of readings. Arguments: its name or None, whether it opens. */
static PyObject *system_window(PyObject *module, PyObject *args)
{
	const char *name;
	int opens;

	(void)module;
	if (!PyArg_ParseTuple(args, "zp", &name, &opens))
		return NULL;
	if (recorder.start)
		(opens ? recorder.system_start : recorder.system_stop)(name);
	Py_RETURN_NONE;
}

static PyObject *counter_add(PyObject *module, PyObject *args)
{
	unsigned int number;
	long long by;

	(void)module;
	if (!PyArg_ParseTuple(args, "IL", &number, &by))
		return NULL;
	if (recorder.start)
		recorder.counter_add(number, by);
	Py_RETURN_NONE;
}

static PyObject *gauge(PyObject *module, PyObject *args)
{
	unsigned int number;
	double value;

	(void)module;
	if (!PyArg_ParseTuple(args, "Id", &number, &value))
		return NULL;
	if (recorder.start)
		recorder.gauge(number, value);
	Py_RETURN_NONE;
}

static bool is_kind(unsigned int kind)
{
	if (kind > 7)
		PyErr_Format(usage_error,
			     "%u is not a kind of external correlation: kinds are 0 to 7", kind);
	return kind <= 7;
}

static PyObject *external_push(PyObject *module, PyObject *args)
{
	unsigned long long id;
	unsigned int kind;

	(void)module;
	if (!PyArg_ParseTuple(args, "IK", &kind, &id) || !is_kind(kind))
		return NULL;
	return PyBool_FromLong(recorder.start && recorder.external_push(kind, id) > 0);
}

static PyObject *external_pop(PyObject *module, PyObject *args)
{
	unsigned int kind;
	uint64_t id;

	(void)module;
	if (!PyArg_ParseTuple(args, "I", &kind) || !is_kind(kind))
		return NULL;
	if (!recorder.start || recorder.external_pop(kind, &id) <= 0)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(id);
}

/* --- the module --- */

static PyMethodDef scope_methods[] = {
	{ "__enter__", scope_enter, METH_NOARGS, NULL },
	{ "begin_runs", scope_begin_runs, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot scope_slots[] = {
	{ Py_tp_dealloc, (void *)scope_dealloc },
	{ Py_tp_methods, scope_methods },
	{ 0, NULL },
};

static PyType_Spec scope_spec = { .name = "pitot._record.Scope",
				  .basicsize = sizeof(struct scope),
				  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
				  .slots = scope_slots };

static PyType_Slot exit_slots[] = {
	{ Py_tp_descr_get, (void *)exit_get },
	{ Py_tp_call, (void *)exit_call },
	{ 0, NULL },
};

static PyType_Spec exit_spec = { .name = "pitot._record.ScopeExit",
				 .basicsize = sizeof(PyObject),
				 .flags = Py_TPFLAGS_DEFAULT,
				 .slots = exit_slots };

static const char scope_doc[] = "scope(name)\n--\n\n"
				"A named span of this thread: `with pitot.scope(\"forward\"):`, "
				"`@pitot.scope(\"forward\")`,\n"
				"`for i in pitot.scope(\"gemm\").iterate(repeat=10, warmup=2)`. "
				"Work of GPUs that is launched within belongs to it.";

static PyMethodDef methods[] = {
	{ "library", library, METH_NOARGS, NULL },
	{ "check", check, METH_O, NULL },
	{ "start", start, METH_VARARGS, NULL },
	{ "stop", stop, METH_O, NULL },
	{ "leave", leave, METH_O, NULL },
	{ "engine_begin", engine_begin, METH_VARARGS, NULL },
	{ "engine_end", engine_end, METH_O, NULL },
	{ "flush", flush, METH_NOARGS, NULL },
	{ "dump", dump, METH_VARARGS, NULL },
	{ "init", init, METH_VARARGS, NULL },
	{ "shutdown", shutdown, METH_NOARGS, NULL },
	{ "upload", upload, METH_VARARGS, NULL },
	{ "scope", scope, METH_O, scope_doc },
	{ "scope_class", scope_class, METH_O, NULL },
	{ "mark", mark, METH_O, NULL },
	{ "watch_operators", watch_operators, METH_O, NULL },
	{ "unwatch_operators", unwatch_operators, METH_NOARGS, NULL },
	{ "system_window", system_window, METH_VARARGS, NULL },
	{ "counter", counter, METH_VARARGS, NULL },
	{ "counter_add", counter_add, METH_VARARGS, NULL },
	{ "gauge", gauge, METH_VARARGS, NULL },
	{ "external_push", external_push, METH_VARARGS, NULL },
	{ "external_pop", external_pop, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "pitot._record",
					 .m_size = -1, .m_methods = methods };

static bool import_errors(void)
{
	PyObject *read = PyImport_ImportModule("pitot._read");

	if (!read)
		return false;
	error_class = PyObject_GetAttrString(read, "Error");
	file_error = PyObject_GetAttrString(read, "FileError");
	usage_error = PyObject_GetAttrString(read, "UsageError");
	Py_DECREF(read);
	return error_class && file_error && usage_error;
}

PyMODINIT_FUNC PyInit__record(void);

PyMODINIT_FUNC PyInit__record(void)
{
	PyObject *module, *type, *exit_type, *exit;

	if (!import_errors())
		return NULL;
	module = PyModule_Create(&definition);
	type = module ? PyType_FromSpec(&scope_spec) : NULL;
	scopes = PyDict_New();
	exit_type = type ? PyType_FromSpec(&exit_spec) : NULL;
	exit = exit_type ? PyObject_CallObject(exit_type, NULL) : NULL;
	if (!exit || PyObject_SetAttrString(type, "__exit__", exit) < 0 || !scopes ||
	    PyModule_AddObject(module, "Scope", type) < 0)
		return NULL;
	Py_INCREF(type);
	scope_type = (PyTypeObject *)type;
#ifdef Py_GIL_DISABLED
	if (PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0)
		return NULL;
#endif
	find_recorder();
	return module;
}
