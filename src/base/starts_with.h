/*
 * starts_with.h: whether a NUL-terminated text begins with another.
 */
#ifndef PITOT_BASE_STARTS_WITH_H
#define PITOT_BASE_STARTS_WITH_H

#include <stdbool.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

#endif
