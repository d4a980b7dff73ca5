/* starts_with.h: whether a NUL-terminated text begins with another. */
#ifndef PITOT_BASE_STARTS_WITH_H
#define PITOT_BASE_STARTS_WITH_H

#include <stdbool.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether it begins with one of a list that ends with NULL. */
static inline bool starts_with_one(const char *text, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (starts_with(text, *prefixes))
			return true;
	return false;
}

#endif
