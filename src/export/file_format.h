/*
 * file_format.h: what the formats of `pitot export` and of `pitot flame` have in common: names,
 * suffixes, and how they are found and listed.
 */
#ifndef PITOT_EXPORT_FILE_FORMAT_H
#define PITOT_EXPORT_FILE_FORMAT_H

#include "base/strbuf.h"

struct file_format {
	const char *name; /* of --format */
	const char *suffixes; /* of file names, separated by blanks; the first is the usual one */
	const char *description; /* one line, lower case, no full stop */
};

/*
 * A table is an array of structs that begin with a struct file_format; the last has no name. `size`
 * is sizeof one of them. Finds a format by the end of a file's name: the first whose suffix fits.
 * NULL when there is none.
 */
const void *file_format_by_path(const void *table, size_t size, const char *path);
/* Appends "perfetto (.perfetto-trace), json (.json)". */
void file_formats_list(const void *table, size_t size, struct strbuf *out);

#endif
