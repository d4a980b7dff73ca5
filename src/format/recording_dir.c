#include "format/recording_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/path.h"
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
	return has_suffix(name, SEGMENT_SUFFIX) || !strcmp(name, "cpu.handover") ||
	       !strncmp(name, RECORDING_JSON, strlen(RECORDING_JSON));
}

/* Whether a file belongs into a folder of a recording, by its kind and the end of its name. */
static bool is_part_of_folder(int folder, const char *name, bool has_cubins)
{
	struct stat st;

	if (folder_stat(folder, name, &st) < 0)
		return false;
	if (S_ISFIFO(st.st_mode))
		return !has_cubins && has_suffix(name, RECORDING_GPU_PIPE_SUFFIX);
	return S_ISREG(st.st_mode) && (has_cubins ? strstr(name, RECORDING_CUBIN_SUFFIX) != NULL
						  : has_suffix(name, RECORDING_GPU_CORE_SUFFIX));
}

/*
 * Whether `name` is the folder of device code, or of core files, and contains nothing else.
 * `remove`: removes it.
 */
static bool is_folder_of_recording(int folder, const char *name, bool remove)
{
	bool has_cubins = !strcmp(name, RECORDING_CUBINS);
	_cleanup_close_ int inner = has_cubins || !strcmp(name, RECORDING_GPU_CORES)
					    ? folder_enter(folder, name, FOLDER_ANY)
					    : -ENOENT;
	_cleanup_list_ DIR *list = folder_list(inner);
	const char *file;
	bool ok = list != NULL;

	while (ok && (file = folder_next(list)))
		ok = is_part_of_folder(inner, file, has_cubins) &&
		     (!remove || unlinkat(inner, file, 0) == 0);
	return ok && (!remove || unlinkat(folder, name, AT_REMOVEDIR) == 0);
}

