/* Preloaded: every write to a segment takes SLOW_DISK_MS, as on a disk that is slow or busy. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
	const char *ms = getenv("SLOW_DISK_MS");
	struct timespec t = { 0, (ms ? atol(ms) : 0) * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return real(fd, bytes, count, offset);
}
