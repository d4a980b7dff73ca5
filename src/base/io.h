/* io.h: file helpers: complete writes, whole-file reads, /proc, close-on-exec descriptors. */
#ifndef PITOT_BASE_IO_H
#define PITOT_BASE_IO_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/strbuf.h"

/* Writes all bytes, retrying after EINTR and short writes. Returns 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t length);

/* Returns how many of `length` bytes RLIMIT_FSIZE allows at `offset`; more would raise SIGXFSZ. */
size_t io_allowed(uint64_t offset, size_t length);

/*
 * Appends a whole file (also of /proc) of at most `max` bytes to out. Returns 0, -errno, or E_LIMIT
 * when the file is longer.
 */
int io_read_file(const char *path, size_t max, struct strbuf *out);

/*
 * Appends the first `max` bytes of a text file of /proc. NULs between words become blanks; trailing
 * NULs and newlines are dropped. Returns 0 or -errno.
 */
int io_read_text(const char *path, size_t max, struct strbuf *out);

/* /proc/PID/stat of a process */
struct process_stat {
	char state;
	pid_t parent;
	uint64_t start_ticks; /* clock ticks since boot */
};
/* Returns false when the process is gone. */
bool io_process_stat(pid_t pid, struct process_stat *out);
/* Same as io_read_text() of /proc/PID/<name>. */
int io_process_text(pid_t pid, const char *name, size_t max, struct strbuf *out);

/* Renames a file without replacing an existing one. Returns 0 or -errno. */
int io_rename_new(const char *from, const char *to);

/*
 * Makes fd close-on-exec and moves it above stderr (2) if needed. Returns the descriptor, or -errno
 * after closing fd.
 */
int io_above_standard(int fd);

#endif
