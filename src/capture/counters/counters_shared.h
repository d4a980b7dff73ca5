/* counters_shared.h: what the readers of counters, of GPUs and of the machine, share. */
#ifndef PITOT_CAPTURE_COUNTERS_COUNTERS_SHARED_H
#define PITOT_CAPTURE_COUNTERS_COUNTERS_SHARED_H

#include <stddef.h>

#include "base/own_fd.h"

#define COUNTERS_NO_DEVICE UINT32_MAX

/* Passes a reading to the collector. Any thread. */
void counters_push(uint32_t id, uint32_t device, uint64_t time_ns, int64_t value);

/*
 * Several processes may record into one directory; the first one reads the counters that they
 * share. It locks a pair of directory and subject (socket_lock.h).
 */
struct counters_lock {
	char what[32]; /* "": nothing */
	struct own_fd socket;
};
/* Locks `what` as locks[i]. Returns true if it is ours, even through another of these locks. */
bool counters_lock(struct counters_lock *locks, size_t count, size_t i, const char *directory,
		    const char *what);
/*
 * Called in the child of a fork: the locks belong to the parent, and a descriptor held by the
 * child would keep them alive after the parent's end.
 */
void counters_unlock(struct counters_lock *locks, size_t count);

#endif
