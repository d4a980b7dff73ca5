/*
 * debuginfod.h: debug files from the servers in $DEBUGINFOD_URLS, by build id, through elfutils'
 * libdebuginfod, which is opened at run time and keeps what it fetched in its cache.
 */
#ifndef PITOT_SYMBOL_DEBUGINFOD_H
#define PITOT_SYMBOL_DEBUGINFOD_H

#include "base/error.h"
#include "base/strbuf.h"

struct debuginfod;

/* 0 and *out; E_UNSUPPORTED without a server or the library, and e says what to do; -ENOMEM. */
int debuginfod_open(struct debuginfod **out, struct error *e) MUST_USE;
void debuginfod_free(struct debuginfod *d);
/*
 * Fetches the debug file of a build id (hexadecimal). 0, with the path of the cached file appended
 * to *path; -ENOENT when no server has it; -ENOMEM. After two requests in a row without an answer
 * no further request is made.
 */
int debuginfod_fetch(struct debuginfod *d, const char *build_id, struct strbuf *path) MUST_USE;
/* The cause of the last request that failed, a missing file excluded; "": no request failed. */
const char *debuginfod_problem(const struct debuginfod *d);

#endif
