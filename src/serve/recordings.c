#include "serve/recordings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/map.h"
#include "base/path.h"
#include "base/search.h"
#include "format/segment.h"

#define SUFFIX ".pitot"
#define WINDOWS "window" /* of a lake, in folders "date=…" */
#define DATE "date="
#define READ_NS NS_PER_S

ORDER(by_path, struct served_recording, strcmp(a->path, b->path))

/* Opens folder after folder. */
static int enter(int folder, const char *path)
{
	int at = fcntl(folder, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (at < 0)
		return -errno;
	while (at >= 0 && *path) {
		size_t length = strcspn(path, "/");
		char *name = strndup(path, length);
		int next = name ? folder_enter(at, name, FOLDER_ANY) : -ENOMEM;

		free(name);
		close(at);
		at = next;
		path += length + (path[length] == '/');
	}
	return at;
}

static void release(struct served_recording *item)
{
	free(item->path);
	free(item->summary);
}

/* Adds a path, or marks it as listed. Takes the path. Returns 0 or -ENOMEM. */
static int add_path(struct recordings *r, size_t known, char *path)
{
	struct served_recording item = { .path = path, .is_listed = true }, *found;

	if (!path)
		return -ENOMEM;
	found = known ? bsearch(&item, r->items.data, known, sizeof(item), by_path) : NULL;
	if (found) {
		found->is_listed = true;
		free(path);
		return 0;
	}
	for (item.id = hash_bytes(path, strlen(path)); recordings_find(r, item.id);)
		item.id++;
	item.name = base_name(path);
	r->has_more |= r->items.count >= RECORDINGS_MAX;
	if (!r->has_more && vec_push(&r->items, item) == 0)
		return 0;
	free(path);
	return r->has_more ? 0 : -ENOMEM;
}

/* Adds the recordings in a folder, whose path is `prefix`. Takes the descriptor. 0 or -ENOMEM. */
static int add_folder(struct recordings *r, size_t known, int folder, const char *prefix)
{
	_cleanup_list_ DIR *list = folder >= 0 ? folder_list(folder) : NULL;
	const char *name;
	int rc = 0;

	while (list && rc == 0 && (name = folder_next(list))) {
		struct stat st;
		char *path = NULL;

		if (name[0] == '.' || !has_suffix(name, SUFFIX) ||
		    folder_stat(folder, name, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		rc = asprintf(&path, "%s%s", prefix, name) < 0 ? -ENOMEM : add_path(r, known, path);
	}
	if (folder >= 0)
		close(folder);
	return rc;
}

/* Adds window/date=…/NAME.pitot. Returns 0 or -ENOMEM. */
static int add_windows(struct recordings *r, size_t known)
{
	_cleanup_close_ int windows = folder_enter(r->folder, WINDOWS, FOLDER_ANY);
	_cleanup_list_ DIR *list = windows >= 0 ? folder_list(windows) : NULL;
	const char *name;
	int rc = 0;

	while (list && rc == 0 && (name = folder_next(list))) {
		char *prefix = NULL;

		if (strncmp(name, DATE, strlen(DATE)) != 0)
			continue;
		if (asprintf(&prefix, WINDOWS "/%s/", name) < 0)
			return -ENOMEM;
		rc = add_folder(r, known, folder_enter(windows, name, FOLDER_ANY), prefix);
		free(prefix);
	}
	return rc;
}

static bool is_recording(int folder)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;

	while (list && (name = folder_next(list)))
		if (has_suffix(name, SEGMENT_SUFFIX))
			return true;
	return false;
}

/* Removes what is gone. */
static void settle(struct recordings *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->items.count; i++) {
		if (r->items.data[i].is_listed)
			r->items.data[kept++] = r->items.data[i];
		else
			release(&r->items.data[i]);
	}
	r->items.count = kept;
	vec_sort(&r->items, by_path);
}

int recordings_read(struct recordings *r)
{
	size_t known = r->items.count;
	int rc;

	if (r->read_ns && clock_monotonic_ns() < r->read_ns + READ_NS)
		return 0;
	r->has_more = false;
	for (size_t i = 0; i < known; i++)
		r->items.data[i].is_listed = false;
	if (r->name)
		rc = add_path(r, known, strdup(""));
	else
		rc = add_folder(r, known, enter(r->folder, ""), "");
	if (rc == 0 && !r->name)
		rc = add_windows(r, known);
	settle(r);
	if (r->name && r->items.count)
		r->items.data[0].name = r->name;
	r->read_ns = clock_monotonic_ns();
	return rc;
}

int recordings_open(struct recordings *r, const char *path, struct error *e)
{
	size_t length = strlen(path);

	*r = (struct recordings){ .folder = folder_open(path, FOLDER_ANY), .path = path };
	if (r->folder < 0)
		return error_set(e, r->folder, "cannot open '%s': %s", path,
				 error_code_text(r->folder));
	while (length > 1 && path[length - 1] == '/')
		length--;
	if (is_recording(r->folder)) {
		_cleanup_free_ char *whole = strndup(path, length);

		r->name = whole ? strdup(base_name(whole)) : NULL;
		if (!r->name)
			return error_set(e, -ENOMEM, "out of memory");
	}
	return recordings_read(r) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

struct served_recording *recordings_find(struct recordings *r, uint64_t id)
{
	for (size_t i = 0; i < r->items.count; i++)
		if (r->items.data[i].id == id)
			return &r->items.data[i];
	return NULL;
}

static int read_stamp(int folder, struct recording_stamp *out)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	struct recording_stamp stamp = { 0 };
	struct folder_id id;
	const char *name;
	struct stat st;

	if (!list)
		return -errno;
	if (folder_identify(folder, &id) < 0)
		return -EIO;
	stamp.device = id.device;
	stamp.inode = id.inode;
	while ((name = folder_next(list))) {
		if (folder_stat(folder, name, &st) < 0)
			continue;
		stamp.files++;
		stamp.bytes += (uint64_t)st.st_size;
		stamp.newest_ns = MAX(stamp.newest_ns, (uint64_t)st.st_mtim.tv_sec * NS_PER_S +
							       (uint64_t)st.st_mtim.tv_nsec);
	}
	*out = stamp;
	return 0;
}

int recordings_enter(struct recordings *r, struct served_recording *item)
{
	int folder = enter(r->folder, item->path), rc;

	if (folder < 0)
		return folder;
	rc = read_stamp(folder, &item->stamp);
	if (rc < 0) {
		close(folder);
		return rc;
	}
	return folder;
}

void recordings_close(struct recordings *r)
{
	for (size_t i = 0; i < r->items.count; i++)
		release(&r->items.data[i]);
	vec_release(&r->items);
	free(r->name);
	if (r->folder >= 0)
		close(r->folder);
	r->folder = -1;
}
