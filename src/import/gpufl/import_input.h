/* import_input.h: reads the lines of gpufl's logs. */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_INPUT_H
#define PITOT_IMPORT_GPUFL_IMPORT_INPUT_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "import/input.h"

#define INPUT_LINE_MAX ((size_t)64 << 20)

/* The lines of an input. A byte order mark is no part of the first one. */
struct log_lines {
	struct input *in;
	struct strbuf text;
	size_t at; /* start of the next line */
	bool at_end;
	uint64_t too_long; /* lines left out */
	const char *line; /* without its newline */
	size_t length;
	bool ended; /* by a newline */
};

/* Returns 1 with line and length, 0 at the end, -ECANCELED or -ENOMEM. */
int log_lines_next(struct log_lines *l) MUST_USE;
void log_lines_release(struct log_lines *l);

#endif
