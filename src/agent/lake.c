#include "agent/lake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/map.h"
#include "base/path.h"
#include "record/segment_ring.h"

int lake_open(struct lake *lake, const char *path, struct error *e)
{
	lake->path = path;
	lake->folder = folder_open(path, FOLDER_ANY);
	return lake->folder < 0 ? error_set(e, lake->folder,
					    "cannot open the lake '%s': %s; make it: pitot lake "
					    "init %s",
					    path, error_code_text(lake->folder), path)
				: 0;
}

void lake_release(struct lake *lake)
{
	if (lake->folder >= 0)
		close(lake->folder);
	lake->folder = -1;
}

/* Of a window: who may read its files may enter it. */
static mode_t folder_mode(unsigned mode)
{
	return 0700u | (mode & 0040u ? 0050u : 0) | (mode & 0020u ? 0020u : 0) |
	       (mode & 0004u ? 0005u : 0);
}

int lake_enter(const struct lake *lake, const char *key)
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
		if (next == -ENOENT) {
			if (mkdirat(folder, part, 0700) == 0 && fstat(lake->folder, &st) == 0)
				(void)!fchmodat(folder, part, st.st_mode & 03777, 0);
			next = folder_enter(folder, part, FOLDER_ANY);
		}
		close(folder);
		folder = next;
	}
	return folder;
}

/* Whether the lake has an object of that size: it was shipped, and then the agent was killed. */
static int check_existing(int folder, const char *name, off_t size)
{
	struct stat st;
	int err = folder_stat(folder, name, &st);

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

int lake_put(const struct lake *lake, int folder, const char *name, const char *key,
	     struct error *e)
{
	_cleanup_close_ int from = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);
	_cleanup_close_ int to = -1;
	char part[300];
	const char *last = base_name(key);
	struct stat st;
	int err;

	to = from < 0 ? from : lake_enter(lake, key);
	err = to < 0 ? to : 0;
	if (err == 0) {
		snprintf(part, sizeof(part), ".%.250s.partial", last);
		err = check_existing(to, last, fstat(from, &st) < 0 ? -1 : st.st_size);
		if (err == 0)
			return 0;
	}
	if (err == -ENOENT) {
		err = copy_whole(lake, from, to, part, &st);
		err = err < 0 ? err : folder_rename_new(to, part, to, last);
		if (err < 0)
			unlinkat(to, part, 0);
		err = err < 0 ? err : folder_sync(to);
	}
	return err < 0 ? error_set(e, err, "cannot write '%s/%s': %s", lake->path, key,
				   error_code_text(err))
		       : 0;
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

static int put_folder(const struct lake *lake, int from, int to, const char *name)
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

int lake_put_folder(const struct lake *lake, int folder, const char *name, const char *key,
		    struct error *e)
{
	_cleanup_close_ int from = folder_enter(folder, name, FOLDER_OWN);
	const char *last = base_name(key);
	_cleanup_close_ int to = from < 0 ? from : lake_enter(lake, key);
	struct stat st;
	int err = to < 0 ? to : 0;

	if (err == 0 && folder_stat(to, last, &st) == 0)
		return S_ISDIR(st.st_mode)
			       ? 0
			       : error_set(e, -EEXIST, "'%s/%s' is no window", lake->path, key);
	err = err < 0 ? err : put_folder(lake, from, to, last);
	return err < 0 ? error_set(e, err, "cannot write '%s/%s': %s", lake->path, key,
				   error_code_text(err))
		       : 0;
}

/* --- names --- */

void lake_add_name(struct strbuf *out, const char *text)
{
	size_t begin = out->length, length = strlen(text);

	if (!length)
		strbuf_addc(out, '_');
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (out->length - begin > LAKE_NAME_MAX - 20) { /* the hash says which it is */
			strbuf_addf(out, "-%016llx", (unsigned long long)hash_bytes(text, length));
			return;
		}
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '_' || c == '-')
			strbuf_addc(out, (char)c);
		else
			strbuf_addf(out, "%%%02X", c);
	}
}

static struct tm utc_of(uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	struct tm utc = { 0 };

	gmtime_r(&seconds, &utc);
	return utc;
}

void lake_add_date(struct strbuf *out, uint64_t time_ns)
{
	struct tm t = utc_of(time_ns);

	strbuf_addf(out, "date=%04d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

void lake_add_time(struct strbuf *out, uint64_t time_ns)
{
	struct tm t = utc_of(time_ns);

	strbuf_addf(out, "%04d%02d%02dT%02d%02d%02dZ", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
		    t.tm_hour, t.tm_min, t.tm_sec);
}
