/*
 * read_module.c: pitot._read, include/pitot/read.h for Python, on the limited API of CPython 3.9.
 *
 * Texts are passed as bytes, because the limited API of 3.9 has no UTF-8 of a str that lives as
 * long as the str. A Recording is closed when its last reference goes, so that no thread can lose
 * it while it decodes without the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED /* free-threaded CPython has no limited API before 3.15 */
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pitot/read.h"

static PyObject *error_class, *file_error, *format_error, *usage_error;

static PyObject *fail(const struct pitot_read_error *e)
{
	int is_limit = e->code == -ETIMEDOUT || e->code == -ENOMEM;
	PyObject *class = is_limit                        ? error_class
			  : e->code > -1000               ? file_error
			  : e->code == PITOT_READ_USAGE   ? usage_error
			  : e->code >= PITOT_READ_VERSION ? format_error
							  : error_class;

	PyErr_SetString(class, e->text);
	return NULL;
}

struct recording {
	PyObject_HEAD struct pitot_recording *r;
};

static struct pitot_recording *recording_of(PyObject *self)
{
	return ((struct recording *)(void *)self)->r;
}

/* Takes ownership of r, also on failure. */
static PyObject *recording_of_type(PyTypeObject *type, struct pitot_recording *r)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = allocate(type, 0);

	if (self)
		((struct recording *)(void *)self)->r = r;
	else
		pitot_read_close(r);
	return self;
}

static PyObject *recording_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct pitot_recording *r = NULL;
	struct pitot_read_error error;
	PyObject *path;
	int result;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	Py_BEGIN_ALLOW_THREADS result = pitot_read_open(PyBytes_AsString(path), &r, &error);
	Py_END_ALLOW_THREADS Py_DECREF(path);
	return result < 0 ? fail(&error) : recording_of_type(type, r);
}

/* Argument: table. */
static PyObject *recording_follow(PyObject *self, PyObject *args)
{
	struct pitot_recording *r = NULL;
	struct pitot_read_error error;
	const char *table;
	int result;

	if (!PyArg_ParseTuple(args, "y", &table))
		return NULL;
	Py_BEGIN_ALLOW_THREADS result = pitot_read_follow(recording_of(self), table, &r, &error);
	Py_END_ALLOW_THREADS return result < 0 ? fail(&error) : recording_of_type(Py_TYPE(self), r);
}

static void recording_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	pitot_read_close(recording_of(self));
	release(self);
	Py_DECREF(type);
}

static PyObject *recording_span(PyObject *self, PyObject *unused)
{
	struct pitot_read_span span;

	(void)unused;
	pitot_read_span(recording_of(self), &span);
	return Py_BuildValue("KKL", (unsigned long long)span.start_ns,
			     (unsigned long long)span.end_ns, (long long)span.unix_offset_ns);
}

static PyObject *recording_tables(PyObject *self, PyObject *unused)
{
	PyObject *list = PyList_New(0), *item;
	struct pitot_read_error error;
	struct pitot_read_info info;
	int result = 1;

	(void)unused;
	for (size_t i = 0; list && result > 0; i++) {
		Py_BEGIN_ALLOW_THREADS result =
			pitot_read_info(recording_of(self), i, &info, &error);
		Py_END_ALLOW_THREADS if (result <= 0) break;
		item = Py_BuildValue("ssK", info.name, info.meaning, (unsigned long long)info.rows);
		if (!item || PyList_Append(list, item) < 0)
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	if (result < 0) {
		Py_CLEAR(list);
		fail(&error);
	}
	return list;
}

/*
 * The elements of a tuple of bytes, which must outlive them, NULL-terminated. 0 or an exception,
 * -1.
 */
static int texts_of(PyObject *tuple, const char ***out)
{
	Py_ssize_t count = tuple == Py_None ? 0 : PyTuple_Size(tuple);
	char *text;

	*out = NULL;
	if (count < 0 || tuple == Py_None)
		return count < 0 ? -1 : 0;
	*out = calloc((size_t)count + 1, sizeof(**out));
	if (!*out) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &text, NULL) < 0)
			return -1;
		(*out)[i] = text;
	}
	return 0;
}

