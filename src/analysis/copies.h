/* copies.h: copies and memory sets by direction and kind of memory, with bytes and bandwidth. */
#ifndef PITOT_ANALYSIS_COPIES_H
#define PITOT_ANALYSIS_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct copy_group {
	bool set; /* memory sets: kind and source are 0 */
	uint8_t kind; /* enum copy_kind */
	uint8_t source, destination; /* enum memory_kind */
	uint64_t count, bytes;
	uint64_t sized; /* how many have a size */
	uint64_t async, async_known; /* how many are asynchronous, of those that say so */
	uint64_t timed, total_ns; /* with times */
	/* with times and sizes; the bandwidth is timed_bytes / sized_ns */
	uint64_t timed_bytes, sized_ns;
};

struct copies {
	struct copy_group *items; /* by total time, longest first */
	size_t count;
};

#endif
