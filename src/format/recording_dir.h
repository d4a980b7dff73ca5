/* recording_dir.h: names, creates, finds and removes the folders of recordings. */
#ifndef PITOT_FORMAT_RECORDING_DIR_H
#define PITOT_FORMAT_RECORDING_DIR_H

#include <stdbool.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/strbuf.h"

#define RECORDING_JSON "recording.json"
#define RECORDING_CUBINS "cubins" /* folder of device code */
#define RECORDING_CUBIN_SUFFIX ".cubin"
#define RECORDING_GPU_CORES "gpu-cores" /* folder of core files of GPUs */
#define RECORDING_GPU_CORE_SUFFIX ".nvcudmp"
#define RECORDING_GPU_PIPE_SUFFIX ".pipe" /* where processes wait for the request of one */
#define RECORDING_CUBIN_NAME "%016llx" RECORDING_CUBIN_SUFFIX /* of its checksum */

/*
 * Appends a short name for a command: the base name of argv[0], or of the script when argv[0] is an
 * interpreter ("python train.py" is "train"). Contains only letters, digits, '.', '_' and '-'.
 */
void recording_name(int argc, char **argv, struct strbuf *out);

/*
 * Creates a folder that only its owner can access. With path NULL it is <name>-DATE-TIME.pitot in
 * the current folder, with a number appended if that exists. An existing path is an error, unless
 * `force` is set and it is a recording or an empty folder: its files are then removed, and its mode
 * is kept. Returns the absolute path, to be freed, or NULL, and sets *id: whatever writes into the
 * recording opens its folder with folder_open_known().
 */
char *recording_dir_create(const char *path, const char *name, bool force, struct folder_id *id,
			   struct error *e) MUST_USE;

/*
 * Same, for a program that records itself. `path` is NULL, a new folder, or an empty folder, whose
 * mode is kept.
 */
char *recording_dir_create_own(const char *path, const char *name, struct folder_id *id,
			       struct error *e) MUST_USE;

/* Finds the newest *.pitot with a segment in the current folder. Returns its name, to be freed. */
char *recording_dir_find_newest(struct error *e) MUST_USE;

/*
 * Whether a folder contains a segment. A recording that was interrupted at its start has none. A
 * folder that cannot be opened counts as a recording, so that the error mentions its permissions.
 */
bool recording_dir_has_segments(const char *path);

/*
 * Removes a recording, unless the folder has files that no recording has. Returns 0 or a negative
 * code.
 */
int recording_dir_remove(const char *path, const struct folder_id *id, struct error *e);

#endif
