#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)

static int check_name(int folder, const char *name)
{
	if (folder < 0)
		return folder;
	return !*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..") ? -EINVAL
											: 0;
}

static int refuse(int fd, int err)
{
	close(fd);
	return err;
}

static int check_folder(int fd, enum folder_owner owner)
{
	struct stat st;

	fd = fd < 0 ? -errno : io_above_standard(fd);
	if (fd < 0 || owner == FOLDER_ANY)
		return fd;
	if (fstat(fd, &st) < 0)
		return refuse(fd, -errno);
	return st.st_uid == geteuid() ? fd : refuse(fd, E_FOREIGN);
}

int folder_open(const char *path, enum folder_owner owner)
{
	return check_folder(open(path, FOLDER_FLAGS), owner);
}

int folder_enter(int folder, const char *name, enum folder_owner owner)
{
	int err = check_name(folder, name);

	return err < 0 ? err : check_folder(openat(folder, name, FOLDER_FLAGS | O_NOFOLLOW), owner);
}

static bool is_allowed(int folder, const struct stat *file, enum folder_owner owner)
{
	struct stat st;

	if (owner == FOLDER_OWN)
		return file->st_uid == geteuid() && file->st_nlink == 1;
	return file->st_nlink == 1 || (fstat(folder, &st) == 0 && st.st_uid == file->st_uid);
}

int folder_identify(int folder, struct folder_id *id)
{
	struct stat st;

	if (folder < 0)
		return folder;
	if (fstat(folder, &st) < 0)
		return -errno;
	*id = (struct folder_id){ st.st_dev, st.st_ino };
	return 0;
}

int folder_open_known(const char *path, const struct folder_id *id)
{
	int folder = folder_open(path, FOLDER_ANY);
	struct folder_id found;
	int err = folder_identify(folder, &found);

	if (err < 0)
		return folder < 0 ? folder : refuse(folder, err);
	if (id->inode && (id->device != found.device || id->inode != found.inode))
		return refuse(folder, E_MOVED);
	return folder;
}

bool folder_is_own(int folder)
{
	struct stat st;

	return folder >= 0 && fstat(folder, &st) == 0 && st.st_uid == geteuid();
}

int folder_open_file(int folder, const char *name, int flags, enum folder_owner owner)
{
	int fd = check_name(folder, name);
	struct stat st;

	if (fd < 0)
		return fd;
	fd = io_check_file(openat(folder, name, flags | IO_SAFE_FLAGS | O_NOFOLLOW), &st);
	if (fd == -ELOOP)
		return E_LINK;
	return fd < 0 || is_allowed(folder, &st, owner) ? fd : refuse(fd, E_FOREIGN);
}

int folder_create_file(int folder, const char *name)
{
	int fd = check_name(folder, name);

	if (fd < 0)
		return fd;
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : io_above_standard(fd);
}

int folder_read_file(int folder, const char *name, size_t max, struct strbuf *out)
{
	_cleanup_close_ int fd = folder_open_file(folder, name, O_RDONLY, FOLDER_ANY);

	return fd < 0 ? fd : io_read_to_end(fd, max, out);
}

int folder_write_file(int folder, const char *name, const struct strbuf *text, bool sync)
{
	char part[NAME_MAX + 1];
	int err = check_name(folder, name), fd;

	if (err < 0)
		return err;
	if (snprintf(part, sizeof(part), "%s.%d", name, (int)getpid()) > NAME_MAX)
		return -ENAMETOOLONG;
	unlinkat(folder, part, 0); /* left by a process that was killed at this point */
	fd = text->failed ? -ENOMEM : folder_create_file(folder, part);
	if (fd < 0)
		return fd;
	err = io_allowed(0, text->length) < text->length
		      ? -EFBIG
		      : io_write_all(fd, text->data, text->length);
	if (!err && sync && fsync(fd) < 0)
		err = -errno;
	if (close(fd) < 0 && !err)
		err = -errno;
	if (!err && renameat(folder, part, folder, name) < 0)
		err = -errno;
	if (err)
		unlinkat(folder, part, 0);
	return err;
}

int folder_sync(int folder)
{
	_cleanup_close_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int folder_stat(int folder, const char *name, struct stat *out)
{
	int err = check_name(folder, name);

	return err == 0 && fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : err;
}

int folder_rename_new(int folder, const char *name, int to_folder, const char *to_name)
{
	int err = check_name(folder, name);

	err = err < 0 ? err : check_name(to_folder, to_name);
	return err < 0 ? err : io_rename_new(folder, name, to_folder, to_name);
}

int folder_exchange(int folder, const char *name, int other_folder, const char *other)
{
	int err = check_name(folder, name);

	err = err < 0 ? err : check_name(other_folder, other);
	if (err == 0 && renameat2(folder, name, other_folder, other, RENAME_EXCHANGE) < 0)
		err = -errno;
	return err;
}

DIR *folder_list(int folder)
{
	int fd = folder < 0 ? folder : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list;

	if (fd >= 0)
		fd = io_above_standard(fd);
	else if (folder >= 0)
		fd = -errno;
	list = fd < 0 ? NULL : fdopendir(fd);
	if (fd < 0)
		errno = -fd;
	else if (!list)
		close(fd);
	return list;
}

DIR *folder_list_process(pid_t pid, const char *name)
{
	_cleanup_close_ int folder = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	folder = folder_open(path, FOLDER_ANY);
	return folder_list(folder);
}

const char *folder_next(DIR *list)
{
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return entry->d_name;
	return NULL;
}
