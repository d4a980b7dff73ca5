/*
 * Preloaded: a disk that misbehaves. Every write to a segment takes SLOW_DISK_MS. While the file
 * STALL_DISK_WHEN is there the next one takes STALL_DISK_MS, once. While FULL_DISK_WHEN is there
 * writes fail, and FULL_DISK_SAYS is made.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
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

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	static atomic_flag stalled = ATOMIC_FLAG_INIT;
	ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");

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
