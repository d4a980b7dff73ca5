#include "format/recording_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/folder.h"
#include "base/path.h"
#include "format/handover_cell.h"
#include "format/segment.h"

#define RECORDING_SUFFIX ".pitot"
#define NAME_MAX_LENGTH 64
#define NUMBERS_MAX 1000
#define FOLDER_MODE 0700 /* command lines and paths may be confidential */

/* Like base_name(), but returns "folder/" unchanged. */
static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static bool is_interpreter(const char *name)
{
	static const char *const names[] = { "python",   "pypy",       "bash",     "sh",
					     "torchrun", "accelerate", "deepspeed" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i]);

		/* Matches python3 and python3.12, but not shfmt. */
		if (!strncmp(name, names[i], length) && !isalpha((unsigned char)name[length]))
			return true;
	}
	return false;
}

static bool is_script(const char *argument)
{
	const char *dot = strrchr(argument, '.');

	return argument[0] != '-' && dot && (!strcmp(dot, ".py") || !strcmp(dot, ".sh"));
}

void recording_name(int argc, char **argv, struct strbuf *out)
{
	const char *name = last_name(argv[0]);
	size_t length;

	for (int i = 1; is_interpreter(last_name(argv[0])) && i < argc; i++) {
		if (is_script(argv[i])) {
			name = last_name(argv[i]);
			break;
		}
	}
	length = strlen(name);
	if (is_script(name))
		length = (size_t)(strrchr(name, '.') - name);
	length = MIN(length, NAME_MAX_LENGTH);
	for (size_t i = 0; i < length; i++) {
		bool good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);

		good = good && (i || isalnum((unsigned char)name[i]));
		strbuf_addc(out, good ? name[i] : '_');
	}
	if (!length)
		strbuf_adds(out, "command");
}

/* Whether a file belongs to a recording, also a temporary file of a killed recorder. */
static bool is_part_of_recording(const char *name)
{
	return has_suffix(name, SEGMENT_SUFFIX) || !strcmp(name, CPU_HANDOVER_FILE) ||
	       !strncmp(name, RECORDING_JSON, strlen(RECORDING_JSON));
}

/* Whether `name` is the folder of device code and contains nothing else. `remove`: removes it. */
static bool is_cubins(int folder, const char *name, bool remove)
{
	_cleanup_close_ int cubins = strcmp(name, RECORDING_CUBINS) == 0
					     ? folder_enter(folder, name, FOLDER_ANY)
					     : -ENOENT;
	_cleanup_list_ DIR *list = folder_list(cubins);
	const char *cubin;
	struct stat st;
	bool ok = list != NULL;

	while (ok && (cubin = folder_next(list)))
		ok = strstr(cubin, RECORDING_CUBIN_SUFFIX) &&
		     folder_stat(cubins, cubin, &st) == 0 && S_ISREG(st.st_mode) &&
		     (!remove || unlinkat(cubins, cubin, 0) == 0);
	return ok && (!remove || unlinkat(folder, name, AT_REMOVEDIR) == 0);
}

/* Returns 0 if the folder contains only parts of a recording. */
static int check_is_recording(int folder, const char *path, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	struct stat st;

	while ((name = folder_next(list))) {
		if (is_cubins(folder, name, false))
			continue;
		if (!is_part_of_recording(name) || folder_stat(folder, name, &st) < 0 ||
		    !S_ISREG(st.st_mode))
			return error_set(e, E_USAGE,
					 "'%s' contains '%s', which is not part of a recording; "
					 "choose another folder with -o",
					 path, name);
	}
	return list ? 0 : error_errno(e, errno, "cannot remove '%s'", path);
}

/* Removes the files of a recording, but not the folder. */
static int clear(const char *path, struct error *e)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
	_cleanup_list_ DIR *list = NULL;
	const char *name;
	int r;

	if (folder == -ENOTDIR)
		return error_set(e, E_USAGE,
				 "'%s' is a file, not a recording; choose another folder with -o",
				 path);
	if (folder < 0)
		return error_errno(e, -folder, "cannot remove '%s'", path);
	r = check_is_recording(folder, path, e);
	list = folder_list(folder);
	while (r >= 0 && (name = folder_next(list)))
		if (!is_cubins(folder, name, true) && is_part_of_recording(name) &&
		    unlinkat(folder, name, 0) < 0)
			r = error_errno(e, errno, "cannot remove '%s/%s'", path, name);
	return r;
}

int recording_dir_remove(const char *path, struct error *e)
{
	int r = clear(path, e);

	return r >= 0 && rmdir(path) < 0 ? error_errno(e, errno, "cannot remove '%s'", path) : r;
}

/* mkdir() has failed. It also says ENOENT where nothing can be created, as in /proc. */
static int creation_failed(const char *path, struct error *e)
{
	int err = errno;
	_cleanup_free_ char *copy = strdup(path);

	if (err != ENOENT || !copy)
		return error_errno(e, err, "cannot create '%s'", path);
	if (access(dirname(copy), F_OK) < 0)
		return error_set(e, -ENOENT, "cannot create '%s': its parent folder does not exist",
				 path);
	return error_set(e, -EOPNOTSUPP,
			 "cannot create '%s': no folders can be created in its parent folder; "
			 "choose another one",
			 path);
}

