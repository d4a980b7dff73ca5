/* path.h: names of files. */
#ifndef PITOT_BASE_PATH_H
#define PITOT_BASE_PATH_H

#include <stdbool.h>
#include <string.h>

/* What stands behind the last slash: "" behind one at the end. Part of `path`. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Whether a name ends so, and does not consist of the suffix alone. */
static inline bool has_suffix(const char *name, const char *suffix)
{
	size_t length = strlen(name), ending = strlen(suffix);

	return length > ending && strcmp(name + length - ending, suffix) == 0;
}

/*
 * Length of a path from /proc/PID/maps, without what the kernel appends when the file is deleted.
 */
static inline size_t mapped_path_length(const char *path)
{
	static const char deleted[] = " (deleted)";

	return strlen(path) - (has_suffix(path, deleted) ? strlen(deleted) : 0);
}

#endif
