/*
 * kept_files.h: copies of files that will perhaps be gone when their functions are to be named: deleted ones, those in
 * containers that end, those in folders for temporary files. Copies, in memory, because an open file keeps its file
 * system from being unmounted.
 *
 * Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_FILE_COPIES_H
#define PITOT_SYMBOL_FILE_COPIES_H

#include "base/vec.h"

#define KEPT_FILE_BYTES_MAX ((uint64_t)64 << 20)
#define KEPT_BYTES_MAX ((uint64_t)128 << 20)
#define KEPT_FILES_MAX 64u

struct kept_file {
	char *path; /* as its process saw it, without " (deleted)" */
	char *build_id; /* hexadecimal; "" if it has none */
	int fd; /* -1: of another file at this path, without a build id either */
};

struct kept_files {
	VEC(struct kept_file) files;
	uint64_t bytes;
};

/* Zeros are an empty one. */
void kept_files_release(struct kept_files *k);
/* Copies a file, if there is room; what fails is as if it had not been tried. */
void kept_files_add(struct kept_files *k, const char *path, const char *build_id, int fd,
		    uint64_t size);
/* The copy of the file with this build id, or, if that is "", at this path; -1: none. k may be NULL. */
int kept_files_find(const struct kept_files *k, const char *path, const char *build_id);

#endif
