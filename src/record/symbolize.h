/*
 * symbolize.h: resolves the addresses of a recording's call stacks and writes the symbols into the
 * recording (symbols.<n>.pit), so that it can be read elsewhere. Earlier symbols are replaced all
 * at once, after the new ones are complete; an earlier name stays where none is found now.
 */
#ifndef PITOT_RECORD_SYMBOLIZE_H
#define PITOT_RECORD_SYMBOLIZE_H

#include "base/error.h"
#include "symbol/symbolizer.h"

struct symbolize_result {
	struct symbolizer *symbolizer; /* has the reports by module */
	uint64_t addresses; /* distinct ones, of all processes */
	uint64_t by[SOURCE_COUNT]; /* of these, by the source of the symbol */
	uint64_t with_line;
	uint64_t rows; /* written: one per function, inlined functions included */
};

/*
 * `path` is the recording's directory. 0 and *out (symbolize_release) or a negative code. A
 * recording without native frames is no error, and nothing is written.
 */
int symbolize_recording(const char *path, const struct symbolizer_options *options,
			struct symbolize_result *out, struct error *e) MUST_USE;
void symbolize_release(struct symbolize_result *r);

/*
 * Writes the symbols into a temporary *folder instead of the recording, for one reader, which opens
 * the trace with it as trace_options.symbols and then calls symbolize_remove_temporary. 0 or a
 * negative code.
 */
int symbolize_temporary(const char *path, char **folder, struct error *e) MUST_USE;
void symbolize_remove_temporary(char *folder); /* NULL: nothing */

#endif
