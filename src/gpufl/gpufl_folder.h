/*
 * gpufl_folder.h: finds the windows of gpufl's logs in a folder, in reading order.
 *
 *	FOLDER/[<prefix>.]<channel>[.N].log[.gz]	the flat layout: sessions side by side
 *	FOLDER/<session>/<channel>[.N].log[.gz]	closed windows; also two folders down, where runs
 *						are grouped
 *	FOLDER/<session>/.tmp/<channel>[.N].log[.gz]	not yet published
 */
#ifndef PITOT_GPUFL_GPUFL_FOLDER_H
#define PITOT_GPUFL_GPUFL_FOLDER_H

#include <stdint.h>

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
};

struct gpufl_folder {
	/* sorted by group, channel and number; unique, not empty */
	VEC(struct gpufl_window) windows;
};

/* Descends `depth` folders. Returns 0, or a negative errno if the folder cannot be read. */
int gpufl_folder_list(const char *path, unsigned depth,
		      const char *const channels[GPUFL_LOG_CHANNELS],
		      struct gpufl_folder *out) MUST_USE;
void gpufl_folder_release(struct gpufl_folder *f);

#endif
