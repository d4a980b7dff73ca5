#include "upload/upload_cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/folder.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/path.h"

#define CURSOR_BYTES_MAX ((size_t)64 << 20)
#define VERSION 2

static int add_text(struct upload_cursor *c, const char *text)
{
	char *copy = strdup(text);
	int r = copy ? vec_push(&c->files, copy) : -ENOMEM;

	if (r < 0)
		free(copy);
	return r;
}

static int add_completed(struct upload_cursor *c, const char *id, const char *at, uint64_t events)
{
	struct completed_session s = { strdup(id), strdup(at), events };
	int r = s.id && s.at ? vec_push(&c->completed, s) : -ENOMEM;

	if (r < 0) {
		free(s.id);
		free(s.at);
	}
	return r;
}

/* ---- reading ---- */

static int read_files(struct upload_cursor *c, struct json_members *array, struct error *e)
{
	int r;

	while ((r = json_members_next(array, e)) > 0)
		if (array->kind == JSON_STRING && add_text(c, strbuf_text(&array->text)) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	return r;
}

static int read_sessions(struct upload_cursor *c, struct json_members *sessions, struct error *e)
{
	int r;

	while ((r = json_members_next(sessions, e)) > 0) {
		struct json_found at = { .text = "" }, events = { .text = "" };

		r = json_find(sessions->value, sessions->value_length, "completed_at", &at, e);
		if (r == 0 || r == -ENOENT)
			r = json_find(sessions->value, sessions->value_length, "events", &events,
				      e);
		if (r < 0 && r != -ENOENT)
			return r;
		if (add_completed(c, strbuf_text(&sessions->key), at.text,
				  strtoull(events.text, NULL, 10)) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	}
	return r;
}

static int read_member(struct upload_cursor *c, const struct json_members *m, struct error *e)
{
	_cleanup_members_ struct json_members files = JSON_ITEMS(m->value, m->value_length);
	_cleanup_members_ struct json_members sessions = JSON_MEMBERS(m->value, m->value_length);
	const char *key = strbuf_text(&m->key);

	if (!strcmp(key, "uploaded_files"))
		return read_files(c, &files, e);
	if (!strcmp(key, "completed_sessions"))
		return read_sessions(c, &sessions, e);
	if (!strcmp(key, "schema_version") && strtoull(strbuf_text(&m->text), NULL, 10) > VERSION)
		return error_set(e, E_VERSION, "written by a newer version, %s",
				 strbuf_text(&m->text));
	return 0;
}

static int read_cursor(struct upload_cursor *c, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct error why = { 0 };
	_cleanup_members_ struct json_members m = { 0 };
	int r = folder_read_file(c->folder, base_name(c->path), CURSOR_BYTES_MAX, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(e, r, "cannot read '%s': %s", c->path, error_code_text(r));
	m = (struct json_members)JSON_MEMBERS(strbuf_text(&text), text.length);
	while ((r = json_members_next(&m, &why)) > 0 && (r = read_member(c, &m, &why)) >= 0)
		;
	return r >= 0 ? 0
		      : error_set(e, r,
				  "cannot read '%s': %s; remove the file to send everything again",
				  c->path, why.text);
}

/* ---- writing ---- */

static void render(const struct upload_cursor *c, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_key_u64(&j, "schema_version", VERSION);
	json_key_array(&j, "uploaded_files");
	for (size_t i = 0; i < c->files.count; i++)
		json_string(&j, c->files.data[i]);
	json_end(&j);
	json_key_object(&j, "completed_sessions");
	for (size_t i = 0; i < c->completed.count; i++) {
		json_key_object(&j, c->completed.data[i].id);
		json_key_string(&j, "completed_at", c->completed.data[i].at);
		json_key_u64(&j, "events", c->completed.data[i].events);
		json_end(&j);
	}
	json_finish(&j);
}

/* Replaces the file atomically. */
static int save(const struct upload_cursor *c, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int r;

	render(c, &text);
	r = folder_write_file(c->folder, base_name(c->path), &text, true);
	return r == 0 ? 0
		      : error_set(e, r, "cannot write '%s': %s; the upload stops", c->path,
				  error_code_text(r));
}

static int lock_cursor(struct upload_cursor *c, struct error *e)
{
	char name[NAME_MAX + 1];

	if (snprintf(name, sizeof(name), "%s.lock", base_name(c->path)) > NAME_MAX)
		return error_errno(e, ENAMETOOLONG, "cannot write '%s.lock'", c->path);
	c->lock = folder_open_file(c->folder, name, O_RDONLY, FOLDER_ANY);
	if (c->lock == -ENOENT)
		c->lock = folder_create_file(c->folder, name);
	if (c->lock == -EEXIST) /* another upload has just created it */
		c->lock = folder_open_file(c->folder, name, O_RDONLY, FOLDER_ANY);
	if (c->lock < 0)
		return error_set(e, c->lock,
				 "cannot write '%s.lock': %s: choose another file with --cursor",
				 c->path, error_code_text(c->lock));
	if (flock(c->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return error_errno(e, errno, "cannot lock '%s.lock'", c->path);
	return error_set(e, -EBUSY,
			 "another upload of these logs is running and has locked '%s.lock'",
			 c->path);
}

static int open_folder(struct upload_cursor *c, const char *path, struct error *e)
{
	_cleanup_free_ char *folder = strdup(path);

	c->path = strdup(path);
	if (!folder || !c->path)
		return error_set(e, -ENOMEM, "out of memory");
	c->folder = folder_open(dirname(folder), FOLDER_ANY);
	return c->folder < 0 ? error_set(e, c->folder,
					 "cannot read '%s': %s: choose another file with --cursor",
					 path, error_code_text(c->folder))
			     : 0;
}

int upload_cursor_open(struct upload_cursor *c, const char *path, bool lock, struct error *e)
{
	int r;

	*c = (struct upload_cursor){ .folder = -1, .lock = -1 };
	r = open_folder(c, path, e);
	if (r == 0 && lock)
		r = lock_cursor(c, e);
	if (r == 0)
		r = read_cursor(c, e);
	if (r < 0)
		upload_cursor_release(c);
	return r;
}

static bool has_path(const struct upload_cursor *c, const char *path, size_t length)
{
	for (size_t i = 0; i < c->files.count; i++)
		if (!strncmp(c->files.data[i], path, length) && !c->files.data[i][length])
			return true;
	return false;
}

bool upload_cursor_has_file(const struct upload_cursor *c, const char *session, const char *name)
{
	char path[PATH_MAX];
	size_t length;

	snprintf(path, sizeof(path) - 3, "%s/%s", session, name);
	length = strlen(path);
	if (has_suffix(path, ".gz"))
		length -= 3;
	else
		memcpy(path + length, ".gz", 4);
	return has_path(c, path, length) || has_path(c, path, strlen(path));
}

bool upload_cursor_has_session(const struct upload_cursor *c, const char *session)
{
	for (size_t i = 0; i < c->completed.count; i++)
		if (!strcmp(c->completed.data[i].id, session))
			return true;
	return false;
}

int upload_cursor_add_file(struct upload_cursor *c, const char *session, const char *name,
			   struct error *e)
{
	char path[PATH_MAX];

	if (upload_cursor_has_file(c, session, name))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", session, name);
	return add_text(c, path) < 0 ? error_set(e, -ENOMEM, "out of memory") : save(c, e);
}

int upload_cursor_add_session(struct upload_cursor *c, const char *session, uint64_t events,
			      struct error *e)
{
	time_t now = time(NULL);
	struct tm utc;
	char at[32];

	gmtime_r(&now, &utc);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
	if (!upload_cursor_has_session(c, session) && add_completed(c, session, at, events) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	return save(c, e);
}

void upload_cursor_release(struct upload_cursor *c)
{
	fd_close(&c->lock);
	fd_close(&c->folder);
	free(c->path);
	for (size_t i = 0; i < c->files.count; i++)
		free(c->files.data[i]);
	for (size_t i = 0; i < c->completed.count; i++) {
		free(c->completed.data[i].id);
		free(c->completed.data[i].at);
	}
	vec_release(&c->files);
	vec_release(&c->completed);
	*c = (struct upload_cursor){ .folder = -1, .lock = -1 };
}
