/* parallel.h: the trace's thread pool: numbered pieces of work, handed out to a few threads. */
#ifndef PITOT_TRACE_PARALLEL_H
#define PITOT_TRACE_PARALLEL_H

#include "base/compiler.h"

/* 0 or a negative code. `worker` is below the number of threads; 0 is the calling thread. */
typedef int parallel_work(void *user, unsigned worker, size_t item);

/*
 * Calls work for the items 0 … count-1 on up to `threads` threads, the caller's included, and
 * waits for all. Returns 0 or the first negative result, after which no further item is begun.
 * Where threads cannot be had, the caller does the work alone.
 */
int parallel_for(unsigned threads, size_t count, parallel_work *work, void *user);

/* Number of processors that this process may use, at least 1 and at most PARALLEL_MAX. */
unsigned parallel_processors(void);
#define PARALLEL_MAX 64u

#endif
