#include "agent/lake_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"
#include "format/segment.h"
#include "record/segment_ring.h"

#define DATE "date="
#define ENTRIES_MAX 1000000u

/* Calls visit for each entry of the folders DATE=… of a table or of windows. */
struct visit {
	void (*entry)(struct visit *v, int folder, const char *date, const char *name);
	struct lake_list *list;
	struct lake_table table;
	bool failed;
};

static void visit_dates(int folder, struct visit *v)
{
	_cleanup_list_ DIR *dates = folder_list(folder);
	const char *date, *name;

	while (dates && (date = folder_next(dates))) {
		_cleanup_close_ int inner =
			starts_with(date, DATE) ? folder_enter(folder, date, FOLDER_ANY) : -1;
		_cleanup_list_ DIR *names = inner < 0 ? NULL : folder_list(inner);

		while (names && (name = folder_next(names)))
			if (*name != '.')
				v->entry(v, inner, date + strlen(DATE), name);
	}
}

/* --- tables --- */

static void add_object(struct visit *v, int folder, const char *date, const char *name)
{
	struct lake_table *t = &v->table;
	struct stat st;

	if (!has_suffix(name, ".parquet") || !strcmp(name, LAKE_SCHEMA) ||
	    folder_stat(folder, name, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (!t->objects || strncmp(date, t->first, sizeof(t->first) - 1) < 0)
		snprintf(t->first, sizeof(t->first), "%s", date);
	if (!t->objects || strncmp(date, t->last, sizeof(t->last) - 1) > 0)
		snprintf(t->last, sizeof(t->last), "%s", date);
	t->objects++;
	t->bytes += (uint64_t)st.st_size;
}

/* --- windows --- */

static uint64_t folder_bytes(int folder, const char *name)
{
	_cleanup_close_ int inner = folder_enter(folder, name, FOLDER_ANY);
	_cleanup_list_ DIR *files = inner < 0 ? NULL : folder_list(inner);
	const char *file;
	uint64_t bytes = 0;
	struct stat st;

	while (files && (file = folder_next(files)))
		if (folder_stat(inner, file, &st) == 0 && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	return bytes;
}

static void add_window(struct visit *v, int folder, const char *date, const char *name)
{
	struct lake_window w = { .bytes = 0 };
	struct stat st;

	if (!has_suffix(name, LAKE_WINDOW_SUFFIX) || folder_stat(folder, name, &st) < 0 ||
	    !S_ISDIR(st.st_mode) || strlen(name) >= sizeof(w.name) ||
	    v->list->windows.count >= ENTRIES_MAX)
		return;
	snprintf(w.name, sizeof(w.name), "%s", name);
	snprintf(w.date, sizeof(w.date), "%s", date);
	w.bytes = folder_bytes(folder, name);
	v->failed |= vec_push(&v->list->windows, w) < 0;
}

ORDER(by_date, struct lake_window, strcmp(a->date, b->date) ?: strcmp(a->name, b->name))
ORDER(by_name, struct lake_table, strcmp(a->name, b->name))

static int read_folder(const struct lake *lake, const char *name, struct lake_list *out)
{
	bool is_windows = !strcmp(name, LAKE_WINDOWS);
	struct visit v = { .entry = is_windows ? add_window : add_object, .list = out };
	_cleanup_close_ int folder = folder_enter(lake->folder, name, FOLDER_ANY);

	if (folder < 0 || strlen(name) >= sizeof(v.table.name))
		return 0;
	visit_dates(folder, &v);
	snprintf(v.table.name, sizeof(v.table.name), "%s", name);
	if (v.table.objects)
		v.failed |= vec_push(&out->tables, v.table) < 0;
	return v.failed ? -ENOMEM : 0;
}

int lake_list_read(const struct lake *lake, struct lake_list *out, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(lake->folder);
	const char *name;
	int rc = list ? 0 : -errno;

	while (rc == 0 && (name = folder_next(list)))
		rc = read_folder(lake, name, out);
	vec_sort(&out->tables, by_name);
	vec_sort(&out->windows, by_date);
	return rc < 0 ? error_set(e, rc, "cannot list the lake '%s': %s", lake->path,
				  error_code_text(rc))
		      : 0;
}

void lake_list_release(struct lake_list *l)
{
	vec_release(&l->tables);
	vec_release(&l->windows);
}

/* --- get --- */

static int copy_window(int window, int to)
{
	_cleanup_list_ DIR *list = folder_list(window);
	const char *name;
	int rc = list ? 0 : -errno, count = 0;

	while (rc == 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = -1;

		if (!has_suffix(name, SEGMENT_SUFFIX))
			continue;
		file = folder_open_file(window, name, O_RDONLY, FOLDER_ANY);
		rc = file < 0 ? file : segment_copy(file, to, name, UINT64_MAX);
		count++;
	}
	return rc < 0 ? rc : count;
}

struct search {
	struct visit visit; /* first: it is passed on */
	const char *name;
	int found;
};

static void find_window(struct visit *v, int folder, const char *date, const char *name)
{
	struct search *s = (struct search *)v;

	(void)date;
	if (s->found < 0 && !strcmp(name, s->name))
		s->found = folder_enter(folder, name, FOLDER_ANY);
}

int lake_get_window(const struct lake *lake, const char *name, const char *directory,
		    const struct folder_id *id, struct error *e)
{
	_cleanup_close_ int windows = folder_enter(lake->folder, LAKE_WINDOWS, FOLDER_ANY);
	_cleanup_close_ int to = folder_open_known(directory, id);
	struct search s = { { .entry = find_window }, name, -ENOENT };
	int rc;

	if (windows >= 0)
		visit_dates(windows, &s.visit);
	if (s.found < 0)
		return error_set(e, s.found, "no window '%s' in '%s': pitot lake ls %s lists them",
				 name, lake->path, lake->path);
	rc = to < 0 ? to : copy_window(s.found, to);
	close(s.found);
	return rc < 0 ? error_set(e, rc, "cannot copy '%s': %s", name, error_code_text(rc)) : rc;
}
