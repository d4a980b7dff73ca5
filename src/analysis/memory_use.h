/*
 * memory_use.h: GPU-visible memory (record --memory) by process, device and kind: allocations,
 * peak, and what is still allocated. Counts from the start of the recording to the end of the
 * window, because earlier allocations are still live in it.
 */
#ifndef PITOT_ANALYSIS_MEMORY_USE_H
#define PITOT_ANALYSIS_MEMORY_USE_H

#include <stddef.h>
#include <stdint.h>

struct memory_group {
	uint32_t process, device;
	uint8_t kind; /* enum memory_kind */
	uint64_t allocations, allocated_bytes;
	uint64_t releases;
	uint64_t unknown_releases; /* releases of addresses whose allocation is not recorded */
	uint64_t peak_bytes, peak_ns; /* largest sum of live allocations, and its time */
	uint64_t live, live_bytes; /* at the end of the window */
};

struct memory_use {
	struct memory_group *items; /* by peak, largest first */
	size_t count;
};

#endif
