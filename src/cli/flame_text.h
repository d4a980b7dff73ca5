/* flame_text.h: a flame graph as an indented tree for a terminal. */
#ifndef PITOT_CLI_FLAME_TEXT_H
#define PITOT_CLI_FLAME_TEXT_H

#include "analysis/flame/flame.h"
#include "base/strbuf.h"

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
