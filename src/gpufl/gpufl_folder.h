/*
 * gpufl_folder.h: which files of a folder are windows of gpufl's logs, in the order in which they
 * are to be read.
 *
 *	FOLDER/[<prefix>.]<channel>[.N].log[.gz]	the flat layout: sessions side by side
 *	FOLDER/<session>/<channel>[.N].log[.gz]	closed windows; also two folders down, where runs
 *						are grouped
 *	FOLDER/<session>/.tmp/<channel>[.N].log[.gz]	and those that are not published yet
 */
#ifndef PITOT_GPUFL_GPUFL_FOLDER_H
#define PITOT_GPUFL_GPUFL_FOLDER_H

#include <stdint.h>

#include "base/vec.h"
#include "gpufl/gpufl_files.h"

#define GPUFL_LOG_CHANNELS (GPUFL_CHANNELS + 1u)
/* behind all channels: a file that says that a window is lost */
#define GPUFL_LOSS_MARKER GPUFL_LOG_CHANNELS

struct gpufl_window {
	char *path; /* below the folder */
	size_t group; /* length of what files of a group have in common: folder and prefix */
	unsigned channel; /* index in the names that the caller has given, or GPUFL_LOSS_MARKER */
	uint64_t number; /* UINT64_MAX: the one without, which is the last */
	unsigned rank; /* of files with one number the lowest counts: plain before packed */
	uint64_t bytes;
};

struct gpufl_folder {
	/* by group, channel, number; each once, and none that is empty */
	VEC(struct gpufl_window) windows;
};

/* Goes `depth` folders down. 0, or a negative errno: the folder cannot be read. */
int gpufl_folder_list(const char *path, unsigned depth,
		      const char *const channels[GPUFL_LOG_CHANNELS],
		      struct gpufl_folder *out) MUST_USE;
void gpufl_folder_release(struct gpufl_folder *f);

#endif
