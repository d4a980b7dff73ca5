/*
 * lake_folder.c: a lake that is a folder, on a disk or a file system of many machines. An object is
 * copied under a name that begins with a dot, and renamed when it is whole and on the disk.
 */
#include "agent/lake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/lake_compact.h"
#include "agent/lake_compacted.h"
#include "base/folder.h"
#include "base/path.h"
#include "record/segment_ring.h"

static int make(const char *path, struct error *e)
{
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return error_errno(e, errno, "cannot make the lake '%s'", path);
	return 0;
}

static int open_lake(struct lake *lake, const struct s3_options *s3, struct error *e)
{
	(void)s3;
	lake->folder = folder_open(lake->path, FOLDER_ANY);
	return lake->folder < 0 ? error_set(e, lake->folder,
					    "cannot open the lake '%s': %s; make it: pitot lake "
					    "init %s",
					    lake->path, error_code_text(lake->folder), lake->path)
				: 0;
}

static void release(struct lake *lake)
{
	fd_close(&lake->folder);
}

/* Of a window: who may read its files may enter it. */
static mode_t folder_mode(unsigned mode)
{
	return 0700u | (mode & 0040u ? 0050u : 0) | (mode & 0020u ? 0020u : 0) |
	       (mode & 0004u ? 0005u : 0);
}

/*
 * Opens the folder of a key, up to its last '/'. With `make` it is made with the permissions of the
 * lake's folder, so that who may write there may write everywhere.
 */
static int enter(const struct lake *lake, const char *key, bool makes)
{
	int folder = fcntl(lake->folder, F_DUPFD_CLOEXEC, 3);
	struct stat st;

	if (folder < 0)
		return -errno;
	for (const char *slash; folder >= 0 && (slash = strchr(key, '/')); key = slash + 1) {
		char part[LAKE_KEY_MAX];
		int next;

		if ((size_t)(slash - key) >= sizeof(part)) {
			close(folder);
			return -ENAMETOOLONG;
		}
		snprintf(part, sizeof(part), "%.*s", (int)(slash - key), key);
		next = folder_enter(folder, part, FOLDER_ANY);
		if (next == -ENOENT && makes) {
			if (mkdirat(folder, part, 0700) == 0 && fstat(lake->folder, &st) == 0)
				(void)!fchmodat(folder, part, st.st_mode & 03777, 0);
			next = folder_enter(folder, part, FOLDER_ANY);
		}
		close(folder);
		folder = next;
	}
	return folder;
}

/* Whether the rows of an object are in one that `pitot lake compact` has made. */
static int check_compacted(int folder, const char *name)
{
	struct lake_compacted c;
	int err = lake_compacted_read(folder, &c);

	if (err == 0 && !lake_compacted_has(&c, name))
		err = -ENOENT;
	lake_compacted_release(&c);
	return err;
}

/* Whether the lake has an object of that size: it was shipped, and then the agent was killed. */
static int check_existing(int folder, const char *name, off_t size)
{
	struct stat st;
	int err = folder_stat(folder, name, &st);

	if (err == -ENOENT)
		return check_compacted(folder, name);
	return err < 0 ? err : S_ISREG(st.st_mode) && st.st_size == size ? 0 : -EEXIST;
}

/* Copies under a name that begins with a dot, which no reader reads. */
static int copy_whole(const struct lake *lake, int from, int folder, const char *part,
		      struct stat *st)
{
	_cleanup_close_ int to = -1;
	int err = fstat(from, st) < 0 ? -errno : 0;

	unlinkat(folder, part, 0); /* left by an agent that was killed at this point */
	err = err < 0 ? err : segment_copy(from, folder, part, (uint64_t)st->st_size);
	to = err < 0 ? err : folder_open_file(folder, part, O_RDONLY, FOLDER_OWN);
	if (to < 0)
		return to;
	return fchmod(to, lake->mode) < 0 || fsync(to) < 0 ? -errno : 0;
}

static int put(const struct lake *lake, int file, const char *key, enum lake_mode mode,
	       struct error *e)
{
	_cleanup_close_ int to = enter(lake, key, true);
	const char *last = base_name(key);
	char part[300];
	struct stat st;
	int err = to < 0 ? to : -ENOENT;

	snprintf(part, sizeof(part), ".%.250s.partial", last);
	if (to >= 0 && mode == LAKE_ONCE)
		err = check_existing(to, last, fstat(file, &st) < 0 ? -1 : st.st_size);
	if (err == 0)
		return 0;
	if (err == -ENOENT && to >= 0) {
		err = copy_whole(lake, file, to, part, &st);
		if (err == 0 && mode == LAKE_REPLACE)
			err = renameat(to, part, to, last) < 0 ? -errno : 0;
		else if (err == 0)
			err = folder_rename_new(to, part, to, last);
		if (err < 0)
			unlinkat(to, part, 0);
		err = err < 0 ? err : folder_sync(to);
	}
	return err < 0 ? error_set(e, err, "%s", error_code_text(err)) : 0;
}

