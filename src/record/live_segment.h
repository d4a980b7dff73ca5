/*
 * live_segment.h: finds the segments of a process that is being recorded, by whomever.
 *
 * The process writes one of them: it is among the descriptors of the recorder's thread. The others
 * of the same session lie beside it on the disk, or, of a ring, in memory that the launcher has
 * open. /proc shows all of that to the process's user and to root, so the process does nothing for
 * it. What is found stays open here, also when the ring drops it.
 */
#ifndef PITOT_RECORD_LIVE_SEGMENT_H
#define PITOT_RECORD_LIVE_SEGMENT_H

#include <sys/types.h>

#include "base/folder.h"
#include "base/vec.h"
#include "format/reader.h"

struct live_segment {
	struct segment segment; /* path NULL: none; its path leads to fd */
	int fd;
};
struct live_segments {
	VEC(struct live_segment) all;
};

/*
 * Finds the segment that a process is writing of a session, 0: of its newest recording. Returns 0,
 * -ESRCH if it is not being recorded, or another negative errno; then there is nothing to release.
 */
int live_segment_find(pid_t pid, uint64_t session, struct live_segment *out) MUST_USE;
/* Takes a descriptor, also a failure. Returns 0 or a negative code; then it is closed. */
int live_segment_open(int fd, struct live_segment *out) MUST_USE;
void live_segment_release(struct live_segment *s);
/* Whether it lies in memory. */
bool live_segment_is_memory(const struct live_segment *s);
/* Whether the process has it open; false also when that is unknown. */
bool live_segment_is_written(const struct live_segment *s, pid_t pid);

/*
 * Finds the other segments of the session of `of`, in the order of their numbers. Returns 0 or
 * -ENOMEM.
 */
int live_segments_find(const struct live_segment *of, struct live_segments *out) MUST_USE;
/* The same of the files beside it whose names begin with a prefix, of whatever session. */
int live_segments_beside(const struct live_segment *of, const char *prefix,
			 struct live_segments *out) MUST_USE;
void live_segments_release(struct live_segments *s);

#endif
