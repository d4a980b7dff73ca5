/*
 * gpufl_files.h: a session's directory of gpufl's logs. Windows of four channels are closed,
 * compressed and published with their sidecars, as gpufl's uploader and agent expect them
 * (docs/gpufl.md).
 *
 *	<log_path>/<session>/.tmp/device.log            the active window
 *	<log_path>/<session>/.tmp/device.3.log          closed, being compressed
 *	<log_path>/<session>/device.3.log.gz            published after its sidecar
 *	                                                .gpufl-window.device.3.json
 *
 * Files are opened for each write and closed after it: a program that closes or reuses descriptors
 * of others cannot harm a log, nor a log the program. After the first error nothing more is
 * written; a loss marker records the error, and the files written so far remain.
 */
#ifndef PITOT_GPUFL_FILES_H
#define PITOT_GPUFL_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum gpufl_channel { GPUFL_DEVICE, GPUFL_SCOPE, GPUFL_SYSTEM, GPUFL_SASS, GPUFL_CHANNELS };
/* In the order of upload; the last is the name of the first in the oldest releases. */
extern const char *const gpufl_channel_names[GPUFL_CHANNELS + 1];

#define GPUFL_FREE_BYTES_MIN (UINT64_C(512) << 20) /* that logs leave free */
#define GPUFL_ID_BYTES 37 /* a UUID as text, including its NUL */

struct gpufl_files_options {
	const char *log_path; /* created if missing, but not its parents */
	const char *session; /* UUID as text: the name of the directory */
	bool background; /* compress windows on a separate thread */
	uint64_t window_bytes; /* a window is closed before it exceeds this size; 0: 64 MiB */
	uint64_t max_bytes; /* of all files; 0: 4 GiB */
	uint64_t min_free_bytes; /* of the file system; 0: 512 MiB */
	void (*on_error)(const char *text); /* called once, with the first error; may be NULL */
};

struct gpufl_files;

/* Write a random UUID, and one derived from 64 bits. */
void gpufl_id_random(char id[GPUFL_ID_BYTES]);
void gpufl_id_from(char id[GPUFL_ID_BYTES], uint64_t seed);

/*
 * Returns 0; -EEXIST if the session already has a directory; or another negative errno, leaving
 * nothing on disk.
 */
int gpufl_files_open(const struct gpufl_files_options *options, struct gpufl_files **out,
		     struct error *e) MUST_USE;
/* Appends whole lines. Returns 0, or the negative errno that stopped all writing. */
int gpufl_files_write(struct gpufl_files *f, enum gpufl_channel channel, const char *text,
		      size_t length);
/*
 * Finds out whether the folder is still there, and renews the session's sign of life. Returns 0, or
 * the negative errno that stopped all writing.
 */
int gpufl_files_check(struct gpufl_files *f);
int gpufl_files_error(const struct gpufl_files *f);
uint64_t gpufl_files_bytes(const struct gpufl_files *f); /* text written so far */
/* Publishes all windows and frees f. Returns 0 or the first error. */
int gpufl_files_close(struct gpufl_files *f);
/*
 * Leaves the files as they are, and frees what no thread uses. Returns false in the child of a
 * fork: all memory must stay, because the threads stopped in the middle of their work.
 */
bool gpufl_files_abandon(struct gpufl_files *f);

/*
 * Publishes the windows left by dead sessions in a folder (gpufl_life.h), with a shutdown marked as
 * synthetic. Live sessions and those of other users are left alone. Returns the number of dead
 * sessions.
 */
unsigned gpufl_files_salvage(const char *log_path);

#endif
