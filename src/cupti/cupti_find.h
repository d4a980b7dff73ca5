/*
 * cupti_find.h: where CUPTI is on this machine. Opens it with dlopen, for the recorder and for what
 * asks CUPTI without recording.
 */
#ifndef PITOT_CUPTI_CUPTI_FIND_H
#define PITOT_CUPTI_CUPTI_FIND_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Whether this library will do; else why not, appended to *why: "lacks cuptiGetVersion". */
typedef bool cupti_accept(void *handle, void *user, struct strbuf *why);

/*
 * Hands libraries to `accept` until one will do: only `named`, a path, unless that is NULL or
 * empty; else one already loaded in the process, then the places in which toolkits and Python
 * packages keep it, preferring the major version of the driver (as cuDriverGetVersion says it;
 * 0: not known). Must not be called on the launch path. 0, or E_UNSUPPORTED with the reason (what
 * was tried).
 */
int cupti_find(const char *named, int driver_version, cupti_accept *accept, void *user,
	       struct error *e) MUST_USE;

#endif
