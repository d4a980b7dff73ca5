/*
 * live_segment.h: segments that processes of this machine are writing, or hold in memory (--ring),
 * by whomever they are recorded.
 *
 * A process writes one of them: it is among the descriptors of the recorder's thread. The others of
 * the same session lie beside it on the disk, or, of a ring, in memory that the launcher has open.
 * /proc shows all of that to the process's user and to root, so the process does nothing for it.
 * What is found stays open here, also when the ring drops it.
 */
#ifndef PITOT_RECORD_LIVE_SEGMENT_H
#define PITOT_RECORD_LIVE_SEGMENT_H

#include <string.h>
#include <sys/types.h>

#include "base/folder.h"
#include "base/vec.h"
#include "format/reader.h"

/* --- visits --- */

#define LIVE_SEGMENT_LINK "/memfd:pitot segment (deleted)" /* of one that lies in memory */

/* `path` opens it, as long as the process has it; `link` is where it is, or what. */
typedef void live_segment_found(void *user, const char *path, const char *link);

/*
 * Visits the segments that the recorder of a process is writing. Returns 0 or -errno: the process
 * is gone or somebody else's.
 */
int live_segments_visit(pid_t pid, live_segment_found *found, void *user);
/* Visits all segments of the rings that a process holds. */
void live_segments_visit_ring(pid_t launcher, live_segment_found *found, void *user);
/*
 * Visits the descriptors of all programs called `pitot` that are files of that name, as readlink(2)
 * shows them: they may hold rings and memory of others.
 */
void live_launchers_visit(const char *link, live_segment_found *found, void *user);
/* Whether a segment is in memory, by `link`. */
static inline bool live_link_is_memory(const char *link)
{
	return !strcmp(link, LIVE_SEGMENT_LINK);
}

/* The folder of /proc; what is a number there is a process. */
DIR *live_open_list(const char *path);
bool live_is_number(const char *name);

/* --- found by session --- */

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
