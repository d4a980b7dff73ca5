/*
 * file_copies.h: copies of files that may be gone before they are symbolized: deleted files, files
 * in containers that end, files in folders for temporary files. They are copied into memory,
 * because an open file would keep its file system from being unmounted.
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
	char *path; /* as seen by its process, without " (deleted)" */
	char *build_id; /* hexadecimal; "": none */
	int fd; /* -1: several files without a build id were at this path */
};

struct file_copies {
	VEC(struct file_copy) files;
	uint64_t bytes;
};

/* A struct of zeros is empty. */
void file_copies_release(struct file_copies *k);
/* Copies a file if there is room; ignores failures. */
void file_copies_add(struct file_copies *k, const char *path, const char *build_id, int fd,
		     uint64_t size);
/* Returns the copy with this build id or, if that is "", this path; -1: none. k may be NULL. */
int file_copies_find(const struct file_copies *k, const char *path, const char *build_id);

#endif
