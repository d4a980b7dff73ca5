/*
 * symbolize.h: resolves the addresses of a recording's call stacks and keeps the answers in it
 * (symbols.<n>.pit), so that it can be read elsewhere. Answers that were there before are replaced,
 * at once and only when all is written; a name that is not found any more stays.
 */
#ifndef PITOT_RECORD_SYMBOLIZE_H
#define PITOT_RECORD_SYMBOLIZE_H

#include "base/error.h"
#include "symbol/symbolizer.h"

struct symbolize_result {
	struct symbolizer *symbolizer; /* has the reports by module */
	uint64_t addresses; /* distinct ones, of all processes */
	uint64_t by[SOURCE_COUNT]; /* of these, by what answered */
	uint64_t with_line;
	uint64_t rows; /* written: one a function, inlined ones too */
};

/*
 * `path` is the recording's directory. 0 and *out (symbolize_release) or a negative code. A
 * recording without native frames is no error, and nothing is written.
 */
int symbolize_recording(const char *path, const struct symbolizer_options *options,
			struct symbolize_result *out, struct error *e) MUST_USE;
void symbolize_release(struct symbolize_result *r);

#endif
