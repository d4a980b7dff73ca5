/*
 * recording_dir.h: the folder of a recording: its name, its creation, its removal, the newest one.
 */
#ifndef PITOT_FORMAT_RECORDING_DIR_H
#define PITOT_FORMAT_RECORDING_DIR_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

#define RECORDING_JSON "recording.json"
#define RECORDING_CUBINS "cubins" /* a folder of device code */
#define RECORDING_CUBIN_SUFFIX ".cubin"

/*
 * Appends a short name for a command: the base name of argv[0], or of the script where argv[0] is
 * an interpreter ("python train.py" is "train"), with nothing in it but letters, digits, '.', '_'
 * and '-'.
 */
void recording_name(int argc, char **argv, struct strbuf *out);

/*
 * Creates the folder, for its owner only. With path NULL it is <name>-DATE-TIME.pitot in the
 * current folder, and a number is added until it is new. An existing path is an error, unless
 * `force` and it is a recording or an empty folder: then its files are removed, and the folder
 * keeps its mode. Returns the absolute path, to be freed, or NULL.
 */
char *recording_dir_create(const char *path, const char *name, bool force,
			   struct error *e) MUST_USE;

/*
 * The same for a program that records itself: path NULL, or a new folder, or one that is empty and
 * stays as it is.
 */
char *recording_dir_create_own(const char *path, const char *name, struct error *e) MUST_USE;

/*
 * Name of the newest *.pitot in the current folder that has a segment, to be freed; NULL: an error.
 */
char *recording_dir_find_newest(struct error *e) MUST_USE;

/*
 * Removes a recording and nothing else: the folder must hold only files that a recording has. 0 or
 * a negative code.
 */
int recording_dir_remove(const char *path, struct error *e);

#endif
