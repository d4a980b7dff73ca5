#include "gpufl/gpufl_folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/search.h"
#include "base/strbuf.h"

#define LOSS_MARKER ".gpufl-transport-loss."

/* Strips a suffix from a text of *length bytes. */
static bool strip_suffix(const char *text, size_t *length, const char *suffix)
{
	size_t n = strlen(suffix);

	if (*length < n || memcmp(text + *length - n, suffix, n) != 0)
		return false;
	*length -= n;
	return true;
}

/* Parses a name such as "train.device.12.log.gz", whose prefix has *prefix bytes. */
static bool parse_name(const char *name, const char *const channels[GPUFL_LOG_CHANNELS],
		       struct gpufl_window *w, size_t *prefix)
{
	size_t length = strlen(name), digits;

	w->number = UINT64_MAX;
	w->rank = strip_suffix(name, &length, ".gz");
	if (!strip_suffix(name, &length, ".log"))
		return false;
	for (digits = length; digits && isdigit((unsigned char)name[digits - 1]); digits--)
		;
	if (digits && digits < length && name[digits - 1] == '.' && length - digits < 19) {
		w->number = strtoull(name + digits, NULL, 10);
		length = digits - 1;
	}
	for (w->channel = 0; w->channel < GPUFL_LOG_CHANNELS; w->channel++) {
		*prefix = length;
		if (strip_suffix(name, prefix, channels[w->channel]) &&
		    (!*prefix || name[*prefix - 1] == '.'))
			return true;
	}
	return false;
}

/* A file that matches; `group` is the length of the session's folder in `path`, ending with '/'. */
static int add_file(struct gpufl_folder *out, const char *path, size_t group, const char *name,
		    const struct stat *st, const char *const *channels)
{
	struct gpufl_window w = { .channel = GPUFL_LOSS_MARKER, .number = out->windows.count };
	bool tmp = group < strlen(path);
	size_t prefix = 0;
	int rc;

	if (!S_ISREG(st->st_mode) || !st->st_size ||
	    (strncmp(name, LOSS_MARKER, strlen(LOSS_MARKER)) != 0 &&
	     !parse_name(name, channels, &w, &prefix)))
		return 0;
	if (asprintf(&w.path, "%s%s", path, name) < 0)
		return -ENOMEM;
	w.group = group + (tmp ? 0 : prefix);
	w.rank += tmp ? 2 : 0;
	w.bytes = (uint64_t)st->st_size;
	w.modified_ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
	rc = vec_push(&out->windows, w);
	if (rc < 0)
		free(w.path);
	return rc;
}

/* Of what cannot be read, nothing is listed. */
static int add_folder(struct gpufl_folder *out, int folder, const char *path, size_t group,
		      unsigned depth, const char *const *channels)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	int rc = 0;

	while (rc == 0 && (name = folder_next(list))) {
		_cleanup_strbuf_ struct strbuf below = STRBUF_INIT;
		bool tmp = !strcmp(name, ".tmp");
		_cleanup_close_ int inner = -1;
		struct stat st;

		if (folder_stat(folder, name, &st) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			rc = add_file(out, path, group, name, &st, channels);
			continue;
		}
		if (!depth || (name[0] == '.' && !tmp))
			continue;
		inner = folder_enter(folder, name, FOLDER_ANY);
		strbuf_addf(&below, "%s%s/", path, name);
		rc = below.failed ? -ENOMEM
				  : add_folder(out, inner, below.data, tmp ? group : below.length,
					       tmp ? 0 : depth - 1, channels);
	}
	return rc;
}

static int compare_groups(const struct gpufl_window *a, const struct gpufl_window *b)
{
	int order = memcmp(a->path, b->path, MIN(a->group, b->group));

	return order ? order : ORDER_OF(a->group, b->group);
}

ORDER(compare_windows, struct gpufl_window,
      compare_groups(a, b) ?: UP(channel) ?: UP(number) ?: UP(rank))

