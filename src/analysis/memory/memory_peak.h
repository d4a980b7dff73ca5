/*
 * memory_peak.h: who owns the memory at the peak of each group of memory_use.h, and at the end of
 * the window, and how much of what the GPU's driver says is in use is known. Computed if
 * report_options.memory.
 *
 * The parts of a peak, by whatever, add up to it exactly.
 */
#ifndef PITOT_ANALYSIS_MEMORY_MEMORY_PEAK_H
#define PITOT_ANALYSIS_MEMORY_MEMORY_PEAK_H

#include "analysis/memory/memory_use.h"

struct report;
struct step_loop;

enum memory_by {
	MEMORY_BY_LINE, /* key: caller */
	MEMORY_BY_SCOPE, /* key: path */
	MEMORY_BY_STEP, /* key: item of steps.items */
	MEMORY_BY_SIZE, /* key: of a power of two; blocks of at least 2^key bytes */
	MEMORY_BYS,
};

/* Keys of all of them. */
#define MEMORY_NONE UINT32_MAX /* without a stack; outside of scopes; of steps; of no bytes */
#define MEMORY_BEFORE (UINT32_MAX - 1) /* allocated before the recording began */

struct memory_part {
	uint64_t bytes, count; /* of blocks */
	uint32_t group, key;
	uint8_t by; /* enum memory_by */
};

struct memory_parts {
	struct memory_part *items; /* by group, then by size */
	size_t count;
};

/* A level of a group: the highest until the next point. */
struct memory_point {
	uint64_t time_ns, bytes;
};

#define MEMORY_POINTS_MAX 500u

struct memory_curve {
	struct memory_point *points;
	size_t count;
	uint64_t after; /* level after the last change */
};

/* A cudaMemPool; or the caching allocator of a framework, whose segments are the pool. */
struct memory_pool {
	uint64_t address; /* 0: allocator */
	uint32_t process, device;
	uint64_t size_bytes, size_ns; /* its largest size, and when that was */
	uint64_t used_bytes; /* the most of it in use while it had that size */
	uint64_t peak_used_bytes;
	uint64_t trims;
	uint64_t threshold_bytes; /* kept when it trims itself; UINT64_MAX: unlimited or unknown */
};

/* What the driver says is in use on a GPU, when that was the most. */
struct memory_unexplained {
	uint32_t gpu; /* index in report.gpus */
	uint64_t time_ns, used_bytes;
	uint64_t tracked_bytes; /* in recorded allocations of all processes then */
	int64_t unexplained_bytes;
};

struct memory_peak {
	struct memory_parts peak[MEMORY_BYS];
	struct memory_parts live; /* at the end of the window, by line */
	struct memory_curve *curves; /* by group */
	size_t curve_count;
	struct memory_pool *pools; /* the largest first */
	size_t pool_count;
	struct memory_unexplained *gpus; /* those with readings */
	size_t gpu_count;
};

/* The call that allocated or released, or TRACE_NO_ROW. */
uint32_t memory_call(const struct report *r, uint32_t row);
/* The steps of a process, also of another one's view of it; NULL: it has none. */
const struct step_loop *memory_loop(const struct report *r, size_t process);
/* The line that allocated a block: a caller, MEMORY_NONE or MEMORY_BEFORE. */
uint32_t memory_line(const struct report *r, const struct memory_block *b);

/* --- memory_pools.c --- */

/* Fill in pools and gpus. 0 or -ENOMEM. */
int memory_pools_find(const struct report *r, struct memory_peak *out) MUST_USE;
int memory_unexplained_find(const struct report *r, struct memory_peak *out) MUST_USE;

#endif
