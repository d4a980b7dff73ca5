/* path.h: names of files. */
#ifndef PITOT_BASE_PATH_H
#define PITOT_BASE_PATH_H

#include <string.h>

/* What stands behind the last slash: "" behind one at the end. Part of `path`. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
