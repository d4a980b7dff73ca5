/*
 * instructions.h: instruction counts of measured launches (--engine sass-metrics), and hints for
 * lines that stand out.
 */
#ifndef PITOT_ANALYSIS_INSTRUCTIONS_H
#define PITOT_ANALYSIS_INSTRUCTIONS_H

#include "analysis/stalls.h"

struct instruction_hint {
	bool is_divergent; /* else uncoalesced */
	const struct stall_place *place; /* a line, or an instruction if no lines are known */
	const struct sass_counts *whole;
};
#define INSTRUCTION_HINTS_MAX 20u

struct instructions {
	struct stalls stalls;
	struct instruction_hint hints[INSTRUCTION_HINTS_MAX];
	size_t hint_count;
};

/* Finds hints, the most important first. Returns their number. */
size_t instruction_hints(const struct stalls *s,
			 struct instruction_hint hints[INSTRUCTION_HINTS_MAX]);
const char *instruction_hint_kind(const struct instruction_hint *h);
/* "divergent: 11.0 of 32 threads, kernel.cu:88" and "1,200 warp instructions, 74.1% of all" */
void instruction_hint_text(const struct instruction_hint *h, struct strbuf *out);
void instruction_hint_evidence(const struct instruction_hint *h, struct strbuf *out);

#endif