int gpufl_folder_list(int folder, const char *path, unsigned depth,
		      const char *const channels[GPUFL_LOG_CHANNELS], struct gpufl_folder *out)
{
	_cleanup_strbuf_ struct strbuf prefix = STRBUF_INIT;
	_cleanup_list_ DIR *list = folder_list(folder);
	size_t kept = 0;
	int rc;

	*out = (struct gpufl_folder){ 0 };
	if (!list)
		return -errno;
	strbuf_addf(&prefix, "%s/", path);
	rc = prefix.failed ? -ENOMEM
			   : add_folder(out, folder, prefix.data, prefix.length, depth, channels);
	vec_sort(&out->windows, compare_windows);
	for (size_t i = 0; i < out->windows.count; i++) {
		struct gpufl_window w = out->windows.data[i];
		const struct gpufl_window *last = kept ? &out->windows.data[kept - 1] : NULL;

		if (last && !compare_groups(&w, last) && w.channel == last->channel &&
		    w.number == last->number)
			free(w.path);
		else
			out->windows.data[kept++] = w;
	}
	out->windows.count = kept;
	return rc;
}

int gpufl_window_open(int folder, const char *path, const struct gpufl_window *w)
{
	const char *name = w->path + strlen(path) + 1, *slash;
	int inner, at = folder < 0 ? folder : fcntl(folder, F_DUPFD_CLOEXEC, 3);

	while (at >= 0 && (slash = strchr(name, '/'))) {
		char component[NAME_MAX + 1];

		snprintf(component, sizeof(component), "%.*s", (int)(slash - name), name);
		inner = folder_enter(at, component, FOLDER_ANY);
		close(at);
		at = inner;
		name = slash + 1;
	}
	if (at < 0)
		return at;
	inner = folder_open_file(at, name, O_RDONLY, FOLDER_ANY);
	close(at);
	return inner;
}

void gpufl_folder_release(struct gpufl_folder *f)
{
	for (size_t i = 0; i < f->windows.count; i++)
		free(f->windows.data[i].path);
	vec_release(&f->windows);
}

/* ---- creation and removal ---- */

/* Failures are ignored here, because creating the last folder reports them. */
static void make_parents(const char *path)
{
	char parent[PATH_MAX];

	for (size_t i = 1; i < sizeof(parent) && path[i - 1] && path[i]; i++) {
		if (path[i] != '/')
			continue;
		memcpy(parent, path, i);
		parent[i] = '\0';
		mkdir(parent, 0777);
	}
}

char *gpufl_folder_make(const char *log_path, bool *is_full, struct error *e)
{
	_cleanup_close_ int folder = -1;
	struct statvfs fs;
	char *path;

	make_parents(log_path);
	if (mkdir(log_path, 0777) < 0 && errno != EEXIST) {
		error_errno(e, errno, "cannot create '%s' for gpufl's logs", log_path);
		return NULL;
	}
	folder = folder_open(log_path, FOLDER_ANY);
	if (folder < 0 || faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		error_errno(e, folder < 0 ? -folder : errno, "cannot write gpufl's logs into '%s'",
			    log_path);
		return NULL;
	}
	path = realpath(log_path, NULL);
	if (!path)
		error_errno(e, errno, "cannot use '%s'", log_path);
	*is_full = fstatvfs(folder, &fs) == 0 &&
		   (uint64_t)fs.f_bavail * fs.f_frsize < GPUFL_FREE_BYTES_MIN;
	return path;
}

/* Removes the files with this prefix or the suffix .log or .log.gz, then the directory. */
static int remove_files(int parent, const char *directory)
{
	_cleanup_close_ int folder = folder_enter(parent, directory, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;

	if (!list)
		return -errno;
	while ((name = folder_next(list))) {
		const char *dot = strstr(name, ".log");

		if (!strcmp(name, ".tmp"))
			remove_files(folder, name);
		else if (!strncmp(name, ".gpufl-", 7) || strstr(name, ".part") ||
			 (dot && (!strcmp(dot, ".log") || !strcmp(dot, ".log.gz"))))
			unlinkat(folder, name, 0);
	}
	return unlinkat(parent, directory, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int gpufl_folder_remove_session(const char *log_path, const char *session)
{
	_cleanup_close_ int folder = folder_open(log_path, FOLDER_ANY);

	return remove_files(folder, session);
}
