/* io.h: files as the rest of Pitot wants them: whole writes, close-on-exec, outputs that appear only when complete. */
#ifndef PITOT_BASE_IO_H
#define PITOT_BASE_IO_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Writes all bytes, through EINTR and short writes. 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t length);

/* Reads a whole file (also from /proc) of at most `max` bytes. 0, or -errno, or E_LIMIT when longer. */
int io_read_file(const char *path, size_t max, struct strbuf *out);

/* A descriptor above 2, close-on-exec: moves fd out of the standard range if needed. Returns the descriptor or -errno. */
int io_above_standard(int fd);

/*
 * An output file that is written beside its final name and appears there only when complete. With path "-" it
 * is standard output. Bytes are buffered; with `gzip` they are compressed (path ends in .gz).
 */
struct output;

struct output *output_open(const char *path, bool overwrite, struct error *e) MUST_USE;
void output_write(struct output *o, const void *bytes, size_t length);	/* errors are kept until commit */
uint64_t output_bytes(const struct output *o);				/* taken so far, before compression */
bool output_failed(const struct output *o);
int output_commit(struct output **o, struct error *e);	/* flush, fsync-free rename; frees; sets *o NULL */
void output_abort(struct output **o);			/* removes what was written; frees; *o may be NULL */

#endif
