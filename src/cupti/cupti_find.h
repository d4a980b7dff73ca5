/*
 * cupti_find.h: finds CUPTI on this machine and opens it with dlopen, for the recorder and for
 * queries without recording.
 */
#ifndef PITOT_CUPTI_CUPTI_FIND_H
#define PITOT_CUPTI_CUPTI_FIND_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Whether this library is usable; if not, appends the reason to *why: "lacks cuptiGetVersion". */
typedef bool cupti_accept(void *handle, void *user, struct strbuf *why);

/*
 * Opens libraries until `accept` returns true: only the path `named`, unless that is NULL or empty;
 * else a library already loaded, then those in the folders of toolkits and Python packages, first
 * with the major version of the driver (from cuDriverGetVersion; 0: unknown). Must not be called on
 * the launch path. Returns 0, or E_UNSUPPORTED with what was tried.
 */
int cupti_find(const char *named, int driver_version, cupti_accept *accept, void *user,
	       struct error *e) MUST_USE;

#endif
