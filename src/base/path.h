/* path.h: parts of file names. */
#ifndef PITOT_BASE_PATH_H
#define PITOT_BASE_PATH_H

#include <stdbool.h>
#include <string.h>

/* Returns the part of `path` after the last slash, which is "" if the path ends with one. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Whether a name ends with the suffix and is longer than it. */
static inline bool has_suffix(const char *name, const char *suffix)
{
	size_t length = strlen(name), ending = strlen(suffix);

	return length > ending && strcmp(name + length - ending, suffix) == 0;
}

/* Returns the length of a path from /proc/PID/maps, excluding the kernel's " (deleted)". */
static inline size_t mapped_path_length(const char *path)
{
	static const char deleted[] = " (deleted)";

	return strlen(path) - (has_suffix(path, deleted) ? strlen(deleted) : 0);
}

#endif
