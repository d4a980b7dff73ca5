#include "record_options.h"

#include <string.h>

#include "base/options.h"
#include "schema/settings.h"

PyObject *usage_error;

static const struct setting {
	const char *key;
	size_t offset;
	enum option_type type;
	enum setting_id id;
} settings[] = {
#define S(key, type, ...)                                                                          \
	{ #key, offsetof(struct pitot_options, key), OPTION_##type, SETTING_ID_##key },
	SETTINGS_REQUESTED(S) SETTINGS_OF_PROGRAMS(S)
#undef S
};

static int keep_text(struct options *o, PyObject *bytes, const char **text)
{
	int rc = bytes ? PyList_Append(o->texts, bytes) : -1;

	*text = rc < 0 ? NULL : PyBytes_AsString(bytes);
	Py_XDECREF(bytes);
	return rc;
}

static int read_path(struct options *o, PyObject *value, const char *key, void *text)
{
	PyObject *bytes;

	(void)key;
	return PyUnicode_FSConverter(value, &bytes) ? keep_text(o, bytes, text) : -1;
}

int raise_wrong(PyObject *class, const char *key, const char *what, PyObject *value)
{
	PyErr_Format(class, "%s must be %s, not %R", key, what, value);
	return -1;
}

static int read_text(struct options *o, PyObject *value, const char *key, void *text)
{
	if (!PyUnicode_Check(value))
		return raise_wrong(PyExc_TypeError, key, "a str", value);
	return keep_text(o, PyUnicode_AsUTF8String(value), text);
}

static int read_switch(struct options *o, PyObject *value, const char *key, void *to)
{
	(void)o;
	if (!PyBool_Check(value))
		return raise_wrong(PyExc_TypeError, key, "True or False", value);
	*(enum pitot_switch *)to = value == Py_True ? PITOT_ON : PITOT_OFF;
	return 0;
}

/* 0 becomes PITOT_NONE. */
static int read_number(PyObject *value, const char *key, uint64_t *to)
{
	unsigned long long number;

	if (!PyLong_Check(value))
		return raise_wrong(PyExc_TypeError, key, "an int", value);
	number = PyLong_AsUnsignedLongLong(value);
	if (PyErr_Occurred()) {
		PyErr_Clear();
		return raise_wrong(usage_error, key, "from 0 to 2^64 - 1", value);
	}
	*to = number ? number : PITOT_NONE;
	return 0;
}

/* Names of future engines are accepted, too: the recorder warns about them. */
static int read_choice(struct options *o, PyObject *value, const struct setting *s, int *to)
{
	struct settings unused = SETTINGS_INIT;
	const char *text, *name = "";
	struct error e = { 0 };
	int choice = 0;

	if (read_text(o, value, s->key, &text) < 0)
		return -1;
	while (name && strcmp(name, text) != 0)
		name = settings_choice(s->id, (uint64_t)choice++);
	if (!name && settings_set(&unused, s->id, text, SETTING_BY_CODE, s->key, &e) < 0)
		PyErr_SetString(usage_error, e.text);
	*to = choice;
	return name ? 0 : -1;
}

static int read_setting(struct options *o, PyObject *value, const struct setting *s)
{
	void *field = (char *)&o->options + s->offset;

	if (s->type == OPTION_FLAG)
		return read_switch(o, value, s->key, field);
	if (s->type == OPTION_TEXT)
		return read_text(o, value, s->key, field);
	if (s->type == OPTION_ENUM)
		return read_choice(o, value, s, field);
	return read_number(value, s->key, field);
}

static const struct {
	const char *key;
	size_t offset;
	int (*read)(struct options *o, PyObject *value, const char *key, void *field);
} others[] = {
	{ "log_path", offsetof(struct pitot_options, log_path), read_path },
	{ "app_name", offsetof(struct pitot_options, app_name), read_text },
	{ "config_file", offsetof(struct pitot_options, config_file), read_path },
	{ "enabled", offsetof(struct pitot_options, enabled), read_switch },
};

static int unknown(const char *key)
{
	const char *known[ARRAY_SIZE(settings) + ARRAY_SIZE(others) + 1] = { NULL }, *nearest;

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		known[i] = settings[i].key;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		known[ARRAY_SIZE(settings) + i] = others[i].key;
	nearest = options_nearest(key, known);
	PyErr_Format(PyExc_TypeError, "a recording has no setting '%s'%s%s%s", key,
		     nearest ? ", did you mean '" : "", nearest ? nearest : "",
		     nearest ? "'?" : "; docs/embed.md has all of them");
	return -1;
}

/* Reads one setting. None: not given. */
static int read_option(struct options *o, const char *key, PyObject *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(key, settings[i].key) == 0)
			return value == Py_None ? 0 : read_setting(o, value, &settings[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(key, others[i].key) == 0)
			return value == Py_None
				       ? 0
				       : others[i].read(o, value, key,
							(char *)&o->options + others[i].offset);
	return unknown(key);
}

void options_release(struct options *o)
{
	Py_CLEAR(o->texts);
}

int options_init(struct options *o, PyObject *path, PyObject *dict)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	int rc = 0;

	*o = (struct options){ .options.size = sizeof(o->options), .texts = PyList_New(0) };
	if (!o->texts)
		return -1;
	if (path != Py_None)
		rc = read_path(o, path, "path", &o->options.directory);
	while (rc == 0 && PyDict_Next(dict, &at, &key, &value)) {
		const char *name = NULL;

		rc = read_text(o, key, "the name of a setting", &name);
		if (rc == 0)
			rc = read_option(o, name, value);
	}
	if (rc < 0)
		options_release(o);
	return rc;
}
