/*
 * globs.h: matches names against patterns with '*' and '?', and against comma-separated lists of
 * patterns. Allocates nothing.
 */
#ifndef PITOT_BASE_GLOBS_H
#define PITOT_BASE_GLOBS_H

#include <stdbool.h>
#include <stddef.h>

bool glob_matches(const char *pattern, size_t length, const char *text);

/*
 * Returns the next item of a list and its length, and advances *list past it; NULL at the end.
 * Items may be empty.
 */
const char *globs_next(const char **list, size_t *length);

/* Whether any pattern of the list matches. */
bool globs_match(const char *list, const char *text);

#endif
