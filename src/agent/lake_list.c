#include "agent/lake_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"
#include "format/segment.h"

#define ENTRIES_MAX 100000u /* tables and windows */

/* Copies up to the next '/', or the end. False: it is too long, or empty. */
static bool copy_part(const char **at, char *out, size_t size)
{
	size_t length = strcspn(*at, "/");

	if (!length || length >= size)
		return false;
	memcpy(out, *at, length);
	out[length] = '\0';
	*at += length + ((*at)[length] == '/');
	return true;
}

bool lake_key_split(const char *key, struct lake_key *p)
{
	p->file[0] = '\0';
	if (!copy_part(&key, p->table, sizeof(p->table)) || !starts_with(key, LAKE_DATE))
		return false;
	key += strlen(LAKE_DATE);
	if (!copy_part(&key, p->date, sizeof(p->date)) ||
	    !copy_part(&key, p->name, sizeof(p->name)))
		return false;
	return !*key || (copy_part(&key, p->file, sizeof(p->file)) && !*key);
}

/* --- all --- */

static struct lake_table *table_of(struct lake_list *l, const char *name)
{
	struct lake_table t = { .objects = 0 };

	for (size_t i = 0; i < l->tables.count; i++)
		if (!strcmp(l->tables.data[i].name, name))
			return &l->tables.data[i];
	snprintf(t.name, sizeof(t.name), "%s", name);
	if (l->tables.count >= ENTRIES_MAX || vec_push(&l->tables, t) < 0)
		return NULL;
	return &l->tables.data[l->tables.count - 1];
}

static int add_object(struct lake_list *l, const struct lake_key *p, uint64_t bytes)
{
	struct lake_table *t;

	if (!has_suffix(p->name, ".parquet") || !strcmp(p->name, LAKE_SCHEMA))
		return 0;
	t = table_of(l, p->table);
	if (!t)
		return -ENOMEM;
	if (!t->objects || strcmp(p->date, t->first) < 0)
		memcpy(t->first, p->date, sizeof(t->first));
	if (!t->objects || strcmp(p->date, t->last) > 0)
		memcpy(t->last, p->date, sizeof(t->last));
	t->objects++;
	t->bytes += bytes;
	return 0;
}

struct reading {
	struct lake_list *list;
	const char *whole;
};

/* Files of a window come one after the other. */
static int add_file(const struct reading *r, const struct lake_key *p, uint64_t bytes)
{
	struct lake_list *l = r->list;
	struct lake_window *w = l->windows.count ? &l->windows.data[l->windows.count - 1] : NULL;

	if (!has_suffix(p->name, LAKE_WINDOW_SUFFIX))
		return 0;
	if (!w || strcmp(w->name, p->name) != 0 || strcmp(w->date, p->date) != 0) {
		struct lake_window new = { .is_whole = !r->whole };

		memcpy(new.name, p->name, sizeof(new.name));
		memcpy(new.date, p->date, sizeof(new.date));
		if (l->windows.count >= ENTRIES_MAX || vec_push(&l->windows, new) < 0)
			return -ENOMEM;
		w = &l->windows.data[l->windows.count - 1];
	}
	w->is_whole |= r->whole && !strcmp(p->file, r->whole);
	w->bytes += bytes;
	return 0;
}

static int add_key(void *user, const char *key, uint64_t bytes)
{
	const struct reading *r = user;
	struct lake_key p;

	if (!lake_key_split(key, &p))
		return 0;
	if (!*p.file)
		return add_object(r->list, &p, bytes);
	return strcmp(p.table, LAKE_WINDOWS) ? 0 : add_file(r, &p, bytes);
}

ORDER(by_date, struct lake_window, strcmp(a->date, b->date) ?: strcmp(a->name, b->name))
ORDER(by_name, struct lake_table, strcmp(a->name, b->name))

int lake_list_read(const struct lake *lake, struct lake_list *out, struct error *e)
{
	struct reading r = { out, lake->whole };
	int rc = lake_list(lake, "", add_key, &r, e);
	size_t kept = 0;

	for (size_t i = 0; i < out->windows.count; i++)
		if (out->windows.data[i].is_whole)
			out->windows.data[kept++] = out->windows.data[i];
	out->windows.count = kept;
	vec_sort(&out->tables, by_name);
	vec_sort(&out->windows, by_date);
	return rc;
}

void lake_list_release(struct lake_list *l)
{
	vec_release(&l->tables);
	vec_release(&l->windows);
}

/* --- get --- */

struct search {
	const char *name, *whole;
	char date[16]; /* of the first one of that name */
	bool is_whole;
	VEC(struct file { char name[256]; }) files;
};

static int find_file(void *user, const char *key, uint64_t bytes)
{
	struct search *s = user;
	struct lake_key p;
	struct file file;

	(void)bytes;
	if (!lake_key_split(key, &p) || !*p.file || strcmp(p.name, s->name) != 0 ||
	    (*s->date && strcmp(s->date, p.date) != 0))
		return 0;
	memcpy(s->date, p.date, sizeof(s->date));
	s->is_whole |= !s->whole || !strcmp(p.file, s->whole);
	if (!has_suffix(p.file, SEGMENT_SUFFIX))
		return 0;
	if (s->files.count >= ENTRIES_MAX)
		return E_LIMIT;
	memcpy(file.name, p.file, sizeof(file.name));
	return vec_push(&s->files, file);
}

static int get_files(const struct lake *lake, const struct search *s, int to, struct error *e)
{
	int rc = 0;

	for (size_t i = 0; i < s->files.count && rc == 0; i++) {
		_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;

		strbuf_addf(&key, LAKE_WINDOWS "/" LAKE_DATE "%s/%s/%s", s->date, s->name,
			    s->files.data[i].name);
		rc = key.failed ? error_set(e, -ENOMEM, "out of memory")
				: lake_get(lake, strbuf_text(&key), to, s->files.data[i].name, e);
	}
	return rc < 0 ? rc : (int)s->files.count;
}

int lake_get_window(const struct lake *lake, const char *name, const char *directory,
		    const struct folder_id *id, struct error *e)
{
	_cleanup_close_ int to = folder_open_known(directory, id);
	struct search s = { .name = name, .whole = lake->whole };
	int rc = lake_list(lake, LAKE_WINDOWS, find_file, &s, e);

	if (rc == 0 && (!s.is_whole || !s.files.count))
		rc = error_set(e, -ENOENT, "no window '%s' in '%s': pitot lake ls %s lists them",
			       name, lake->path, lake->path);
	if (rc == 0)
		rc = to < 0 ? error_set(e, to, "cannot open '%s': %s", directory,
					error_code_text(to))
			    : get_files(lake, &s, to, e);
	vec_release(&s.files);
	return rc;
}