struct query {
	struct pitot_read_query query;
	const char **columns, **conditions;
};

static void query_release(struct query *q)
{
	free(q->columns);
	free(q->conditions);
}

/* Arguments: table, columns (a tuple of bytes, or None for all), conditions (likewise), since_ns, until_ns. */
static int query_init(struct query *q, PyObject *args)
{
	unsigned long long since_ns, until_ns;
	PyObject *columns, *conditions;

	*q = (struct query){ .query.size = sizeof(q->query) };
	if (!PyArg_ParseTuple(args, "yOOKK", &q->query.table, &columns, &conditions, &since_ns,
			      &until_ns))
		return -1;
	if (texts_of(columns, &q->columns) < 0 || texts_of(conditions, &q->conditions) < 0) {
		query_release(q);
		return -1;
	}
	q->query.columns = q->columns;
	q->query.conditions = q->conditions;
	q->query.since_ns = since_ns;
	q->query.until_ns = until_ns;
	return 0;
}

static void schema_capsule_free(PyObject *capsule)
{
	struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

	if (schema && schema->release)
		schema->release(schema);
	free(schema);
}

static void stream_capsule_free(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");

	if (stream && stream->release)
		stream->release(stream);
	free(stream);
}

static PyObject *recording_schema(PyObject *self, PyObject *args)
{
	struct ArrowSchema *schema = calloc(1, sizeof(*schema));
	struct pitot_read_error error;
	PyObject *capsule = NULL;
	struct query q;

	if (!schema)
		return PyErr_NoMemory();
	if (query_init(&q, args) == 0) {
		if (pitot_read_schema(recording_of(self), &q.query, schema, &error) < 0)
			fail(&error);
		else
			capsule = PyCapsule_New(schema, "arrow_schema", schema_capsule_free);
		query_release(&q);
	}
	if (!capsule) {
		if (schema->release)
			schema->release(schema);
		free(schema);
	}
	return capsule;
}

static PyObject *recording_stream(PyObject *self, PyObject *args)
{
	struct ArrowArrayStream *stream = calloc(1, sizeof(*stream));
	struct pitot_read_error error;
	PyObject *capsule = NULL;
	struct query q;
	int result;

	if (!stream)
		return PyErr_NoMemory();
	if (query_init(&q, args) == 0) {
		Py_BEGIN_ALLOW_THREADS result =
			pitot_read_table(recording_of(self), &q.query, stream, &error);
		Py_END_ALLOW_THREADS if (result < 0) fail(&error);
		else capsule = PyCapsule_New(stream, "arrow_array_stream", stream_capsule_free);
		query_release(&q);
	}
	if (!capsule) {
		if (stream->release)
			stream->release(stream);
		free(stream);
	}
	return capsule;
}

/* Arguments: statement, whether it is only checked, its limits. */
static PyObject *recording_sql(PyObject *self, PyObject *args)
{
	struct ArrowArrayStream *stream = calloc(1, sizeof(*stream));
	struct pitot_read_limits limits = { .size = sizeof(limits) };
	struct pitot_read_error error;
	unsigned long long timeout_ns, memory_bytes;
	PyObject *capsule = NULL;
	const char *statement;
	int check = 0, result;

	if (!stream)
		return PyErr_NoMemory();
	if (PyArg_ParseTuple(args, "ypKK", &statement, &check, &timeout_ns, &memory_bytes)) {
		limits.timeout_ns = timeout_ns;
		limits.memory_bytes = memory_bytes;
		Py_BEGIN_ALLOW_THREADS result = pitot_read_sql(recording_of(self), statement,
							       &limits, check ? NULL : stream,
							       &error);
		Py_END_ALLOW_THREADS if (result < 0) fail(&error);
		else if (check) capsule = Py_BuildValue("");
		else capsule = PyCapsule_New(stream, "arrow_array_stream", stream_capsule_free);
	}
	if (!capsule || check) {
		if (stream->release)
			stream->release(stream);
		free(stream);
	}
	return capsule;
}

