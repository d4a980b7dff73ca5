/* io.h: files as the rest of Pitot wants them: whole writes, whole reads, close-on-exec. */
#ifndef PITOT_BASE_IO_H
#define PITOT_BASE_IO_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/strbuf.h"

/* Writes all bytes, through EINTR and short writes. 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t length);

/* How many of `length` bytes may be written at `offset` before RLIMIT_FSIZE would raise SIGXFSZ. */
size_t io_allowed(uint64_t offset, size_t length);

/*
 * Appends a whole file (also from /proc) of at most `max` bytes to out. 0, or -errno, or E_LIMIT
 * when longer.
 */
int io_read_file(const char *path, size_t max, struct strbuf *out);

/*
 * Appends a text of /proc, of a longer one the first `max` bytes: NULs between words become blanks;
 * NULs and newlines at its end are dropped. 0 or -errno.
 */
int io_read_text(const char *path, size_t max, struct strbuf *out);

/* What /proc says of a process; false: it is gone. */
struct process_stat {
	char state;
	pid_t parent;
	uint64_t start_ticks; /* since the machine was started */
};
bool io_process_stat(pid_t pid, struct process_stat *out);
/* io_read_text of /proc/PID/name. */
int io_process_text(pid_t pid, const char *name, size_t max, struct strbuf *out);

/* Gives a file another name, without replacing one that has it. 0 or -errno. */
int io_rename_new(const char *from, const char *to);

/*
 * A descriptor above 2, close-on-exec: moves fd out of the standard range if needed. Returns the
 * descriptor, or -errno, and then fd is closed.
 */
int io_above_standard(int fd);

#endif
