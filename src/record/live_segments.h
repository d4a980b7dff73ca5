/*
 * live_segments.h: segments that processes of this machine are writing, or hold in memory (--ring):
 * /proc shows their descriptors to their user and to root. The processes do nothing for it.
 */
#ifndef PITOT_RECORD_LIVE_SEGMENTS_H
#define PITOT_RECORD_LIVE_SEGMENTS_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

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

/* --- descriptors of others --- */

DIR *live_open_list(const char *path);
bool live_is_number(const char *name);
/* Sets *link to what a descriptor is. */
bool live_read_link(const char *path, char link[PATH_MAX]);

#endif
