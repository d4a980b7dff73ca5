/*
 * sparse_file.h: a file in memory of which only the requested parts are read. Unlike with a
 * mapping, no SIGBUS is raised when the file shrinks.
 */
#ifndef PITOT_BASE_SPARSE_FILE_H
#define PITOT_BASE_SPARSE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct sparse_file {
	/* bytes not requested are 0; bytes outside of kept..kept_end are unmapped */
	uint8_t *bytes;
	uint64_t size;
	uint64_t kept, kept_end; /* offsets of the address range still mapped, whole pages */
	uint64_t *chunks; /* one bit per chunk: it was read */
	uint64_t read_bytes; /* bytes read in total */
	int fd; /* -1: closed */
};

/* Takes ownership of fd, even on failure. Returns 0, or -ENOMEM, also for files above 1 TiB. */
int sparse_file_open(struct sparse_file *f, int fd, uint64_t size) MUST_USE;
void sparse_file_close(struct sparse_file *f);
/* Closes the descriptor; what was read remains. */
void sparse_file_detach(struct sparse_file *f);

/*
 * Reads those of the bytes that were not read before. Returns false when some are beyond the end of
 * the file or no longer mapped.
 */
bool sparse_file_load(struct sparse_file *f, uint64_t offset, uint64_t size);

/* Unmaps everything but these bytes. */
void sparse_file_trim(struct sparse_file *f, uint64_t offset, uint64_t size);

#endif