/* Returns 0 if the folder contains only parts of a recording. */
static int check_is_recording(int folder, const char *path, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	struct stat st;

	while ((name = folder_next(list))) {
		if (is_folder_of_recording(folder, name, false))
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
static int clear(int folder, const char *path, struct error *e)
{
	_cleanup_list_ DIR *list = NULL;
	const char *name;
	int rc;

	if (folder == -ENOTDIR)
		return error_set(e, E_USAGE,
				 "'%s' is a file, not a recording; choose another folder with -o",
				 path);
	if (folder < 0)
		return error_set(e, folder, "cannot remove '%s': %s", path,
				 error_code_text(folder));
	rc = check_is_recording(folder, path, e);
	list = folder_list(folder);
	while (rc >= 0 && (name = folder_next(list)))
		if (!is_folder_of_recording(folder, name, true) && is_part_of_recording(name) &&
		    unlinkat(folder, name, 0) < 0)
			rc = error_errno(e, errno, "cannot remove '%s/%s'", path, name);
	return rc;
}

int recording_dir_remove(const char *path, const struct folder_id *id, struct error *e)
{
	_cleanup_close_ int folder = folder_open_known(path, id);
	int rc = clear(folder, path, e);

	return rc >= 0 && rmdir(path) < 0 ? error_errno(e, errno, "cannot remove '%s'", path) : rc;
}

/* --- creation --- */

/*
 * Returns the user that owns what this process creates in a folder, which is another one on some
 * network file systems.
 */
static uid_t find_creator(int folder)
{
	struct stat st = { .st_uid = geteuid() };
	char name[64];
	int fd;

	snprintf(name, sizeof(name), ".pitot-%d-%llx", (int)getpid(),
		 (unsigned long long)clock_monotonic_ns());
	fd = folder_create_file(folder, name);
	if (fd < 0)
		return st.st_uid;
	unlinkat(folder, name, 0);
	fstat(fd, &st);
	close(fd);
	return st.st_uid;
}

/*
 * Creates a folder and opens it. Who can write to its parent may put another folder or a link in
 * its place at once, which then has another owner or contents. Returns a descriptor or a negative
 * code.
 */
static int make_folder(const char *path)
{
	_cleanup_strbuf_ struct strbuf copy = STRBUF_INIT;
	_cleanup_close_ int parent = -1;
	_cleanup_list_ DIR *list = NULL;
	struct stat st;
	char *slash;
	int folder;

	strbuf_adds(&copy, path);
	while (copy.length > 1 && copy.data[copy.length - 1] == '/')
		copy.data[--copy.length] = '\0';
	if (copy.failed)
		return -ENOMEM;
	slash = strrchr(copy.data, '/');
	if (slash)
		*slash = '\0';
	parent = folder_open(!slash ? "." : slash == copy.data ? "/" : copy.data, FOLDER_ANY);
	if (parent < 0)
		return parent;
	path = slash ? slash + 1 : copy.data;
	if (mkdirat(parent, path, FOLDER_MODE) < 0)
		return -errno;
	folder = folder_enter(parent, path, FOLDER_ANY);
	list = folder_list(folder);
	if (folder < 0 || (list && !folder_next(list) && fstat(folder, &st) == 0 &&
			   (st.st_uid == geteuid() || st.st_uid == find_creator(parent))))
		return folder;
	close(folder);
	return list ? E_FOREIGN : -errno;
}

/* mkdir() also says ENOENT where nothing can be created, as in /proc. */
static int creation_failed(const char *path, int err, struct error *e)
{
	_cleanup_free_ char *copy = strdup(path);

	if (err != -ENOENT || !copy)
		return error_set(e, err, "cannot create '%s': %s", path, error_code_text(err));
	if (access(dirname(copy), F_OK) < 0)
		return error_set(e, -ENOENT, "cannot create '%s': its parent folder does not exist",
				 path);
	return error_set(e, -EOPNOTSUPP,
			 "cannot create '%s': no folders can be created in its parent folder; "
			 "choose another one",
			 path);
}

/* These return the descriptor of the folder, or a negative code. */
static int create_named(const char *path, bool force, struct error *e)
{
	int folder = *path ? make_folder(path) : 0, rc;

	if (!*path)
		return error_set(e, E_USAGE, "-o takes the name of a folder, not ''");
	if (folder == -EEXIST && force) {
		folder = folder_open(path, FOLDER_ANY);
		rc = clear(folder, path, e);
		if (rc < 0 && folder >= 0)
			close(folder);
		return rc < 0 ? rc : folder;
	}
	if (folder == -EEXIST)
		return error_set(
			e, -EEXIST,
			"'%s' exists; choose another folder with -o, or replace it with --force",
			path);
	return folder < 0 ? creation_failed(path, folder, e) : folder;
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
		int folder;

		strbuf_clear(path);
		strbuf_addf(path, "%s-%s", name, date);
		if (i > 1)
			strbuf_addf(path, "-%d", i);
		strbuf_adds(path, RECORDING_SUFFIX);
		if (path->failed)
			return error_set(e, -ENOMEM, "out of memory");
		folder = make_folder(path->data);
		if (folder >= 0)
			return folder;
		if (folder != -EEXIST)
			return error_set(
				e, folder,
				"cannot create '%s' in the current folder (name another one): %s",
				path->data, error_code_text(folder));
	}
	return error_set(e, E_LIMIT, "%d recordings '%s-%s' within one second", NUMBERS_MAX, name,
			 date);
}

/*
 * Closes the folder and identifies it. Returns its absolute path, to be freed, or NULL when it
 * cannot be used.
 */
static char *identify(int folder, const char *path, struct folder_id *id, struct error *e)
{
	int rc = folder_identify(folder, id), again = -1;
	char *absolute = rc < 0 ? NULL : realpath(path, NULL);

	if (rc == 0 && (!absolute || access(absolute, W_OK) < 0))
		rc = -errno;
	if (rc == 0)
		rc = again = folder_open_known(absolute, id);
	fd_close(&again);
	close(folder);
	if (rc >= 0)
		return absolute;
	error_set(e, rc, "cannot use '%s': %s", path, error_code_text(rc));
	free(absolute);
	return NULL;
}

char *recording_dir_create(const char *path, const char *name, bool force, struct folder_id *id,
			   struct error *e)
{
	_cleanup_strbuf_ struct strbuf dated = STRBUF_INIT;
	int folder = path ? create_named(path, force, e) : create_dated(name, &dated, e);
	char *absolute;

	if (folder < 0)
		return NULL;
	path = path ? path : dated.data;
	absolute = identify(folder, path, id, e);
	if (!absolute)
		rmdir(path);
	return absolute;
}

char *recording_dir_create_own(const char *path, const char *name, struct folder_id *id,
			       struct error *e)
{
	_cleanup_list_ DIR *list = NULL;
	int folder;

	if (!path)
		return recording_dir_create(NULL, name, false, id, e);
	folder = make_folder(path);
	if (folder == -EEXIST) {
		folder = folder_open(path, FOLDER_ANY);
		list = folder_list(folder);
		if (!list)
			error_errno(e, errno, "cannot use '%s'", path);
		else if (folder_next(list))
			error_set(e, -ENOTEMPTY, "'%s' is not empty; name a new folder", path);
		else
			return identify(folder, path, id, e);
		fd_close(&folder);
		return NULL;
	}
	if (folder >= 0)
		return identify(folder, path, id, e);
	creation_failed(path, folder, e);
	return NULL;
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
	int rc = newest_recording(&name);

	if (rc < 0)
		error_errno(e, -rc, "cannot search the current folder for recordings");
	else if (!rc)
		error_set(e, -ENOENT,
			  "no recording (*%s) in the current folder; name one, or make one with "
			  "`pitot record`",
			  RECORDING_SUFFIX);
	return name;
}
