/*
 * globs.h: patterns of names, with '*' and '?' alone; and lists of them with commas between.
 * Nothing is allocated.
 */
#ifndef PITOT_BASE_GLOBS_H
#define PITOT_BASE_GLOBS_H

#include <stdbool.h>
#include <stddef.h>

bool glob_matches(const char *pattern, size_t length, const char *text);

/*
 * The next item of a list, and its length, behind which *list is then; NULL: there is none. Items
 * may be empty.
 */
const char *globs_next(const char **list, size_t *length);

/* Whether one of the list matches. */
bool globs_match(const char *list, const char *text);

#endif
