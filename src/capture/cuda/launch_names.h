/*
 * launch_names.h: the last launches of each thread, with the names of their kernels, in memory that
 * outlives the process. CUPTI has no record of a kernel that has not ended, so recover/ reads here
 * what was launched.
 *
 * A launch is one store of 8 bytes into its ring: the correlation id, and the number of the
 * kernel's name. A name's number is its place in a table, which a hash of its address leads to. The
 * first launch with a name copies it. When a module has been unloaded an address may mean another
 * name, and gets another number. Numbers are not reused: when the table is full, further names are
 * unknown.
 */
#ifndef PITOT_CAPTURE_CUDA_LAUNCH_NAMES_H
#define PITOT_CAPTURE_CUDA_LAUNCH_NAMES_H

#include "capture/core/ring.h"
#include "capture/core/shared_area.h"
#include "format/writer.h"

/* Addresses of names, with the number of modules that had been unloaded in the upper 16 bits. */
extern atomic_uint_fast64_t launch_names[AREA_LAUNCH_NAMES_MAX];
extern atomic_uint_fast64_t launch_names_modules; /* that number, there; 0: no names any more */

/* Finds or makes the number of a name that is not at its first place; 0: there is no room. */
unsigned launch_names_find(uint64_t key, unsigned first, const char *name);

static inline unsigned launch_names_number(const char *name)
{
	uint64_t key =
		(uintptr_t)name + atomic_load_explicit(&launch_names_modules, memory_order_relaxed);
	unsigned at = (unsigned)(key * UINT64_C(0x9e3779b97f4a7c15) >> 51);

	_Static_assert(AREA_LAUNCH_NAMES_MAX == 1u << (64 - 51), "the hash leads to all");
	if (likely(atomic_load_explicit(&launch_names[at], memory_order_relaxed) == key))
		return at;
	return name ? launch_names_find(key, at, name) : 0;
}

/* Notes a launch of the ring's thread. `name` may be NULL. */
static inline void launch_names_note(struct ring *r, uint32_t correlation, const char *name)
{
	unsigned count = atomic_load_explicit(&r->launched_count, memory_order_relaxed);
	uint64_t word = (uint64_t)launch_names_number(name) << 32 | correlation; /* ring_launched */

	atomic_store_explicit(&r->launched[count % RING_LAUNCHED], word, memory_order_relaxed);
	atomic_store_explicit(&r->launched_count, count + 1, memory_order_release);
}

/*
 * Writes each thread's last launch, of which CUPTI may have no record when it has failed.
 * Collector's thread.
 */
void launch_names_write(struct writer *w);

/* Addresses of names may mean others from now on. Any thread. */
void launch_names_module_unloaded(void);

/* Called in the child of a fork. */
void launch_names_after_fork(void);

#endif
