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

static _Thread_local struct open_scopes {
	struct open_scope {
		const char *text; /* of the scope, which it identifies */
		const void *task;
		bool pushed; /* and not popped yet */
		uint64_t started; /* id, if it was not pushed */
	} items[OPEN_MAX];
	unsigned count, deeper; /* deeper: not in `items` */
} of_thread;

/* Returns a loaded module's attribute, or NULL, also without an error. */
static PyObject *loaded_attribute(const char *module_name, const char *attribute)
{
	PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name);

	return module ? PyObject_GetAttrString(module, attribute) : NULL;
}

/* What is used of asyncio: asyncio.current_task, and _get_running_loop of _asyncio. */
static struct {
	PyObject *current, *module;
	PyCFunction running_loop;
} asyncio;

/* Returns whether asyncio is loaded, and by then known. It has no exception. */
static bool find_asyncio(void)
{
	static PyObject *name; /* interned */
	PyObject *found, *current = NULL;

	if (!name)
		name = PyUnicode_InternFromString("_asyncio");
	if (!name || !PyDict_GetItemWithError(PyImport_GetModuleDict(), name)) {
		PyErr_Clear();
		return false;
	}
	found = loaded_attribute("_asyncio", "_get_running_loop");
	if (found && PyCFunction_Check(found) && PyCFunction_GetFlags(found) == METH_NOARGS)
		current = loaded_attribute("asyncio", "current_task");
	PyErr_Clear(); /* it is being imported */
	if (!current) {
		Py_XDECREF(found);
		return false;
	}
	asyncio.current = current;
	asyncio.module = PyCFunction_GetSelf(found);
	__atomic_store_n(&asyncio.running_loop, PyCFunction_GetFunction(found), __ATOMIC_RELEASE);
	return true;
}

/*
 * Finds the task of asyncio that this thread runs, or NULL; without a reference. Returns -1 with an
 * exception. All event loops, also uvloop, tell _asyncio which of them runs on a thread; its
 * function has no arguments and, called directly, takes a few ns where none does.
 */
static int current_task(const void **task)
{
	PyObject *loop, *found;

	*task = NULL;
	if (!__atomic_load_n(&asyncio.running_loop, __ATOMIC_ACQUIRE) && !find_asyncio())
		return 0;
	loop = asyncio.running_loop(asyncio.module, NULL);
	if (!loop || loop == Py_None) {
		Py_XDECREF(loop);
		return loop ? 0 : -1;
	}
	found = PyObject_CallFunctionObjArgs(asyncio.current, loop, NULL);
	Py_DECREF(loop);
	Py_XDECREF(found);
	*task = found == Py_None ? NULL : found;
	return found ? 0 : -1;
}

/* Whether another task is suspended in a scope that was pushed on this thread. */
static bool is_interleaved(const struct open_scopes *open, const void *task)
{
	for (unsigned i = open->count; i-- > 0;) {
		const struct open_scope *o = &open->items[i];

		if (o->pushed)
			return o->task && o->task != task;
	}
	return false;
}

int open_scope(const struct scope_functions *f, const char *text, unsigned int repeat,
	       unsigned int warmup)
{
	struct open_scopes *open = &of_thread; /* finding it is a call */
	struct open_scope new = { .text = text, .pushed = true };

	if (current_task(&new.task) < 0)
		return -1;
	if (open->count < OPEN_MAX && is_interleaved(open, new.task)) {
		new.pushed = false;
		new.started = f->start(text);
	} else if (repeat | warmup) {
		f->begin_runs(text, repeat, warmup);
	} else {
		f->begin(text);
	}
	if (open->count < OPEN_MAX)
		open->items[open->count++] = new;
	else
		open->deeper++;
	return 0;
}

/* Returns the innermost one of the task, or else of any; -1: none. */
static int find_open(const struct open_scopes *open, const char *text, const void *task)
{
	int any = -1;

	for (int i = (int)open->count - 1; i >= 0; i--) {
		const struct open_scope *o = &open->items[i];

		if (o->text == text && o->task == task)
			return i;
		if (o->text == text && any < 0)
			any = i;
	}
	return any;
}

/* Pops the scope at an index, and those that were pushed in it. Returns how many these were. */
static unsigned pop_scopes(const struct scope_functions *f, struct open_scopes *open,
			   unsigned index)
{
	unsigned inside = 0;

	for (unsigned i = open->count; i-- > index;) {
		struct open_scope *o = &open->items[i];

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
	struct open_scopes *open = &of_thread;
	const char *wrong = NULL;
	const void *task;
	struct open_scope *o;
	int index;

	if (open->deeper) {
		open->deeper--;
		f->end();
		return 0;
	}
	index = (int)open->count - 1;
	if (index < 0 || open->items[index].text != text || open->items[index].task) {
		if (current_task(&task) < 0)
			return -1;
		index = find_open(open, text, task);
	}
	if (index < 0)
		return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, other_thread, text);
	o = &open->items[index];
	if (!o->pushed)
		f->finish(o->started);
	else if (pop_scopes(f, open, (unsigned)index))
		wrong = not_innermost;
	memmove(o, o + 1, (--open->count - (unsigned)index) * sizeof(*o));
	return wrong ? PyErr_WarnFormat(PyExc_RuntimeWarning, 1, wrong, text) : 0;
}
