/*
 * segment_ring.h: the segments of a recording that keeps only its end (--ring), in memory.
 *
 * Processes ask the launcher for each segment, as other users' processes do, and get a memfd
 * instead of a file. A segment has all definitions that its rows need, so the oldest ones are
 * dropped whole, and what is left is a recording; its reader reports the numbers that are missing.
 * The memory counts as that of the processes that write it.
 */
#ifndef PITOT_RECORD_SEGMENT_RING_H
#define PITOT_RECORD_SEGMENT_RING_H

#include <sys/types.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/segment_request.h"
#include "format/writer.h"

#define RING_BYTES ((uint64_t)64 << 20) /* of a process, unless requested otherwise */
/* A segment counts as at least such a part of it, however small its process has left it. */
#define RING_PARTS_MAX 64u

struct ring_segment {
	uint32_t pid, number; /* of the file's name */
	pid_t writer; /* as we see it */
	int process; /* pidfd of the writer until the segment is ended; -1: unknown */
	int fd;
	uint64_t begun_ns; /* CLOCK_MONOTONIC */
	bool is_ended; /* the process has begun another one, or has ended */
};

/* All zeros: the recording is on the disk, and there are no segments. */
struct segment_ring {
	uint64_t bytes; /* most that a process has, besides the segment that it is writing */
	uint64_t age_ns; /* older segments are dropped; 0: however old */
	uint64_t dropped; /* segments */
	uint64_t complete_ns; /* from then on the segments have all that was recorded */
	VEC(struct ring_segment) segments; /* oldest first */
	struct map numbers; /* pid -> next number */
};

/* Reads the value of --ring: a size, or a time. Returns 0 or -EINVAL. */
int segment_ring_parse(const char *text, uint64_t *bytes, uint64_t *age_ns);

/*
 * Adds an empty segment for process `pid`, and sets *number. Returns its descriptor, which the
 * caller closes, or a negative code.
 */
int segment_ring_add(struct segment_ring *ring, uint32_t pid, pid_t writer,
		     uint32_t *number) MUST_USE;
/* Drops what is beyond the limits. */
void segment_ring_trim(struct segment_ring *ring);

/*
 * Writes the segments with rows of the interval into a folder, the newest first, so that a full
 * disk has these. Processes may be writing them. Returns their number, or a negative errno.
 */
int segment_ring_write(const struct segment_ring *ring, int folder,
		       const struct segment_interval *interval);
/* Copies at most `bytes` of a file into a folder, whole or not at all. 0 or a negative errno. */
int segment_copy(int from, int folder, const char *name, uint64_t bytes);

/* Whether the process of a pidfd has ended. */
bool process_has_ended(int process);
/*
 * The status of a process that has ended and been waited for by whoever is its parent, as a shell
 * shows it: 128+n after signal n. -EAGAIN: not yet; -ENOTSUP: before Linux 6.15.
 */
int process_exit_status(int process);

void segment_ring_release(struct segment_ring *ring);

#endif
