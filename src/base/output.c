/*
 * output.c: bytes go to "<path>.<pid>-<n>.partial", which output_commit() renames to <path>. An
 * existing path that is not an ordinary file (a device, a pipe) is written in place.
 *
 * The first error is stored; later writes do nothing, and output_commit() reports it.
 */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/output_pump.h"

struct output {
	int fd;
	int err; /* errno of the first failure, once the pump has ended */
	bool overwrite;
	char *path; /* "-" is standard output */
	char *partial; /* NULL when written in place */
	uint64_t bytes;
	struct output_pump *pump;
};

static mode_t file_mode = 0600;

void output_set_mode(unsigned mode)
{
	file_mode = mode & 0777;
}

static void output_free(struct output *o)
{
	output_pump_free(o->pump);
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	free(o->path);
	free(o->partial);
	free(o);
}

/*
 * Creates a new file beside the final one. A crashed process with this pid may have left one, hence
 * the count.
 */
static int create_partial(struct output *o)
{
	for (unsigned n = 0; n < 100; n++) {
		int fd;

		if (asprintf(&o->partial, "%s.%d-%u.partial", o->path, (int)getpid(), n) < 0) {
			o->partial = NULL;
			errno = ENOMEM;
			return -1;
		}
		fd = open(o->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 && fchmod(fd, file_mode) == 0)
			return fd;
		if (fd >= 0) {
			close(fd);
			unlink(o->partial);
			return -1;
		}
		free(o->partial);
		o->partial = NULL;
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* Opens a partial file, or o->path in place. Returns 0 or an errno. */
static int open_file(struct output *o)
{
	bool in_place = false;
	struct stat st;
	int fd;

	if (!o->path[0])
		return ENOENT;
	if (stat(o->path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return EISDIR;
		in_place = !S_ISREG(st.st_mode);
		if (!in_place && !o->overwrite)
			return EEXIST;
	}
	fd = in_place ? open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : create_partial(o);
	if (fd < 0)
		return errno;
	/* Somebody may meanwhile have put a link to a file in its place. */
	if (in_place && (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))) {
		close(fd);
		return EEXIST;
	}
	fd = io_above_standard(fd);
	if (fd < 0)
		return -fd;
	o->fd = fd;
	return 0;
}

struct output *output_open(const char *path, bool overwrite, struct error *e)
{
	struct output *o = calloc(1, sizeof(*o));
	size_t length = strlen(path);
	int err = ENOMEM;

	if (!o)
		goto fail;
	o->fd = STDOUT_FILENO;
	o->overwrite = overwrite;
	o->path = strdup(path);
	if (!o->path)
		goto fail;
	err = strcmp(path, "-") == 0 ? 0 : open_file(o);
	if (err)
		goto fail;
	o->pump = output_pump_new(o->fd, length > 3 && strcmp(path + length - 3, ".gz") == 0);
	if (o->pump)
		return o;
	err = ENOMEM;
fail:
	output_abort(&o);
	if (err == EEXIST && !overwrite)
		error_set(e, -err, "'%s' exists; choose another name or use --force", path);
	else
		error_errno(e, err, "cannot write '%s'", path);
	return NULL;
}

void output_write(struct output *o, const void *bytes, size_t length)
{
	o->bytes += length;
	output_pump_write(o->pump, bytes, length);
}

void output_move(struct output *o, struct strbuf *s)
{
	o->bytes += s->length;
	output_pump_move(o->pump, s);
}

uint64_t output_bytes(const struct output *o)
{
	return o->bytes;
}

bool output_failed(const struct output *o)
{
	return output_pump_error(o->pump) != 0;
}

/*
 * Renames the complete file; unless overwriting was requested, a file that has appeared meanwhile
 * is not replaced. Returns 0 or an errno.
 */
static int publish(const struct output *o)
{
	if (o->overwrite)
		return rename(o->partial, o->path) < 0 ? errno : 0;
	return -io_rename_new(AT_FDCWD, o->partial, AT_FDCWD, o->path);
}

int output_commit(struct output **output, uint64_t *size, struct error *e)
{
	struct output *o = *output;
	uint64_t bytes = o->bytes;
	struct stat st;
	int code = 0;

	o->err = output_pump_end(o->pump);
	if (o->partial && fstat(o->fd, &st) == 0)
		bytes = (uint64_t)st.st_size;
	if (o->fd > STDERR_FILENO) {
		if (close(o->fd) < 0 && !o->err)
			o->err = errno;
		o->fd = -1;
	}
	if (!o->err && o->partial)
		o->err = publish(o);
	if (o->err)
		code = error_errno(e, o->err, "cannot write '%s'", o->path);
	else if (size)
		*size = bytes;
	if (o->err && o->partial)
		unlink(o->partial);
	output_free(o);
	*output = NULL;
	return code;
}

void output_abort(struct output **output)
{
	struct output *o = *output;

	if (!o)
		return;
	if (o->partial)
		unlink(o->partial);
	output_free(o);
	*output = NULL;
}

bool output_path_ends(const char *path, const char *suffixes)
{
	size_t length = strlen(path), suffix;

	for (; *suffixes; suffixes += suffix + strspn(suffixes + suffix, " ")) {
		suffix = strcspn(suffixes, " ");
		if (length > suffix && !memcmp(path + length - suffix, suffixes, suffix))
			return true;
	}
	return false;
}
