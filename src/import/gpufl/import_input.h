/* import_input.h: reads the lines of gpufl's logs. */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_INPUT_H
#define PITOT_IMPORT_GPUFL_IMPORT_INPUT_H

#include <stdbool.h>
#include <signal.h>
#include <zlib.h>

#include "base/error.h"
#include "base/strbuf.h"

#define INPUT_LINE_MAX ((size_t)64 << 20)

/* A file of lines, possibly compressed. A byte order mark is no part of the first one. */
struct log_lines {
	gzFile file;
	const volatile sig_atomic_t *cancel; /* ends the reading once nonzero; NULL: nothing does */
	struct strbuf text;
	size_t at; /* start of the next line */
	bool at_end, truncated; /* of the file; within a compressed stream */
	uint64_t too_long; /* lines left out */
	const char *line; /* without its newline */
	size_t length;
	bool ended; /* by a newline */
};

/* Takes the descriptor of a file, or the negative code of its failed opening. */
int log_lines_open(struct log_lines *l, int fd, const char *path,
		   const volatile sig_atomic_t *cancel, struct error *e) MUST_USE;
/* Returns 1 with line and length, 0 at the end, -ECANCELED or -ENOMEM. */
int log_lines_next(struct log_lines *l) MUST_USE;
void log_lines_close(struct log_lines *l);

#endif
