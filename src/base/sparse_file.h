/*
 * sparse_file.h: a file in memory as if it were mapped, of which only what is asked for is read. A
 * mapping would end us when the file shrinks.
 */
#ifndef PITOT_BASE_SPARSE_FILE_H
#define PITOT_BASE_SPARSE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct sparse_file {
	/* those that were not asked for are 0, or not there any more: sparse_file_keep() */
	uint8_t *bytes;
	uint64_t size;
	uint64_t kept, kept_end; /* offsets of what is still there: whole pages */
	uint64_t *chunks; /* a bit for each: it has been read */
	uint64_t read_bytes; /* in all */
	int fd; /* -1: closed */
};

/* Takes over the descriptor in any case. 0, or -ENOMEM, also for a file of more than 1 TiB. */
int sparse_file_open(struct sparse_file *f, int fd, uint64_t size) MUST_USE;
void sparse_file_close(struct sparse_file *f);

/*
 * Reads what of these bytes has not been read. false: they are not all in the file, or not there
 * any more.
 */
bool sparse_file_need(struct sparse_file *f, uint64_t offset, uint64_t size);

/* Gives the address space of all but these bytes back. */
void sparse_file_keep(struct sparse_file *f, uint64_t offset, uint64_t size);

#endif
