/* io.h: files as the rest of Pitot wants them: whole writes, whole reads, close-on-exec. */
#ifndef PITOT_BASE_IO_H
#define PITOT_BASE_IO_H

#include "base/strbuf.h"

/* Writes all bytes, through EINTR and short writes. 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t length);

/* How many of `length` bytes may be written at `offset` before RLIMIT_FSIZE would raise SIGXFSZ. */
size_t io_allowed(uint64_t offset, size_t length);

/* Appends a whole file (also from /proc) of at most `max` bytes to out. 0, or -errno, or E_LIMIT when longer. */
int io_read_file(const char *path, size_t max, struct strbuf *out);

/* The same of a text of /proc: NULs between words become blanks; at its end neither they nor a newline are kept.
 * Of a longer one there are the first `max` bytes. */
int io_read_text(const char *path, size_t max, struct strbuf *out);

/* A descriptor above 2, close-on-exec: moves fd out of the standard range if needed. Returns the descriptor, or
 * -errno, and then fd is closed. */
int io_above_standard(int fd);

#endif
