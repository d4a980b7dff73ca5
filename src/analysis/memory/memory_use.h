/*
 * memory_use.h: GPU-visible memory (record --memory) by process, device and kind, as blocks: each
 * from its allocation to its release. Counts from the start of the recording to the end of the
 * window, because earlier allocations are still live in it.
 *
 * A release with a size but without a recorded allocation shows memory that was live from the start
 * on, as does an allocation without a time, which stands in a snapshot. Both are the base of a
 * group: all its levels include it.
 */
#ifndef PITOT_ANALYSIS_MEMORY_MEMORY_USE_H
#define PITOT_ANALYSIS_MEMORY_MEMORY_USE_H

#include "analysis/filter.h"
#include "schema/schema.h"

struct memory_block {
	uint64_t bytes;
	/* rows of table allocation; TRACE_NO_ROW: it is part of the base, and not released */
	uint32_t row, release;
	uint32_t group, next; /* next: block of the group; TRACE_NO_ROW: none */
};

struct memory_group {
	uint32_t process, device;
	uint8_t kind; /* enum memory_kind */
	uint64_t allocations, allocated_bytes;
	uint64_t releases;
	uint64_t unknown_releases; /* releases of addresses whose allocation is not recorded */
	uint64_t base_bytes; /* live before the recording began, as far as is known */
	uint64_t peak_bytes, peak_ns; /* largest sum of live allocations, and its time */
	uint32_t peak_row; /* the allocation that set it; TRACE_NO_ROW: it is the base */
	uint64_t live, live_bytes; /* at the end of the window */
	uint32_t first; /* of its blocks; TRACE_NO_ROW: it has none */
	uint32_t number; /* in the order of the first rows; before they are sorted, its index */
};

struct memory_use {
	struct memory_group *items; /* by peak, largest first */
	size_t count;
	struct memory_block *blocks; /* in the order of their allocations, process by process */
	size_t block_count;
};

/*
 * Finds the blocks of the selected processes and device until the end of the selected window, from
 * the loaded columns MEMORY_COLUMNS. 0 or -ENOMEM; release *out in any case.
 */
int memory_use_find(struct memory_use *out, const struct trace *t,
		    const struct selection *s) MUST_USE;
void memory_use_release(void *use);
#define MEMORY_COLUMNS COLUMN_BITS(allocation, time_ns, operation, kind, address, bytes, device)

/* A sum of bytes, which wraps: a damaged recording can have any sizes. */
static inline int64_t memory_sum(int64_t a, uint64_t b)
{
	return (int64_t)((uint64_t)a + b);
}

/* Whether a block was live after a row of its process; TRACE_NO_ROW: before the first. */
static inline bool memory_is_live(const struct memory_block *b, uint32_t row)
{
	/* TRACE_NO_ROW + 1 is 0, which is before every row */
	return b->row + 1 <= row + 1 && (b->release == TRACE_NO_ROW || b->release + 1 > row + 1);
}

/* Whether the driver reserves memory of this kind on the GPU. */
static inline bool memory_is_of_gpu(uint8_t kind)
{
	return kind == memory_kind_device || kind == memory_kind_array ||
	       kind == memory_kind_managed || kind == memory_kind_device_static ||
	       kind == memory_kind_managed_static;
}

/* Whether memory of this kind lies within memory of the driver, and counts a second time. */
static inline bool memory_is_of_allocator(uint8_t kind)
{
	return memory_layer(kind) != 0;
}

/*
 * Visits the levels of a group over time: each has the row of table allocation that changed it.
 * `visit` returns 0, or a negative code that ends the walk. 0, -ENOMEM or that code.
 */
int memory_curve(const struct memory_use *u, size_t group,
		 int (*visit)(void *user, uint64_t row, uint64_t bytes), void *user) MUST_USE;

#endif
