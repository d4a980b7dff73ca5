#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, int code, const char *format, ...)
{
	va_list args;

	if (!e)
		return code;
	e->code = code;
	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return code;
}

int error_errno(struct error *e, int err, const char *format, ...)
{
	va_list args;
	int n;

	if (!e)
		return -err;
	e->code = -err;
	va_start(args, format);
	n = vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(e->text))
		snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %s", error_code_text(-err));
	return -err;
}

int error_prefix(struct error *e, const char *format, ...)
{
	char prefix[ERROR_TEXT_MAX];
	size_t length, rest;
	va_list args;

	if (!e)
		return -1;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix), format, args);
	va_end(args);
	length = MIN(strlen(prefix), sizeof(prefix) - 3); /* ": " and the NUL fit in any case */
	rest = MIN(strlen(e->text), sizeof(e->text) - length - 3);
	memmove(e->text + length + 2, e->text, rest);
	memcpy(e->text, prefix, length);
	memcpy(e->text + length, ": ", 2);
	e->text[length + 2 + rest] = '\0';
	return e->code ? e->code : -1;
}

const char *error_code_text(int code)
{
	const char *text = NULL;

	switch (code) {
	case E_FORMAT:
		return "invalid format";
	case E_VERSION:
		return "written by a newer version of Pitot";
	case E_UNSUPPORTED:
		return "not supported by this build or machine";
	case E_USAGE:
		return "wrong usage";
	case E_LIMIT:
		return "a limit was reached";
	case E_NOT_FILE:
		return "not a regular file";
	case E_LINK:
		return "a symbolic link, which is not followed here";
	case E_FOREIGN:
		return "belongs to another user, or has hard links";
	case E_MOVED:
		return "the folder was moved, and another one is there now";
	case -EMFILE:
		return "too many open files, raise the limit with 'ulimit -n'";
	}
	if (code <= 0 && code > -4096)
		text = strerrordesc_np(-code);
	return text ? text : "unknown error";
}
