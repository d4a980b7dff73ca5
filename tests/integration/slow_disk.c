/*
 * Preloaded: a disk that misbehaves. Every write to a segment takes SLOW_DISK_MS. While the file
 * STALL_DISK_WHEN is there the next one takes STALL_DISK_MS, once. While FULL_DISK_WHEN is there
 * writes fail, and FULL_DISK_SAYS is made. While HANGING_DISK/hangs is there, writes,
 * renames and new folders below the folder HANGING_DISK wait.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(const char *variable)
{
	const char *text = getenv(variable);
	long ms = text ? atol(text) : 0;
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int is_there(const char *variable)
{
	const char *path = getenv(variable);

	return path && access(path, F_OK) == 0;
}

static void hang_below(const char *path)
{
	static const struct timespec pause = { .tv_nsec = 5000000 };
	const char *disk = getenv("HANGING_DISK");
	char file[PATH_MAX];

	if (!disk || strncmp(path, disk, strlen(disk)) != 0)
		return;
	snprintf(file, sizeof(file), "%s/hangs", disk);
	while (access(file, F_OK) == 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void hang_if_below(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	hang_below(path);
}

int rename(const char *from, const char *to)
{
	int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");

	hang_below(to);
	return real(from, to);
}

int mkdir(const char *path, mode_t mode)
{
	int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");

	hang_below(path);
	return real(path, mode);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	static atomic_flag stalled = ATOMIC_FLAG_INIT;
	ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");

	hang_if_below(fd);
	sleep_ms("SLOW_DISK_MS");
	if (is_there("STALL_DISK_WHEN") && !atomic_flag_test_and_set(&stalled))
		sleep_ms("STALL_DISK_MS");
	if (is_there("FULL_DISK_WHEN")) {
		close(open(getenv("FULL_DISK_SAYS"), O_CREAT | O_WRONLY, 0600));
		errno = ENOSPC;
		return -1;
	}
	return real(fd, bytes, count, offset);
}
