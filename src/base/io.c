#include "base/io.h"

#include <errno.h>
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

size_t io_read_at(int fd, uint64_t offset, void *to, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = pread(fd, (char *)to + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

size_t io_allowed(uint64_t offset, size_t length)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return length;
	return limit.rlim_cur <= offset ? 0 : (size_t)MIN(length, limit.rlim_cur - offset);
}

int io_check_file(int fd, struct stat *st)
{
	int err = fd < 0 ? -errno : 0;

	if (err == 0 && fstat(fd, st) < 0)
		err = -errno;
	else if (err == 0 && !S_ISREG(st->st_mode))
		err = S_ISDIR(st->st_mode) ? -EISDIR : E_NOT_FILE;
	if (err == 0)
		return io_above_standard(fd);
	fd_close(&fd);
	return err == -ENXIO ? E_NOT_FILE : err; /* a FIFO without a reader, a socket */
}

int io_open_file(const char *path, struct stat *st)
{
	struct stat unused;

	return io_check_file(open(path, O_RDONLY | IO_SAFE_FLAGS), st ? st : &unused);
}

static int append_to_end(int fd, size_t max, struct strbuf *out)
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
static int read_to_end(int fd, size_t max, size_t kept, struct strbuf *out)
{
	size_t start = out->length;
	int err = append_to_end(fd, max, out);

	if (err < 0)
		out->length = start + (err == E_LIMIT ? kept : 0);
	if (out->data)
		out->data[out->length] = '\0';
	return err;
}

static int read_path(const char *path, size_t max, size_t kept, struct strbuf *out)
{
	_cleanup_close_ int fd = io_open_file(path, NULL);

	return fd < 0 ? fd : read_to_end(fd, max, kept, out);
}

int io_read_to_end(int fd, size_t max, struct strbuf *out)
{
	return read_to_end(fd, max, 0, out);
}

int io_read_file(const char *path, size_t max, struct strbuf *out)
{
	return read_path(path, max, 0, out);
}

int io_read_stream(const char *path, size_t max, struct strbuf *out)
{
	_cleanup_close_ int fd =
		open(strcmp(path, "-") ? path : "/dev/stdin", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : io_read_to_end(fd, max, out);
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
	unsigned long long ticks, user, system;
	const char *after_name; /* the name may contain any character */
	int parent, session;

	if (io_process_text(pid, "stat", 4096, &text) < 0)
		return false;
	after_name = strrchr(strbuf_text(&text), ')');
	if (!after_name || sscanf(after_name + 1,
				  " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
				  "%*d %*d %*d %llu",
				  &out->state, &parent, &session, &user, &system, &ticks) != 6)
		return false;
	out->parent = parent;
	out->session = session;
	out->start_ticks = ticks;
	out->cpu_ticks = user + system;
	return true;
}

int io_rename_new(int from_folder, const char *from, int to_folder, const char *to)
{
	if (renameat2(from_folder, from, to_folder, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* The file system does not support RENAME_NOREPLACE. */
	if (linkat(from_folder, from, to_folder, to, 0) < 0)
		return -errno;
	unlinkat(from_folder, from, 0);
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

bool io_process_is_stopped(pid_t pid)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *name_end;

	if (!pid || io_process_text(pid, "stat", 4096, &text) < 0)
		return false;
	name_end = strrchr(strbuf_text(&text), ')');
	return name_end && name_end[1] == ' ' && strchr("Tt", name_end[2]) && name_end[2];
}
