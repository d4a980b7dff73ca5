#include "symbol/file_copies.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/path.h"

void file_copies_release(struct file_copies *k)
{
	for (size_t i = 0; i < k->files.count; i++) {
		fd_close(&k->files.data[i].fd);
		free(k->files.data[i].path);
		free(k->files.data[i].build_id);
	}
	vec_release(&k->files);
	*k = (struct file_copies){ .bytes = 0 };
}

static bool matches(const struct file_copy *f, const char *path, size_t length,
		    const char *build_id)
{
	if (strcmp(f->build_id, build_id) != 0)
		return false;
	return *build_id || (strlen(f->path) == length && !memcmp(f->path, path, length));
}

static struct file_copy *find(const struct file_copies *k, const char *path, const char *build_id)
{
	size_t length = mapped_path_length(path);

	for (size_t i = 0; i < k->files.count; i++)
		if (matches(&k->files.data[i], path, length, build_id))
			return &k->files.data[i];
	return NULL;
}

/* Returns a descriptor of a copy, or -1. */
static int copy(int from, uint64_t size)
{
	int to = memfd_create("pitot-kept", MFD_CLOEXEC);
	off_t at = 0;

	while (to >= 0 && (uint64_t)at < size) {
		ssize_t n = sendfile(to, from, &at, size - (uint64_t)at);

		if (n > 0)
			continue;
		close(to);
		to = -1;
	}
	return to;
}

void file_copies_add(struct file_copies *k, const char *path, const char *build_id, int fd,
		     uint64_t size)
{
	struct file_copy *known = find(k, path, build_id), file;

	if (known) {
		if (!*build_id && known->fd >= 0) {
			close(known->fd);
			known->fd = -1;
		}
		return;
	}
	if (k->files.count >= FILE_COPIES_MAX || size > FILE_COPY_BYTES_MAX ||
	    size > FILE_COPIES_BYTES_MAX - k->bytes)
		return;
	file = (struct file_copy){ strndup(path, mapped_path_length(path)), strdup(build_id),
				   copy(fd, size) };
	if (file.path && file.build_id && file.fd >= 0 && vec_push(&k->files, file) == 0) {
		k->bytes += size;
		return;
	}
	free(file.path);
	free(file.build_id);
	fd_close(&file.fd);
}

int file_copies_find(const struct file_copies *k, const char *path, const char *build_id)
{
	const struct file_copy *f = k ? find(k, path, build_id) : NULL;

	return f ? f->fd : -1;
}
