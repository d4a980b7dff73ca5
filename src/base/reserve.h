/*
 * reserve.h: memory from the operating system's kernel, without waiting for the allocator's locks.
 */
#ifndef PITOT_BASE_RESERVE_H
#define PITOT_BASE_RESERVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns zeroed memory, allocated when touched, to be released with munmap(); NULL: no memory. */
static inline void *reserve_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Returns a part of the machine's memory, in bytes. */
static inline size_t memory_share(unsigned parts)
{
	return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / parts;
}

#endif