/* Returns the metadata of a field, as text. Keys and values are preceded by their lengths. */
static PyObject *metadata_of(const char *at)
{
	PyObject *dict = PyDict_New();
	int32_t count = 0, lengths[2];

	memcpy(&count, at, sizeof(count));
	at += sizeof(count);
	while (dict && count-- > 0) {
		PyObject *texts[2];

		for (int i = 0; i < 2; i++) {
			memcpy(&lengths[i], at, sizeof(lengths[i]));
			texts[i] = PyUnicode_FromStringAndSize(at + sizeof(lengths[i]), lengths[i]);
			at += (int32_t)sizeof(lengths[i]) + lengths[i];
		}
		if (!texts[0] || !texts[1] || PyDict_SetItem(dict, texts[0], texts[1]) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(texts[0]);
		Py_XDECREF(texts[1]);
	}
	return dict;
}

/* {name: {"unit": …, "meaning": …}} */
static PyObject *recording_columns(PyObject *self, PyObject *args)
{
	PyObject *capsule = recording_schema(self, args), *dict = capsule ? PyDict_New() : NULL;
	const struct ArrowSchema *schema =
		capsule ? PyCapsule_GetPointer(capsule, "arrow_schema") : NULL;

	for (int64_t i = 0; dict && i < schema->n_children; i++) {
		PyObject *about = metadata_of(schema->children[i]->metadata);

		if (!about || PyDict_SetItemString(dict, schema->children[i]->name, about) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(about);
	}
	Py_XDECREF(capsule);
	return dict;
}

/* Arguments: since_ns, until_ns, pid, device, stream (-1: all), kernel, scope, by (str or None), scopes, stalls. */
static PyObject *recording_report(PyObject *self, PyObject *args)
{
	struct pitot_read_report o = PITOT_READ_REPORT_INIT;
	struct pitot_read_error error;
	PyObject *text;
	char *json = NULL;
	int result;

	if (!PyArg_ParseTuple(args, "KKLLLzzzpp", &o.since_ns, &o.until_ns, &o.pid, &o.device,
			      &o.stream, &o.kernel, &o.scope, &o.by, &o.scopes, &o.stalls))
		return NULL;
	Py_BEGIN_ALLOW_THREADS result = pitot_read_report(recording_of(self), &o, &json, &error);
	Py_END_ALLOW_THREADS if (result < 0) return fail(&error);
	text = PyUnicode_FromString(json);
	free(json);
	return text;
}

/* Arguments: path, format (or None), since_ns, until_ns, kernel (or None), overwrite. */
static PyObject *recording_export(PyObject *self, PyObject *args)
{
	struct pitot_read_export o = { .size = sizeof(o) };
	struct pitot_read_error error;
	uint64_t events = 0;
	PyObject *path;
	int result;

	if (!PyArg_ParseTuple(args, "O&zKKzp", PyUnicode_FSConverter, &path, &o.format, &o.since_ns,
			      &o.until_ns, &o.kernel, &o.overwrite))
		return NULL;
	Py_BEGIN_ALLOW_THREADS result =
		pitot_read_export(recording_of(self), PyBytes_AsString(path), &o, &events, &error);
	Py_END_ALLOW_THREADS Py_DECREF(path);
	return result < 0 ? fail(&error) : PyLong_FromUnsignedLongLong(events);
}

static PyMethodDef methods[] = {
	{ "span", recording_span, METH_NOARGS, NULL },
	{ "tables", recording_tables, METH_NOARGS, NULL },
	{ "schema", recording_schema, METH_VARARGS, NULL },
	{ "stream", recording_stream, METH_VARARGS, NULL },
	{ "sql", recording_sql, METH_VARARGS, NULL },
	{ "columns", recording_columns, METH_VARARGS, NULL },
	{ "follow", recording_follow, METH_VARARGS, NULL },
	{ "report", recording_report, METH_VARARGS, NULL },
	{ "export", recording_export, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, (void *)recording_new },
	{ Py_tp_dealloc, (void *)recording_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = { .name = "pitot._read.Recording",
			    .basicsize = sizeof(struct recording),
			    .flags = Py_TPFLAGS_DEFAULT,
			    .slots = slots };

/*
 * A process has one set of classes and one recorder. CPython does not call PyInit in
 * subinterpreters once the main interpreter has the module.
 */
static PyObject *check_interpreter(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		Py_RETURN_NONE;
	PyErr_SetString(PyExc_ImportError, "pitot does not work in a subinterpreter: import it in "
					   "the main one, or in another process");
	return NULL;
}

/* Lists of Python are appended to; a reference that fails leaves an exception. */
static int append(PyObject *list, PyObject *item)
{
	int result = item ? PyList_Append(list, item) : -1;

	Py_XDECREF(item);
	return result;
}

/*
 * (type, has, time, duration, correlation, device, stream, thread, name, 8 sizes, 3 of memory,
 * [(address, line, function, file)]), texts as bytes
 */
static int add_event(void *list, const struct pitot_sbt_event *v)
{
	const uint32_t *k = v->kernel;
	PyObject *frames = PyList_New(0);

	for (size_t i = 0; frames && i < v->frame_count; i++) {
		const struct pitot_sbt_frame *f = &v->frames[i];

		if (append(frames, Py_BuildValue("KKy#y#", f->address, f->line, f->function.bytes,
						 (Py_ssize_t)f->function.length, f->file.bytes,
						 (Py_ssize_t)f->file.length)) < 0)
			Py_CLEAR(frames);
	}
	return frames && append(list, Py_BuildValue("IIKKKIIIy#(IIIIIIII)(KKK)N", v->type, v->has,
						    v->time_ns, v->duration_ns, v->correlation,
						    v->device, v->stream, v->thread, v->name.bytes,
						    (Py_ssize_t)v->name.length, k[0], k[1], k[2],
						    k[3], k[4], k[5], k[6], k[7], v->memory[0],
						    v->memory[1], v->memory[2], frames)) == 0
		       ? 0
		       : -1;
}

static void add_info(void *list, const struct pitot_sbt_info *info)
{
	append(list, Py_BuildValue("y#y#y#KKKs", info->application.bytes,
				   (Py_ssize_t)info->application.length, info->command.bytes,
				   (Py_ssize_t)info->command.length, info->host.bytes,
				   (Py_ssize_t)info->host.length, info->start_ns, info->end_ns,
				   info->pid, info->broken));
}

/* Argument: path. Returns the events, and after them what is known of the file. */
static PyObject *read_sbt(PyObject *module, PyObject *args)
{
	struct pitot_read_error error;
	PyObject *path, *list;
	int result;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	list = PyList_New(0);
	result = list ? pitot_sbt_read(PyBytes_AsString(path), add_event, add_info, list, &error)
		      : -1;
	Py_DECREF(path);
	if (result < 0 && !PyErr_Occurred())
		fail(&error);
	if (PyErr_Occurred())
		Py_CLEAR(list);
	return list;
}

struct sbt_events {
	PyObject *iterator, *event;
	struct pitot_sbt_frame frames[PITOT_SBT_FRAMES_MAX];
};

static int next_event(void *user, struct pitot_sbt_event *v)
{
	struct sbt_events *s = user;
	unsigned long long times[3], memory[3], address, line;
	Py_ssize_t lengths[3];
	PyObject *frames;
	uint32_t *k = v->kernel;

	Py_XDECREF(s->event);
	s->event = PyIter_Next(s->iterator);
	if (!s->event)
		return PyErr_Occurred() ? -1 : 0;
	*v = (struct pitot_sbt_event){ .frames = s->frames };
	if (!PyArg_ParseTuple(s->event, "IIKKKIIIy#(IIIIIIII)(KKK)O!", &v->type, &v->has, &times[0],
			      &times[1], &times[2], &v->device, &v->stream, &v->thread,
			      &v->name.bytes, &lengths[0], &k[0], &k[1], &k[2], &k[3], &k[4], &k[5],
			      &k[6], &k[7], &memory[0], &memory[1], &memory[2], &PyList_Type,
			      &frames))
		return -1;
	v->time_ns = times[0];
	v->duration_ns = times[1];
	v->correlation = times[2];
	v->name.length = (size_t)lengths[0];
	for (int i = 0; i < 3; i++)
		v->memory[i] = memory[i];
	for (Py_ssize_t i = 0; i < PyList_Size(frames) && i < PITOT_SBT_FRAMES_MAX; i++) {
		struct pitot_sbt_frame *f = &s->frames[v->frame_count++];

		if (!PyArg_ParseTuple(PyList_GetItem(frames, i), "KKy#y#", &address, &line,
				      &f->function.bytes, &lengths[1], &f->file.bytes, &lengths[2]))
			return -1;
		f->address = address;
		f->line = line;
		f->function.length = (size_t)lengths[1];
		f->file.length = (size_t)lengths[2];
	}
	return 1;
}

/* Arguments: path, (application, command, host, start_ns, end_ns, pid), iterable of events as read. */
static PyObject *write_sbt(PyObject *module, PyObject *args)
{
	struct sbt_events events = { NULL };
	struct pitot_sbt_info info = { 0 };
	unsigned long long start_ns, end_ns, pid;
	Py_ssize_t lengths[3];
	struct pitot_read_error error;
	PyObject *path, *iterable;
	int result = -1;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&(y#y#y#KKK)O", PyUnicode_FSConverter, &path,
			      &info.application.bytes, &lengths[0], &info.command.bytes,
			      &lengths[1], &info.host.bytes, &lengths[2], &start_ns, &end_ns, &pid,
			      &iterable))
		return NULL;
	info.application.length = (size_t)lengths[0];
	info.command.length = (size_t)lengths[1];
	info.host.length = (size_t)lengths[2];
	info.start_ns = start_ns;
	info.end_ns = end_ns;
	info.pid = pid;
	events.iterator = PyObject_GetIter(iterable);
	if (events.iterator)
		result =
			pitot_sbt_write(PyBytes_AsString(path), &info, next_event, &events, &error);
	if (result < 0 && !PyErr_Occurred())
		fail(&error);
	Py_XDECREF(events.iterator);
	Py_XDECREF(events.event);
	Py_DECREF(path);
	return result < 0 ? NULL : Py_BuildValue("");
}

static PyMethodDef functions[] = {
	{ "read_sbt", read_sbt, METH_VARARGS, NULL },
	{ "write_sbt", write_sbt, METH_VARARGS, NULL },
	{ "check_interpreter", check_interpreter, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "pitot._read",
					 .m_size = -1, .m_methods = functions };

/* Makes a subclass of pitot.Error and, if given, of Python's class for such errors. */
static PyObject *add_error(PyObject *module, const char *name, const char *doc, PyObject *also)
{
	PyObject *bases = !error_class ? NULL
			  : also       ? PyTuple_Pack(2, error_class, also)
				       : PyTuple_Pack(1, error_class);
	char full[64];
	PyObject *class;

	snprintf(full, sizeof(full), "pitot.%s", name);
	class = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
	Py_XDECREF(bases);
	Py_XINCREF(class); /* our own reference, which is never released */
	if (class && PyModule_AddObject(module, name, class) < 0)
		Py_CLEAR(class);
	return class;
}

PyMODINIT_FUNC PyInit__read(void);

PyMODINIT_FUNC PyInit__read(void)
{
	PyObject *module, *type;

#ifndef Py_GIL_DISABLED /* objects have another head: 3.13 would load the module and crash */
	if (strstr(Py_GetVersion(), "free-threading")) {
		PyErr_SetString(
			PyExc_ImportError,
			"this is a package for CPython with the GIL: install the package for "
			"this free-threaded CPython");
		return NULL;
	}
#endif
	module = PyModule_Create(&definition);
	type = module ? PyType_FromSpec(&spec) : NULL;
	if (!type || PyModule_AddObject(module, "Recording", type) < 0)
		return NULL;
	error_class =
		add_error(module, "Error",
			  "Pitot failed; the text is the command line's error message.", NULL);
	file_error = add_error(module, "FileError", "A file cannot be opened, read or written.",
			       PyExc_OSError);
	format_error = add_error(module, "FormatError",
				 "Not a recording, or a damaged or newer one.", NULL);
	usage_error = add_error(module, "UsageError", "No such table, column, condition or choice.",
				PyExc_ValueError);
#ifdef Py_GIL_DISABLED
	if (PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0)
		return NULL;
#endif
	if (PyModule_AddStringConstant(module, "version", pitot_read_version()) < 0)
		return NULL;
	return error_class && file_error && format_error && usage_error ? module : NULL;
}