static int create_named(const char *path, bool force, struct error *e)
{
	if (!*path)
		return error_set(e, E_USAGE, "-o takes the name of a folder, not ''");
	if (!mkdir(path, FOLDER_MODE))
		return 0;
	if (errno == EEXIST && force)
		return clear(path, e);
	if (errno == EEXIST)
		return error_set(
			e, -EEXIST,
			"'%s' exists; choose another folder with -o, or replace it with --force",
			path);
	return creation_failed(path, e);
}

/* Creates <name>-DATE-TIME.pitot, else <name>-DATE-TIME-2.pitot and so on. */
static int create_dated(const char *name, struct strbuf *path, struct error *e)
{
	time_t now = time(NULL);
	char date[32];
	struct tm tm;

	if (!localtime_r(&now, &tm) || !strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm))
		return error_set(e, -EINVAL, "cannot read the date");
	for (int i = 1; i <= NUMBERS_MAX; i++) {
		strbuf_clear(path);
		strbuf_addf(path, "%s-%s", name, date);
		if (i > 1)
			strbuf_addf(path, "-%d", i);
		strbuf_adds(path, RECORDING_SUFFIX);
		if (path->failed)
			return error_set(e, -ENOMEM, "out of memory");
		if (!mkdir(path->data, FOLDER_MODE))
			return 0;
		if (errno != EEXIST)
			return error_errno(
				e, errno,
				"cannot create '%s' in the current folder (name another one)",
				path->data);
	}
	return error_set(e, E_LIMIT, "%d recordings '%s-%s' within one second", NUMBERS_MAX, name,
			 date);
}

/* Returns the absolute path of the created folder, to be freed, or NULL when it cannot be used. */
static char *absolute_path(const char *path, struct error *e)
{
	char *absolute = realpath(path, NULL);

	if (absolute && access(absolute, W_OK) == 0)
		return absolute;
	error_errno(e, errno, "cannot use '%s'", path);
	free(absolute);
	return NULL;
}

char *recording_dir_create(const char *path, const char *name, bool force, struct error *e)
{
	_cleanup_strbuf_ struct strbuf dated = STRBUF_INIT;
	int r = path ? create_named(path, force, e) : create_dated(name, &dated, e);
	char *absolute;

	if (r < 0)
		return NULL;
	path = path ? path : dated.data;
	absolute = absolute_path(path, e);
	if (!absolute)
		rmdir(path);
	return absolute;
}

static int check_is_empty(const char *path, struct error *e)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(folder);

	if (!list)
		return error_errno(e, errno, "cannot use '%s'", path);
	return folder_next(list)
		       ? error_set(e, -ENOTEMPTY, "'%s' is not empty; name a new folder", path)
		       : 0;
}

char *recording_dir_create_own(const char *path, const char *name, struct error *e)
{
	struct stat st;

	if (!path)
		return recording_dir_create(NULL, name, false, e);
	if (stat(path, &st) == 0 && check_is_empty(path, e) < 0)
		return NULL;
	if (mkdir(path, FOLDER_MODE) < 0 && errno != EEXIST) {
		creation_failed(path, e);
		return NULL;
	}
	return absolute_path(path, e);
}

/* --- the newest recording --- */

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

bool recording_dir_has_segments(const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(folder);
	bool found = !list && errno == EACCES;
	const char *name;

	while (!found && (name = folder_next(list)))
		found = has_suffix(name, SEGMENT_SUFFIX);
	return found;
}

/*
 * Finds the newest directory *.pitot in the current folder. Returns 1 and *name (to be freed), 0
 * for none, or -errno.
 */
static int newest_recording(char **name)
{
	_cleanup_list_ DIR *list = opendir(".");
	struct timespec newest = { 0 };
	const char *entry;
	struct stat st;
	char *copy;

	*name = NULL;
	if (!list)
		return -errno;
	while ((entry = folder_next(list))) {
		if (entry[0] == '.' || !has_suffix(entry, RECORDING_SUFFIX) ||
		    stat(entry, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if ((*name && !is_newer(&st.st_mtim, &newest)) ||
		    !recording_dir_has_segments(entry))
			continue;
		copy = strdup(entry);
		free(*name);
		*name = copy;
		if (!copy)
			return -ENOMEM;
		newest = st.st_mtim;
	}
	return *name ? 1 : 0;
}

char *recording_dir_find_newest(struct error *e)
{
	char *name;
	int r = newest_recording(&name);

	if (r < 0)
		error_errno(e, -r, "cannot search the current folder for recordings");
	else if (!r)
		error_set(e, -ENOENT,
			  "no recording (*%s) in the current folder; name one, or make one with "
			  "`pitot record`",
			  RECORDING_SUFFIX);
	return name;
}
