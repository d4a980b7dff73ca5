/* upload_key.h: the key of gpufl's backend, which is in no command line. */
#ifndef PITOT_UPLOAD_UPLOAD_KEY_H
#define PITOT_UPLOAD_UPLOAD_KEY_H

#include "base/error.h"
#include "base/strbuf.h"

/*
 * Reads the key, without blanks and newlines around it, from a file, - for standard input. NULL:
 * from PITOT_API_KEY or GPUFL_API_KEY; *key is empty if there is none. Returns 0 or a negative
 * code.
 */
int upload_key_read(const char *path, struct strbuf *key, struct error *e) MUST_USE;
void upload_key_forget(struct strbuf *key);

#endif
