/* output.h: output files that appear under their final name only when complete. */
#ifndef PITOT_BASE_OUTPUT_H
#define PITOT_BASE_OUTPUT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/output_pump.h"
#include "base/strbuf.h"

/*
 * Output to a temporary file beside the final path; "-" is standard output. Bytes are buffered and
 * written in the background. A path that ends in .gz is compressed.
 */
struct output;


/*
 * Sets the permissions of all files that are created from now on, regardless of the umask. At first
 * they are 0600: what is made from a recording contains command lines and paths.
 */
void output_set_mode(unsigned mode);

struct output *output_open(const char *path, bool overwrite, struct error *e) MUST_USE;
/* errors are reported by output_commit() */
void output_write(struct output *o, const void *bytes, size_t length);
/* Hands a buffer over without copying; *s gets other memory and is empty. */
void output_move(struct output *o, struct strbuf *s);
/* bytes accepted so far, before compression */
uint64_t output_bytes(const struct output *o);
/* Whether a write has failed so far; recent writes may still be pending. */
bool output_failed(const struct output *o);
/*
 * Flushes, renames (without fsync), frees and sets *o to NULL. *size (may be NULL) is the size of
 * the file, or the bytes written to a pipe.
 */
int output_commit(struct output **o, uint64_t *size, struct error *e);
/* Removes the temporary file and frees. *o may be NULL. */
void output_abort(struct output **o);

/*
 * Whether the path ends with one of these blank-separated suffixes, and is longer: ".json
 * .json.gz".
 */
bool output_path_ends(const char *path, const char *suffixes);

#endif