void lake_remove_folder(int folder, const char *name)
{
	_cleanup_close_ int inner = folder_enter(folder, name, FOLDER_OWN);
	_cleanup_list_ DIR *list = inner < 0 ? NULL : folder_list(inner);
	const char *file;

	while (list && (file = folder_next(list)))
		unlinkat(inner, file, 0);
	unlinkat(folder, name, AT_REMOVEDIR);
}

static int copy_files(const struct lake *lake, int from, int to)
{
	_cleanup_list_ DIR *list = folder_list(from);
	const char *name;
	struct stat st;
	int err = list ? 0 : -errno;

	while (err == 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = folder_open_file(from, name, O_RDONLY, FOLDER_OWN);

		err = file < 0 ? file : copy_whole(lake, file, to, name, &st);
	}
	return err;
}

static int copy_folder(const struct lake *lake, int from, int to, const char *name)
{
	char part[300];
	int err;

	snprintf(part, sizeof(part), ".%.250s.partial", name);
	lake_remove_folder(to, part); /* left by an agent that was killed at this point */
	if (mkdirat(to, part, folder_mode(lake->mode)) < 0)
		return -errno;
	_cleanup_close_ int inner = folder_enter(to, part, FOLDER_OWN);

	err = inner < 0 ? inner : copy_files(lake, from, inner);
	err = err < 0 ? err : folder_sync(inner);
	err = err < 0 ? err : folder_rename_new(to, part, to, name);
	if (err < 0)
		lake_remove_folder(to, part);
	return err < 0 ? err : folder_sync(to);
}

static int put_folder(const struct lake *lake, int from, const char *key, struct error *e)
{
	const char *last = base_name(key);
	_cleanup_close_ int to = enter(lake, key, true);
	struct stat st;
	int err = to < 0 ? to : folder_stat(to, last, &st);

	if (err == 0)
		return S_ISDIR(st.st_mode) ? 0 : error_set(e, -EEXIST, "it is no window");
	if (err == -ENOENT)
		err = copy_folder(lake, from, to, last);
	return err < 0 ? error_set(e, err, "%s", error_code_text(err)) : 0;
}

/* --- reading --- */

static int get(const struct lake *lake, const char *key, int folder, const char *name,
	       struct error *e)
{
	_cleanup_close_ int from = enter(lake, key, false);
	_cleanup_close_ int file = folder_open_file(from, base_name(key), O_RDONLY, FOLDER_ANY);
	int rc = file < 0 ? file : segment_copy(file, folder, name, UINT64_MAX);

	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : 0;
}

struct walk {
	lake_visit *visit;
	void *user;
	struct strbuf key;
};

/* Visits the files of a folder, and of the folders in it: TABLE/DATE/NAME, and NAME/FILE. */
static int walk(struct walk *w, int folder, unsigned depth)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	size_t length = w->key.length;
	const char *name;
	struct stat st;
	int rc = list ? 0 : -errno;

	while (rc >= 0 && (name = folder_next(list))) {
		if (*name == '.' || folder_stat(folder, name, &st) < 0)
			continue;
		strbuf_addf(&w->key, "%s%s", length ? "/" : "", name);
		if (w->key.failed) {
			rc = -ENOMEM;
		} else if (S_ISREG(st.st_mode)) {
			rc = w->visit(w->user, strbuf_text(&w->key), (uint64_t)st.st_size);
		} else if (S_ISDIR(st.st_mode) && depth) {
			_cleanup_close_ int inner = folder_enter(folder, name, FOLDER_ANY);

			if (inner >= 0)
				rc = walk(w, inner, depth - 1);
		}
		w->key.length = length;
		if (w->key.data)
			w->key.data[length] = '\0';
	}
	return rc;
}

static int list(const struct lake *lake, const char *table, lake_visit *visit, void *user,
		struct error *e)
{
	_cleanup_close_ int folder = -1;
	struct walk w = { visit, user, STRBUF_INIT };
	int rc;

	strbuf_adds(&w.key, table);
	folder = *table ? folder_enter(lake->folder, table, FOLDER_ANY)
			: fcntl(lake->folder, F_DUPFD_CLOEXEC, 3);
	rc = folder == -ENOENT ? 0 : folder < 0 ? folder : walk(&w, folder, *table ? 2 : 3);
	strbuf_release(&w.key);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : 0;
}

const struct lake_kind lake_of_folder = { .scheme = "",
					  .make = make,
					  .open = open_lake,
					  .release = release,
					  .put = put,
					  .put_folder = put_folder,
					  .get = get,
					  .list = list,
					  .compact = lake_compact_folder };
