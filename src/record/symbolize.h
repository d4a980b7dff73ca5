/*
 * symbolize.h: resolves the addresses of a recording's call stacks and writes the symbols into the
 * recording (symbols.<n>.pit), so that it can be read elsewhere. Earlier symbols are replaced all
 * at once, after the new ones are complete; earlier names are kept if no new name is found.
 */
#ifndef PITOT_RECORD_SYMBOLIZE_H
#define PITOT_RECORD_SYMBOLIZE_H

#include "base/error.h"
#include "base/folder.h"
#include "symbol/symbolizer.h"

struct symbolize_result {
	struct symbolizer *symbolizer; /* has the report of each module */
	uint64_t addresses; /* distinct addresses of all processes */
	uint64_t by[SOURCE_COUNT]; /* number of addresses by source of the symbol */
	uint64_t with_line;
	uint64_t rows; /* rows written: one per function, including inlined ones */
};

/*
 * Symbolizes the recording in directory `path`. Returns 0 and *out (symbolize_release), or a
 * negative code. If there are no native frames, nothing is written, and that is not an error.
 */
int symbolize_recording(const char *path, const struct folder_id *id,
			const struct symbolizer_options *options, struct symbolize_result *out,
			struct error *e) MUST_USE;
void symbolize_release(struct symbolize_result *r);

/*
 * Writes the symbols into a temporary *folder instead of the recording, for one reader. The reader
 * opens the trace with that folder as trace_options.symbols, then calls symbolize_remove_temporary.
 * Returns 0 or a negative code.
 */
int symbolize_temporary(const char *path, char **folder, struct error *e) MUST_USE;
/* Makes a folder for such files, in memory where that is possible. NULL: it cannot be made. */
char *symbolize_make_temporary(struct error *e) MUST_USE;
void symbolize_remove_temporary(char *folder); /* may be NULL */

#endif
