#include "cli/option_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/json_read.h"
#include "base/vec.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define OPTIONS_MAX 64u

static const struct option *find(const struct option *options, const char *key, struct error *e)
{
	const char *known[OPTIONS_MAX + 1] = { NULL };
	size_t count = 0;

	for (const struct option *o = options; o->name; o++) {
		if (!strcmp(o->name, key))
			return o;
		if (count < OPTIONS_MAX)
			known[count++] = o->name;
	}
	error_set(e, E_USAGE, "unknown key '%s'", key);
	error_suggest(e, key, known, "; keys are the long names of options");
	return NULL;
}

static VEC(char *) texts; /* options point to them: they are never freed */

static int set(const struct option *o, const struct json_members *m, struct error *e)
{
	char subject[80], *text;

	if (m->kind >= JSON_NULL)
		return error_set(e, E_USAGE, "'%s' takes a text, a number, true or false%s",
				 o->name, o->type == OPTION_LIST ? ", or an array of them" : "");
	text = strdup(strbuf_text(&m->text));
	if (!text || vec_push(&texts, text) < 0) {
		free(text);
		return error_set(e, -ENOMEM, "out of memory");
	}
	snprintf(subject, sizeof(subject), "'%s'", o->name);
	return option_set(o, subject, text, e);
}

static int set_items(const struct option *o, const struct json_members *array, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_ITEMS(array->value, array->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0 && (rc = set(o, &m, e)) >= 0)
		;
	return rc;
}

static int set_member(const struct option *options, const struct json_members *m, struct error *e)
{
	const struct option *o = find(options, strbuf_text(&m->key), e);

	if (!o)
		return E_USAGE;
	if (o->given && *o->given)
		return 0;
	return o->type == OPTION_LIST && m->kind == JSON_ARRAY ? set_items(o, m, e) : set(o, m, e);
}

int option_file_read(const char *path, const struct option *options, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = io_read_file(path, FILE_BYTES_MAX, &text);
	_cleanup_members_ struct json_members m = { 0 };

	if (rc < 0)
		return error_set(e, rc, "cannot read '%s': %s", path, error_code_text(rc));
	m = (struct json_members)JSON_MEMBERS(strbuf_text(&text), text.length);
	while ((rc = json_members_next(&m, e)) > 0 && (rc = set_member(options, &m, e)) >= 0)
		;
	return rc < 0 ? error_prefix(e, "'%s'", path) : 0;
}
