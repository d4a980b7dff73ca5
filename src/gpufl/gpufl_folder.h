/*
 * gpufl_folder.h: folders of gpufl's logs. Finds their windows, in reading order.
 *
 *	FOLDER/[<prefix>.]<channel>[.N].log[.gz]	the flat layout: sessions side by side
 *	FOLDER/<session>/<channel>[.N].log[.gz]	closed windows; also two folders down, where runs
 *						are grouped
 *	FOLDER/<session>/.tmp/<channel>[.N].log[.gz]	not yet published
 */
#ifndef PITOT_GPUFL_GPUFL_FOLDER_H
#define PITOT_GPUFL_GPUFL_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "gpufl/gpufl_files.h"

#define GPUFL_LOG_CHANNELS (GPUFL_CHANNELS + 1u)
/* channel of a file that marks a lost window; sorts after all channels */
#define GPUFL_LOSS_MARKER GPUFL_LOG_CHANNELS

struct gpufl_window {
	char *path; /* below the folder */
	size_t group; /* length of the common part of the paths in a group: folder and prefix */
	unsigned channel; /* index into the caller's names, or GPUFL_LOSS_MARKER */
	uint64_t number; /* UINT64_MAX: without a number, which sorts last */
	/* the lowest wins among files with the same number: plain before compressed */
	unsigned rank;
	uint64_t bytes;
	uint64_t modified_ns; /* CLOCK_REALTIME */
};

struct gpufl_folder {
	/* sorted by group, channel and number; unique, not empty */
	VEC(struct gpufl_window) windows;
};

/*
 * Lists the folder with this path, of which `folder` is the descriptor (folder.h), and up to
 * `depth` folders below it. Links are left out. Returns 0, or a negative errno if the folder cannot
 * be read.
 */
int gpufl_folder_list(int folder, const char *path, unsigned depth,
		      const char *const channels[GPUFL_LOG_CHANNELS],
		      struct gpufl_folder *out) MUST_USE;
/*
 * Opens a window in or below a folder, given as above. Returns a descriptor or a negative code of
 * folder.h.
 */
int gpufl_window_open(int folder, const char *path, const struct gpufl_window *w) MUST_USE;
void gpufl_folder_release(struct gpufl_folder *f);

/*
 * Creates a folder for logs with its parents, as gpufl's client does. Returns its absolute path, to
 * be freed; or NULL and *e if it cannot be created or written. *is_full: less space is free there
 * than logs leave free, so that none will be written.
 */
char *gpufl_folder_make(const char *log_path, bool *is_full, struct error *e) MUST_USE;

/* Removes a session's directory unless it contains other files. Returns 0 or a negative errno. */
int gpufl_folder_remove_session(const char *log_path, const char *session);

#endif
