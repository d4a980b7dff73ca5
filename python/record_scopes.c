/*
 * The scopes that are open on a thread. The recorder pops the innermost one, but tasks of asyncio
 * take turns, and so do generators. A scope of a task that begins while another task is suspended
 * in one is started rather than pushed, so that both have their own times. What else ends out of
 * order is warned of. Pointers are only compared.
 */
#include "record_scopes.h"

#include <stdbool.h>
#include <string.h>
#define OPEN_MAX 64u

static _Thread_local struct {
	struct open_scope {
		const char *text; /* of the scope, which it identifies */
		const void *task;
		bool pushed; /* and not popped yet */
		uint64_t started; /* id, if it was not pushed */
	} items[OPEN_MAX];
	unsigned count, deeper; /* deeper: not in `items` */
} open_scopes;

/* Returns a loaded module's attribute, or NULL, also without an error. */
static PyObject *loaded_attribute(const char *module_name, const char *attribute)
{
	PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name);

	return module ? PyObject_GetAttrString(module, attribute) : NULL;
}

/*
 * Finds the task of asyncio that this thread runs, or NULL; without a reference. Returns -1 with an
 * exception.
 */
static int current_task(const void **task)
{
	static PyObject *running_loop, *current; /* functions; NULL while asyncio is not loaded */
	static PyObject *name; /* interned */
	PyObject *loop, *found;

	*task = NULL;
	if (!name && !(name = PyUnicode_InternFromString("_asyncio")))
		return -1;
	if (!running_loop && !PyDict_GetItemWithError(PyImport_GetModuleDict(), name))
		return PyErr_Occurred() ? -1 : 0;
	if (!running_loop && !(running_loop = loaded_attribute("_asyncio", "_get_running_loop")))
		return PyErr_Occurred() ? -1 : 0;
	loop = PyObject_CallObject(running_loop, NULL);
	Py_XDECREF(loop);
	if (!loop || loop == Py_None)
		return loop ? 0 : -1;
	if (!current && !(current = loaded_attribute("asyncio", "current_task")))
		return PyErr_Occurred() ? -1 : 0;
	found = PyObject_CallObject(current, NULL);
	Py_XDECREF(found);
	*task = found == Py_None ? NULL : found;
	return found ? 0 : -1;
}

/* Whether another task is suspended in a scope that was pushed on this thread. */
static bool is_interleaved(const void *task)
{
	for (unsigned i = open_scopes.count; i-- > 0;) {
		const struct open_scope *o = &open_scopes.items[i];

		if (o->pushed)
			return o->task && o->task != task;
	}
	return false;
}

int open_scope(const struct scope_functions *f, const char *text, unsigned int repeat,
	       unsigned int warmup)
{
	struct open_scope new = { .text = text, .pushed = true };

	if (current_task(&new.task) < 0)
		return -1;
	if (open_scopes.count < OPEN_MAX && is_interleaved(new.task)) {
		new.pushed = false;
		new.started = f->start(text);
	} else if (repeat | warmup) {
		f->begin_runs(text, repeat, warmup);
	} else {
		f->begin(text);
	}
	if (open_scopes.count < OPEN_MAX)
		open_scopes.items[open_scopes.count++] = new;
	else
		open_scopes.deeper++;
	return 0;
}

/* Returns the innermost one of the task, or else of any; -1: none. */
static int find_open(const char *text, const void *task)
{
	int any = -1;

	for (int i = (int)open_scopes.count - 1; i >= 0; i--) {
		const struct open_scope *o = &open_scopes.items[i];

		if (o->text == text && o->task == task)
			return i;
		if (o->text == text && any < 0)
			any = i;
	}
	return any;
}

/* Pops the scope at an index, and those that were pushed in it. Returns how many these were. */
static unsigned pop_scopes(const struct scope_functions *f, unsigned index)
{
	unsigned inside = 0;

	for (unsigned i = open_scopes.count; i-- > index;) {
		struct open_scope *o = &open_scopes.items[i];

		if (!o->pushed)
			continue;
		f->end();
		o->pushed = false;
		inside += i > index;
	}
	return inside;
}

int close_scope(const struct scope_functions *f, const char *text)
{
	static const char not_innermost[] =
		"scope '%s' ends while a scope that began in it is open, as of a generator: both "
		"end here in the recording; end the inner one first";
	static const char other_thread[] =
		"scope '%s' ends on another thread than it began: its end is not recorded; begin "
		"and end it on one thread";
	const char *wrong = NULL;
	const void *task;
	struct open_scope *o;
	int index;

	if (open_scopes.deeper) {
		open_scopes.deeper--;
		f->end();
		return 0;
	}
	index = (int)open_scopes.count - 1;
	if (index < 0 || open_scopes.items[index].text != text || open_scopes.items[index].task) {
		if (current_task(&task) < 0)
			return -1;
		index = find_open(text, task);
	}
	if (index < 0)
		return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, other_thread, text);
	o = &open_scopes.items[index];
	f->finish(o->started);
	if (o->pushed && pop_scopes(f, (unsigned)index))
		wrong = not_innermost;
	memmove(o, o + 1, (--open_scopes.count - (unsigned)index) * sizeof(*o));
	return wrong ? PyErr_WarnFormat(PyExc_RuntimeWarning, 1, wrong, text) : 0;
}
