/*
 * live_tail.h: the last seconds of a process that is being recorded, as a recording of their own
 * that any analysis reads; what the process waits for at this moment is in table `unfinished`.
 *
 * Two files have them, and /proc shows both to the process's user and to root: the segment that the
 * process is writing, among the descriptors of the recorder's thread, and the memory that it shares
 * with its launcher (capture/core/shared_area.h), among those of the launcher. So it is the same
 * for recordings on the disk, for rings and for attached processes, and the process does nothing
 * for it. A segment has all definitions that its rows need, so blocks of older rows are left out.
 */
#ifndef PITOT_RECORD_LIVE_TAIL_H
#define PITOT_RECORD_LIVE_TAIL_H

#include <sys/types.h>

#include "record/live_segment.h"

struct live_tail {
	struct live_segment live; /* live.segment.path NULL: none was found */
	int memory; /* -1: none was found */
};

/*
 * Finds the files. Returns 0, -ESRCH if the process is not being recorded, or another negative
 * errno; then there is nothing to release.
 */
int live_tail_open(struct live_tail *t, pid_t pid) MUST_USE;
/*
 * Copies the rows of the last `window_ns` before the last GPU work, and what is under way, into an
 * empty folder. Sets *end_ns to the start of that work (CLOCK_MONOTONIC; 0: there was none).
 * Returns 0, -ESRCH if the process writes another segment or none by now, or another negative code.
 */
int live_tail_copy(struct live_tail *t, uint64_t window_ns, const char *directory,
		   const struct folder_id *folder, uint64_t *end_ns, struct error *e) MUST_USE;
void live_tail_release(struct live_tail *t);
/* Opens the memory that a process shares with whoever records it; -1: none was found. */
int live_memory_find(pid_t pid);

#endif
