/*
 * flame_print.h: what `pitot flame` prints in addition to the graph: JSON for scripts, and notes on
 * missing data.
 */
#ifndef PITOT_CLI_FLAME_PRINT_H
#define PITOT_CLI_FLAME_PRINT_H

#include "analysis/capabilities.h"
#include "analysis/flame/flame.h"
#include "base/strbuf.h"

/* Appends one JSON object (docs/flame.md) and a newline. */
void flame_print_json(const struct flame *f, struct strbuf *out);

/*
 * Appends why the graph is empty, or returns false if it is not. `narrowed`: --since, --until or
 * --where was given.
 */
bool flame_print_empty(const struct flame *f, bool narrowed, struct strbuf *out);

/*
 * Appends notes on work without times, work without a launch, calls and samples without a stack,
 * and on why there are no CPU samples (with `cpu_wanted` even if none were requested). Appends
 * nothing if nothing is missing. cpu is NULL if CPU time is not shown.
 */
void flame_print_gaps(const struct flame *f, const struct capability_note *cpu, bool cpu_wanted,
		      struct strbuf *out);

/* Prints a flame graph as an indented tree for a terminal. */
struct flame_text {
	const struct flame *flame;
	unsigned width; /* columns */
	bool color, bars;
	uint64_t least_percent_tenths; /* smaller frames are counted, not shown */
	uint64_t depth; /* levels of the tree; 0: all */
	struct strbuf *out;
};

void flame_text_print(const struct flame_text *t);

#endif
