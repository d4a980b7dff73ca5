/*
 * live_segments.h: segments that processes of this machine are writing, or hold in memory (--ring):
 * /proc shows their descriptors to their user and to root. The processes do nothing for it.
 */
#ifndef PITOT_RECORD_LIVE_SEGMENTS_H
#define PITOT_RECORD_LIVE_SEGMENTS_H

#include <dirent.h>
#include <limits.h>
#include <sys/types.h>

#include "format/reader.h"

#define LIVE_LAUNCHER "pitot" /* name of a process that may hold rings and memory of others */

/* `path` opens it, as long as the process has it; `link` is where it is, or what. */
typedef void live_segment_found(void *user, const char *path, const char *link);

/*
 * Visits the segments that the recorder of a process is writing. Returns 0 or -errno: the process
 * is gone or somebody else's.
 */
int live_segments_visit(pid_t pid, live_segment_found *found, void *user);
/* Visits all segments of the rings that a process holds. */
void live_segments_visit_ring(pid_t launcher, live_segment_found *found, void *user);
/* Whether a segment is in memory, by `link`. */
bool live_link_is_memory(const char *link);

/*
 * Copies a segment's header and those of its blocks that are wanted. A block that its process is
 * replacing is damaged for whoever reads the copy. Returns 0, -ESRCH if the file has other contents
 * by now, or another negative code.
 */
typedef bool live_block_wanted(void *user, const struct block_ref *block);
int live_segment_copy(const struct segment *s, live_block_wanted *wanted, void *user,
		      int to) MUST_USE;

/* --- descriptors of others --- */

DIR *live_open_list(const char *path);
bool live_is_number(const char *name);
/* Sets *link to what a descriptor is. */
bool live_read_link(const char *path, char link[PATH_MAX]);
/* Whether a process or thread, a folder in /proc, has that name. */
bool live_is_named(const char *folder, const char *name);

#endif
