/* import_input.h: the lines of gpufl's logs. */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_INPUT_H
#define PITOT_IMPORT_GPUFL_IMPORT_INPUT_H

#include <stdbool.h>
#include <zlib.h>

#include "base/error.h"
#include "base/strbuf.h"

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
