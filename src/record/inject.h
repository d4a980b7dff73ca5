/*
 * inject.h: injection of libpitot.so into the command: finds the library, and makes the environment
 * in which the libraries of GPUs load it (vendor/vendors.h, schema/settings.h).
 */
#ifndef PITOT_RECORD_INJECT_H
#define PITOT_RECORD_INJECT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

/*
 * Finds libpitot.so: $PITOT_LIBRARY, beside the executable, in ../lib relative to it. Returns its
 * path, which the caller frees, or NULL if it is in none of these places; the error names them.
 */
char *record_find_library(struct error *e) MUST_USE;

/* Returns the path of libpitot-preload.so beside libpitot.so, which the caller frees, or NULL. */
char *record_find_preload(const char *library) MUST_USE;

/*
 * Replaces *path by one that LD_PRELOAD can have, where blanks and colons separate paths and dollar
 * signs are expanded: if it has any of these, a link in a folder of our own. The link stays, and
 * the next recording uses it again: processes that outlive the recording may still pass its path
 * on, and where it is removed, somebody else could put another library in its place. Returns 0 or a
 * negative errno.
 */
int record_link_preload(char **path, struct error *e) MUST_USE;

/* Returns the injection variable that another tool has set, and its *value; NULL: none. */
const char *record_foreign_injection(const char **value);

/* Returns a variable with which the user has set how core files of GPUs are written; NULL: none. */
const char *record_own_core_variable(void);

struct record_injection {
	const char *library;
	const char *directory; /* NULL: no recording */
	const char *launcher; /* of segment_server_text(); NULL: none */
	const char *options; /* PITOT_OPTIONS; NULL: neither a recording nor logs */
	/* socket of Perfetto's tracing service, "1": the usual one; NULL: not a producer */
	const char *perfetto;
	/* comma-separated data sources that the program waits for; NULL: none */
	const char *startup;
	const char *log_path; /* absolute folder of gpufl's logs; NULL: none */
	const char *core_folder; /* absolute, for core files of GPUs; NULL: none */
	bool gpu; /* the vendors' libraries load it (struct vendor) */
	bool prepared; /* the processes can be attached to */
	const char *preload; /* path of libpitot-preload.so, or NULL: not preloaded */
};

/* Appends "NAME=VALUE" and a NUL for each variable of the command; see spawn_prepare. */
void record_environment(const struct record_injection *injection, struct strbuf *out);

#endif
