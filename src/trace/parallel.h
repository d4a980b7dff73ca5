/* parallel.h: runs numbered work items on a few threads. */
#ifndef PITOT_TRACE_PARALLEL_H
#define PITOT_TRACE_PARALLEL_H

#include "base/compiler.h"

/* Returns 0 or a negative code. `worker` is less than `threads`; 0 is the calling thread. */
typedef int parallel_work(void *user, unsigned worker, size_t item);

/*
 * Calls `work` for the items 0 … count-1 on up to `threads` threads, including the caller's, and
 * waits for all of them. Returns 0 or the first negative result, after which no further item is
 * started. If no thread can be created, the caller runs all items.
 */
int parallel_for(unsigned threads, size_t count, parallel_work *work, void *user);

/* Number of processors that this process may use: 1 to PARALLEL_MAX. */
unsigned parallel_processors(void);
#define PARALLEL_MAX 64u

#endif
