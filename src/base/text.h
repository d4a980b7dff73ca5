/*
 * text.h: small questions about NUL-terminated texts.
 */
#ifndef PITOT_BASE_TEXT_H
#define PITOT_BASE_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

#endif
