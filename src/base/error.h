/*
 * error.h: error codes and messages.
 *
 * Functions return 0 or a count on success and a negative code on failure: a negated errno or one
 * of the codes below. The message goes into an optional `struct error`, outermost context first:
 * "cannot open recording 'x': segment '7.0.pit': checksum of block 3 does not match".
 */
#ifndef PITOT_BASE_ERROR_H
#define PITOT_BASE_ERROR_H

#include "base/compiler.h"

enum {
	E_FORMAT = -2001, /* bytes that violate the file format */
	E_VERSION = -2002, /* written by a newer, incompatible version */
	E_UNSUPPORTED = -2003, /* this build or machine cannot do it */
	E_USAGE = -2004, /* the caller's arguments are wrong */
	E_LIMIT = -2005, /* a limit was reached */
	E_NOT_FILE = -2006, /* a FIFO, a device or a socket in place of a file */
	E_LINK = -2007, /* a symbolic link where none is followed */
	E_FOREIGN = -2008, /* a file or folder that others own or have linked */
	E_MOVED = -2009, /* another folder is at the path of one that was opened */
};

#define ERROR_TEXT_MAX 1024

struct error {
	int code; /* 0 while nothing has failed */
	char text[ERROR_TEXT_MAX]; /* always NUL-terminated; truncated when too long */
};

/*
 * Sets code and text. The format describes the problem in lower case, without a full stop. e may be
 * NULL. Returns code.
 */
int error_set(struct error *e, int code, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Like error_set(), and appends ": " and the system's text for `err`, a positive errno. Returns
 * -err.
 */
int error_errno(struct error *e, int err, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Prepends "<format>: " to the text: what was being done when the error occurred. Returns e's code,
 * or -1.
 */
int error_prefix(struct error *e, const char *format, ...) PRINTF_LIKE(2, 3);

/* Returns a short text for a code that came without a struct error. Never NULL; static storage. */
const char *error_code_text(int code);

#endif
