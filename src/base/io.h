/* io.h: file helpers: regular files, complete writes, whole-file reads, /proc. */
#ifndef PITOT_BASE_IO_H
#define PITOT_BASE_IO_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/strbuf.h"

/* Writes all bytes, retrying after EINTR and short writes. Returns 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t length);

/* Reads up to `length` bytes at an offset; returns how many there are, also before an error. */
size_t io_read_at(int fd, uint64_t offset, void *to, size_t length);

/* Returns how many of `length` bytes RLIMIT_FSIZE allows at `offset`; more would raise SIGXFSZ. */
size_t io_allowed(uint64_t offset, size_t length);

/*
 * Opens a regular file for reading; files of /proc and /sys are regular, too. Never waits for a
 * FIFO or a device. The path is one that the user or the system has named: its links are followed.
 * What is in a folder of others is opened with folder.h. `st` may be NULL. Returns a descriptor
 * (close-on-exec, above stderr), -errno, or E_NOT_FILE.
 */
int io_open_file(const char *path, struct stat *st) MUST_USE;
/*
 * For other calls of open(2): takes its result, also a failure, and returns the same as
 * io_open_file(). Fills *st.
 */
#define IO_SAFE_FLAGS (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
int io_check_file(int fd, struct stat *st) MUST_USE;

/*
 * Appends a whole regular file of at most `max` bytes to out. Returns 0, -errno, E_NOT_FILE, or
 * E_LIMIT when the file is longer.
 */
int io_read_file(const char *path, size_t max, struct strbuf *out);
/*
 * Same, for what the user wrote as an argument: also a pipe, as in <(command), and "-" for stdin.
 * Waits for its writer.
 */
int io_read_stream(const char *path, size_t max, struct strbuf *out);
/* Same, from an open descriptor. */
int io_read_to_end(int fd, size_t max, struct strbuf *out);

/*
 * Appends the first `max` bytes of a text file of /proc. NULs between words become blanks; trailing
 * NULs and newlines are dropped. Returns 0 or -errno.
 */
int io_read_text(const char *path, size_t max, struct strbuf *out);

/* /proc/PID/stat of a process */
struct process_stat {
	char state;
	pid_t parent, session;
	uint64_t start_ticks; /* clock ticks since boot */
	uint64_t cpu_ticks; /* CPU time of all threads */
};
/* Returns false when the process is gone. */
bool io_process_stat(pid_t pid, struct process_stat *out);
/* Same as io_read_text() of /proc/PID/<name>. */
int io_process_text(pid_t pid, const char *name, size_t max, struct strbuf *out);
/* Whether a debugger or a signal has stopped it: then it cannot show progress. */
bool io_process_is_stopped(pid_t pid);

/* Like renameat(2), without replacing an existing file. Returns 0 or -errno. */
int io_rename_new(int from_folder, const char *from, int to_folder, const char *to);

/*
 * Makes fd close-on-exec and moves it above stderr (2) if needed. Returns the descriptor, or -errno
 * after closing fd.
 */
int io_above_standard(int fd);

#endif
