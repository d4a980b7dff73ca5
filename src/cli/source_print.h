/*
 * source_print.h: samples of kernels beside source and instructions, for `pitot source` and
 * `pitot report --source`.
 */
#ifndef PITOT_CLI_SOURCE_PRINT_H
#define PITOT_CLI_SOURCE_PRINT_H

#include "analysis/source_view.h"
#include "cli/ui.h"

struct source_print {
	struct filter filter;
	/* "FILE:LINE", or the name of a kernel, see text_matches; NULL: the hottest lines */
	const char *at;
	const char *file; /* glob of files; NULL: all */
	const char *root; /* --source-root */
	const char *nvdisasm; /* program; NULL: search for it */
	bool no_sass; /* do not run nvdisasm */
	unsigned limit_s;
	uint64_t top; /* number of lines */
	const char *output; /* file of the page; NULL: print text or JSON */
	bool overwrite;
	const char *recording;
};

#define SOURCE_LIMIT_S 60
#define SOURCE_NOTHING                                                                             \
	"the recording has neither samples nor instruction counts of kernels: make one with "      \
	"`pitot record --engine pc-sampling` or `--engine sass-metrics`"

/* Ends the progress bar, prints, and returns an exit status. */
int source_print(const struct context *c, struct trace *t, const struct source_print *p,
		 struct progress *progress);

#endif
