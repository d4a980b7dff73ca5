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
	const char *file; /* only such files; NULL: all */
	const char *root; /* --source-root */
	const char *nvdisasm; /* program; NULL: search it */
	bool no_sass; /* runs no program */
	unsigned limit_s;
	uint64_t top; /* lines */
	const char *output; /* a page; NULL: text, or JSON */
	bool overwrite;
	const char *recording;
};

#define SOURCE_LIMIT_S 60

/* Returns an exit status. Ends the bar. */
int source_print(const struct context *c, struct trace *t, const struct source_print *p,
		 struct progress *progress);

#endif
