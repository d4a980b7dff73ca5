/*
 * file_format.h: properties shared by the formats of `pitot export` and `pitot flame` (name and
 * file suffixes), and their lookup and listing.
 */
#ifndef PITOT_EXPORT_FILE_FORMAT_H
#define PITOT_EXPORT_FILE_FORMAT_H

#include "base/strbuf.h"

struct file_format {
	const char *name; /* value of --format */
	/* file name suffixes, separated by blanks; the first is the preferred one */
	const char *suffixes;
};

/*
 * Finds the first format with a suffix that fits the file name; NULL if there is none. `table` is
 * an array of structs of `size` bytes that begin with a struct file_format; the last has no name.
 */
const void *file_format_by_path(const void *table, size_t size, const char *path);
/* Appends a list such as "perfetto (.perfetto-trace), json (.json)". */
void file_formats_list(const void *table, size_t size, struct strbuf *out);

#endif
