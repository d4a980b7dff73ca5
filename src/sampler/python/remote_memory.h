/*
 * remote_memory.h: reads the memory of another process through a cache of 1 KiB lines, each of
 * which is read once. The lines that were used the last time are read in advance, by a single
 * system call.
 */
#ifndef PITOT_SAMPLER_PYTHON_REMOTE_MEMORY_H
#define PITOT_SAMPLER_PYTHON_REMOTE_MEMORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

#define REMOTE_LINE 1024u /* bytes; divides the page size */
#define REMOTE_LINES 256u

struct remote_memory {
	pid_t pid;
	uint64_t address[REMOTE_LINES]; /* 0: the slot is empty */
	bool used[REMOTE_LINES]; /* since remote_memory_begin() */
	uint64_t lowest; /* address of the lowest line that was read last */
	unsigned ahead; /* number of lines that were read last */
	uint8_t bytes[REMOTE_LINES][REMOTE_LINE];
};

/* Invalidates the cache. The struct must be all zeros before the first call. */
void remote_memory_begin(struct remote_memory *m, pid_t pid);
/* Implements python_memory.read (stack/python/python_walk.h); context is the struct. */
bool remote_memory_read(void *context, uintptr_t address, void *out, size_t size);

#endif
