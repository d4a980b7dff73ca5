/* output.h: output files that appear under their final name only when complete; gzip on request. */
#ifndef PITOT_BASE_OUTPUT_H
#define PITOT_BASE_OUTPUT_H

#include <stdbool.h>

#include "base/error.h"

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
