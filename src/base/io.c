#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

#define READ_STEP ((size_t)64 << 10)

int io_write_all(int fd, const void *bytes, size_t length)
{
	const char *p = bytes;

	while (length) {
		ssize_t n = write(fd, p, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		length -= (size_t)n;
	}
	return 0;
}

size_t io_allowed(uint64_t offset, size_t length)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return length;
	return limit.rlim_cur <= offset ? 0 : (size_t)MIN(length, limit.rlim_cur - offset);
}

static int read_to_end(int fd, size_t max, struct strbuf *out)
{
	size_t start = out->length;

	for (;;) {
		ssize_t n;

		if (!strbuf_reserve(out, READ_STEP))
			return -ENOMEM;
		n = read(fd, out->data + out->length, READ_STEP);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		out->length += (size_t)n;
		if (out->length - start > max)
			return E_LIMIT;
	}
}

/* Of a file longer than `max`, the first `kept` bytes are appended. */
static int read_path(const char *path, size_t max, size_t kept, struct strbuf *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t start = out->length;
	int err;

	if (fd < 0)
		return -errno;
	err = read_to_end(fd, max, out);
	if (err < 0)
		out->length = start + (err == E_LIMIT ? kept : 0);
	if (out->data)
		out->data[out->length] = '\0';
	return err;
}

int io_read_file(const char *path, size_t max, struct strbuf *out)
{
	return read_path(path, max, 0, out);
}

int io_read_text(const char *path, size_t max, struct strbuf *out)
{
	size_t start = out->length;
	int err = read_path(path, max, max, out);

	while (out->length > start &&
	       (out->data[out->length - 1] == '\n' || !out->data[out->length - 1]))
		out->length--;
	for (size_t i = start; i < out->length; i++)
		if (!out->data[i])
			out->data[i] = ' ';
	if (out->data)
		out->data[out->length] = '\0';
	return err == E_LIMIT ? 0 : err;
}

int io_process_text(pid_t pid, const char *name, size_t max, struct strbuf *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return io_read_text(path, max, out);
}

bool io_process_stat(pid_t pid, struct process_stat *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	unsigned long long ticks;
	const char *after_name; /* the name may contain any character */
	int parent;

	if (io_process_text(pid, "stat", 4096, &text) < 0)
		return false;
	after_name = strrchr(strbuf_text(&text), ')');
	if (!after_name || sscanf(after_name + 1,
				  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
				  "%*d %*d %*d %llu",
				  &out->state, &parent, &ticks) != 3)
		return false;
	out->parent = parent;
	out->start_ticks = ticks;
	return true;
}

int io_rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* The file system does not support RENAME_NOREPLACE. */
	if (link(from, to) < 0)
		return -errno;
	unlink(from);
	return 0;
}

int io_above_standard(int fd)
{
	int moved, err;

	if (fd > STDERR_FILENO && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	return moved < 0 ? -err : moved;
}
