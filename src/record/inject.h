/*
 * inject.h: how libpitot.so gets into the command: which file it is, and the environment that makes
 * the CUDA driver and NVTX load it (schema/settings.h).
 */
#ifndef PITOT_RECORD_INJECT_H
#define PITOT_RECORD_INJECT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

/*
 * Path of libpitot.so, to be freed: $PITOT_LIBRARY; beside the executable; in ../lib relative to
 * it. NULL when it is in none of these places; the error names them.
 */
char *record_find_library(struct error *e) MUST_USE;

/* Path of libpitot-preload.so beside libpitot.so, to be freed; NULL: there is none. */
char *record_find_preload(const char *library) MUST_USE;

/* Name of the injection variable that another tool has set, and its *value; NULL: none. */
const char *record_foreign_injection(const char **value);

/* Fails when another tool has set one of them, unless it is to be replaced. 0 or -EBUSY. */
int record_check_injection(bool force, struct error *e) MUST_USE;

struct record_injection {
	const char *library;
	const char *directory; /* NULL: no recording */
	const char *options; /* NULL: for neither a recording nor logs */
	/* to Perfetto's tracing service: its socket, "1": where it usually is; NULL: not */
	const char *perfetto;
	/* data sources that the program waits for, with commas; NULL: for none */
	const char *startup;
	const char *log_path; /* of gpufl's logs, absolute; NULL: none */
	bool cuda; /* let the driver and NVTX load it */
	const char *preload; /* path of libpitot-preload.so, or NULL: not preloaded */
};

/* Appends "NAME=VALUE" and a NUL for each variable that the command gets; see spawn_prepare. */
void record_environment(const struct record_injection *injection, struct strbuf *out);

#endif
