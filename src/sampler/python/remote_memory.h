/*
 * remote_memory.h: the memory of another process, read in lines of 1 KiB, of which each is read
 * once. The lines that were needed the last time are read at once, by a single system call.
 */
#ifndef PITOT_SAMPLER_PYTHON_REMOTE_MEMORY_H
#define PITOT_SAMPLER_PYTHON_REMOTE_MEMORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

#define REMOTE_LINE 1024u /* bytes; a page is a multiple */
#define REMOTE_LINES 256u

struct remote_memory {
	pid_t pid;
	uint64_t address[REMOTE_LINES]; /* 0: the line is not there */
	bool used[REMOTE_LINES]; /* since remote_memory_begin() */
	uint8_t bytes[REMOTE_LINES][REMOTE_LINE];
};

/* Forgets what was read before. The struct is all zeros at first. */
void remote_memory_begin(struct remote_memory *m, pid_t pid);
/* As python_memory.read (stack/python/python_walk.h); context is the struct. */
bool remote_memory_read(void *context, uintptr_t address, void *out, size_t size);

#endif
