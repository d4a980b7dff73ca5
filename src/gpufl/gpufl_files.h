/*
 * gpufl_files.h: a session's directory of gpufl's logs: windows of four channels, closed,
 * compressed and published with their sidecars, as gpufl's uploader and agent expect them
 * (docs/gpufl.md).
 *
 *	<log_path>/<session>/.tmp/device.log            the active window
 *	<log_path>/<session>/.tmp/device.3.log          closed; is being compressed
 *	<log_path>/<session>/device.3.log.gz            published, after its sidecar
 *	                                                .gpufl-window.device.3.json
 *
 * A file is opened for each write and closed after it: a program that closes or reuses descriptors
 * of others cannot harm a log, nor a log the program. After the first error nothing more is
 * written, a loss marker says so, and what was written stays.
 */
#ifndef PITOT_GPUFL_FILES_H
#define PITOT_GPUFL_FILES_H

#include <stdbool.h>

#include "base/error.h"

enum gpufl_channel { GPUFL_DEVICE, GPUFL_SCOPE, GPUFL_SYSTEM, GPUFL_SASS, GPUFL_CHANNELS };
/* In the order in which they are sent; the last is the oldest releases' name of the first. */
extern const char *const gpufl_channel_names[GPUFL_CHANNELS + 1];

#define GPUFL_ID_BYTES 37 /* a UUID as a text, with its NUL */

struct gpufl_files_options {
	const char *log_path; /* made if it is missing, but not what is above it */
	const char *session; /* UUID as a text: the name of the directory */
	bool background; /* windows are compressed by a thread of their own */
	uint64_t window_bytes; /* a window is closed before it becomes larger; 0: 64 MiB */
	uint64_t max_bytes; /* of all files; 0: 4 GiB */
	uint64_t min_free_bytes; /* of the file system; 0: 512 MiB */
	void (*tell)(const char *text); /* called once, with what went wrong; may be NULL */
};

struct gpufl_files;

/* Writes a random UUID, or one made of 64 bits, always the same. */
void gpufl_id_random(char id[GPUFL_ID_BYTES]);
void gpufl_id_from(char id[GPUFL_ID_BYTES], uint64_t seed);

/*
 * -EEXIST: the session has a directory already. 0, or a negative errno, and then there is nothing
 * of it.
 */
int gpufl_files_open(const struct gpufl_files_options *options, struct gpufl_files **out,
		     struct error *e) MUST_USE;
/* Appends whole lines. 0, or the negative errno for which nothing is written any more. */
int gpufl_files_write(struct gpufl_files *f, enum gpufl_channel channel, const char *text,
		      size_t length);
uint64_t gpufl_files_bytes(const struct gpufl_files *f); /* of text, so far */
/* Publishes all windows and frees. 0 or the first error. */
int gpufl_files_close(struct gpufl_files *f);
/*
 * Leaves everything as it is, and frees what no thread uses. False in the child of a fork, where
 * threads stand still in the middle of what they did: all memory must stay.
 */
bool gpufl_files_abandon(struct gpufl_files *f);

/*
 * Publishes what the dead sessions in a folder have left, with a shutdown that says it is
 * synthetic; sessions that live are left alone. Returns how many there were.
 */
unsigned gpufl_files_salvage(const char *log_path);

/* Removes the directory of a session, if nothing else is in it. 0 or a negative errno. */
int gpufl_files_remove(const char *log_path, const char *session);

#endif
