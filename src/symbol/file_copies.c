#include "symbol/file_copies.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define DELETED " (deleted)"

void kept_files_release(struct kept_files *k)
{
	for (size_t i = 0; i < k->files.count; i++) {
		if (k->files.data[i].fd >= 0)
			close(k->files.data[i].fd);
		free(k->files.data[i].path);
		free(k->files.data[i].build_id);
	}
	vec_release(&k->files);
	*k = (struct kept_files){ .bytes = 0 };
}

static size_t path_length(const char *path)
{
	size_t length = strlen(path), end = strlen(DELETED);

	return length > end && !strcmp(path + length - end, DELETED) ? length - end : length;
}

static bool is_of(const struct kept_file *f, const char *path, size_t length, const char *build_id)
{
	if (strcmp(f->build_id, build_id) != 0)
		return false;
	return *build_id || (strlen(f->path) == length && !memcmp(f->path, path, length));
}

static struct kept_file *find(const struct kept_files *k, const char *path, const char *build_id)
{
	size_t length = path_length(path);

	for (size_t i = 0; i < k->files.count; i++)
		if (is_of(&k->files.data[i], path, length, build_id))
			return &k->files.data[i];
	return NULL;
}

/* A descriptor of a copy, or -1. */
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

void kept_files_add(struct kept_files *k, const char *path, const char *build_id, int fd,
		    uint64_t size)
{
	struct kept_file *known = find(k, path, build_id), file;

	if (known) {
		if (!*build_id && known->fd >= 0) {
			close(known->fd);
			known->fd = -1;
		}
		return;
	}
	if (k->files.count >= KEPT_FILES_MAX || size > KEPT_FILE_BYTES_MAX ||
	    size > KEPT_BYTES_MAX - k->bytes)
		return;
	file = (struct kept_file){ strndup(path, path_length(path)), strdup(build_id),
				   copy(fd, size) };
	if (file.path && file.build_id && file.fd >= 0 && vec_push(&k->files, file) == 0) {
		k->bytes += size;
		return;
	}
	free(file.path);
	free(file.build_id);
	if (file.fd >= 0)
		close(file.fd);
}

int kept_files_find(const struct kept_files *k, const char *path, const char *build_id)
{
	const struct kept_file *f = k ? find(k, path, build_id) : NULL;

	return f ? f->fd : -1;
}
