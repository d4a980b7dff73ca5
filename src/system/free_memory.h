/* free_memory.h: how much memory is left to this process, and who was killed for want of it. */
#ifndef PITOT_SYSTEM_FREE_MEMORY_H
#define PITOT_SYSTEM_FREE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns the bytes that a process can take before the kernel ends processes for want of memory:
 * the least of MemAvailable and what the limits of its control group (v2 or v1) and of the groups
 * around that leave, where files in memory count as free. UINT64_MAX: unknown. `root` precedes all
 * paths (/proc and /sys); "" outside of tests.
 */
uint64_t free_memory(const char *root);

/*
 * Sets how many processes of this process's control group the kernel has killed because the group
 * was out of memory. Returns false if it does not say.
 */
bool memory_oom_kills(const char *root, uint64_t *count);

#endif
