#include "base/globs.h"

#include <string.h>

bool glob_matches(const char *pattern, size_t length, const char *text)
{
	const char *end = pattern + length, *star = NULL, *retry = NULL;

	while (*text) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			retry = text;
		} else if (pattern < end && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

const char *globs_next(const char **list, size_t *length)
{
	const char *item = **list ? *list : NULL;

	if (!item)
		return NULL;
	*length = strcspn(item, ",");
	*list += *length + (item[*length] == ',');
	return item;
}

bool globs_match(const char *list, const char *text)
{
	const char *item;
	size_t length;

	while ((item = globs_next(&list, &length)))
		if (glob_matches(item, length, text))
			return true;
	return false;
}
