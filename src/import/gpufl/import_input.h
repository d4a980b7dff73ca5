/*
 * import_input.h: which files are gpufl's logs, in the order in which they are to be read, and their lines.
 *
 *	FOLDER/[<prefix>.]<channel>[.N].log[.gz]	the flat layout: sessions side by side
 *	FOLDER/<session>/<channel>[.N].log[.gz]	closed windows; also two folders down, where runs are grouped
 *	FOLDER/<session>/.tmp/<channel>[.N].log[.gz]	and those that are not published yet
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_INPUT_H
#define PITOT_IMPORT_GPUFL_IMPORT_INPUT_H

#include <stdbool.h>
#include <zlib.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

struct input_file {
	char *path; /* below the folder */
	size_t group; /* length of what files of a group have in common: folder and prefix */
	unsigned channel; /* in the order in which they are read; INPUT_MARKER */
	uint64_t number; /* UINT64_MAX: the one without, which is the last */
	unsigned rank; /* of files with one number the lowest counts */
	uint64_t bytes;
};

struct input {
	VEC(struct input_file) files; /* by group, channel, number; each window once */
	uint64_t bytes; /* of all */
};

#define INPUT_MARKER 5u /* behind all channels: a file that says that a window is lost */

/* 0, also where there are none; or a negative code. */
int input_list(const char *folder, struct input *in, struct error *e) MUST_USE;
void input_release(struct input *in);

#define INPUT_LINE_MAX ((size_t)64 << 20)

/* A file of lines, which may be compressed. */
struct log_lines {
	gzFile file;
	struct strbuf text;
	size_t at; /* the next line */
	bool over, cut; /* the file is; in the middle of a compressed stream */
	uint64_t too_long; /* lines that were left out */
	const char *line; /* without its end */
	size_t length;
	bool ended; /* by a newline */
};

int log_lines_open(struct log_lines *l, const char *path, struct error *e) MUST_USE;
/* 1: line and length; 0: there are no more; or -ENOMEM. */
int log_lines_next(struct log_lines *l) MUST_USE;
void log_lines_close(struct log_lines *l);

#endif
