/* output.h: output files that appear under their final name only when complete; gzip on request. */
#ifndef PITOT_BASE_OUTPUT_H
#define PITOT_BASE_OUTPUT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

/*
 * An output file that is written beside its final name and appears there only when complete. With
 * path "-" it is standard output. Bytes are buffered, and written in the background; if the path
 * ends in .gz they are compressed.
 */
struct output;

#define OUTPUT_PIECE_BYTES ((size_t)8 << 20) /* what is handed to the kernel at once */

struct output *output_open(const char *path, bool overwrite, struct error *e) MUST_USE;
/* errors are kept until commit */
void output_write(struct output *o, const void *bytes, size_t length);
/* the same for a buffer, which gets other memory: no copy */
void output_take(struct output *o, struct strbuf *s);
/* taken so far, before compression */
uint64_t output_bytes(const struct output *o);
/* known so far: what was written lately may still fail */
bool output_failed(const struct output *o);
/*
 * Flush, fsync-free rename; frees; sets *o NULL. `size` (may be NULL): bytes of the file, of a pipe
 * those written to it.
 */
int output_commit(struct output **o, uint64_t *size, struct error *e);
/* removes what was written; frees; *o may be NULL */
void output_abort(struct output **o);

/*
 * Whether the path is something before one of these suffixes, which are separated by blanks:
 * ".json .json.gz".
 */
bool output_path_ends(const char *path, const char *suffixes);

#endif
