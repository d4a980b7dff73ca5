/*
 * file_copies.h: copies of files that may be gone when their functions are named: deleted files,
 * files in containers that end, files in folders for temporary files. They are copies, in memory,
 * because an open file keeps its file system from being unmounted.
 *
 * Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_FILE_COPIES_H
#define PITOT_SYMBOL_FILE_COPIES_H

#include "base/vec.h"

#define FILE_COPY_BYTES_MAX ((uint64_t)64 << 20)
#define FILE_COPIES_BYTES_MAX ((uint64_t)128 << 20)
#define FILE_COPIES_MAX 64u

struct file_copy {
	char *path; /* as its process saw it, without " (deleted)" */
	char *build_id; /* hexadecimal; "" if it has none */
	int fd; /* -1: of another file at this path, without a build id either */
};

struct file_copies {
	VEC(struct file_copy) files;
	uint64_t bytes;
};

/* Zeros are an empty one. */
void file_copies_release(struct file_copies *k);
/* Copies a file, if there is room; what fails is as if it had not been tried. */
void file_copies_add(struct file_copies *k, const char *path, const char *build_id, int fd,
		    uint64_t size);
/*
 * The copy of the file with this build id, or, if that is "", at this path; -1: none. k may be
 * NULL.
 */
int file_copies_find(const struct file_copies *k, const char *path, const char *build_id);

#endif
