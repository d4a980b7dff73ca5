/*
 * error.h: how a function that fails says why.
 *
 * Functions return 0 or a count on success and a negative code on failure: a negated errno, or one
 * of the codes below. The detail goes into an optional `struct error`, outermost statement first:
 * "cannot open recording 'x': segment '7.0.pit': checksum of block 3 does not match".
 */
#ifndef PITOT_BASE_ERROR_H
#define PITOT_BASE_ERROR_H

#include "base/compiler.h"

enum {
	E_FORMAT = -2001,	/* bytes that break the format */
	E_VERSION = -2002,	/* written by a newer version that we cannot read */
	E_UNSUPPORTED = -2003,	/* this build or machine cannot do it */
	E_USAGE = -2004,	/* the caller's arguments are wrong */
	E_LIMIT = -2005,	/* a ceiling was reached */
};

#define ERROR_TEXT_MAX 1024

struct error {
	int code;			/* 0 while nothing has failed */
	char text[ERROR_TEXT_MAX];	/* always terminated; cut at the end when too long */
};

/*
 * Sets code and text (format describes what is wrong, lower case, no full stop). e may be NULL.
 * Returns code.
 */
int error_set(struct error *e, int code, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * As error_set, with ": " and the system's text for `err` (an errno, positive) appended. Returns
 * -err.
 */
int error_errno(struct error *e, int err, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Puts "<format>: " before the text that is there: what was being done when it failed. Returns e's
 * code, or -1.
 */
int error_prefix(struct error *e, const char *format, ...) PRINTF_LIKE(2, 3);

/* Short text for a bare code, for when there is no struct error. Never NULL. Static storage. */
const char *error_code_text(int code);

#endif
