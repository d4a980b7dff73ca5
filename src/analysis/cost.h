/* cost.h: what Pitot cost by its own measure, and what is known to be missing, summed up. */
#ifndef PITOT_ANALYSIS_COST_H
#define PITOT_ANALYSIS_COST_H

#include "analysis/capabilities.h"

#define COST_KIND_ONE(E, name, value) +1
#define COST_KINDS (0 ENUM_cost_kind(COST_KIND_ONE, ))

struct cost_sum {
	uint64_t count, total_ns, bytes;
	bool any;
};

struct loss_sum {
	enum loss_reason reason;
	const char *detail; /* "" if none; belongs to the trace */
	uint64_t count; /* sum of known counts */
	bool unknown; /* at least one row did not know how many */
	uint64_t rows;
	uint64_t start_ns, end_ns;
	uint64_t length_ns; /* of all rows, added */
};

struct cost {
	struct cost_sum kinds[COST_KINDS];
	/*
	 * Where the program's clock is not the machine's (a tape is played): only kinds that were
	 * measured in CPU time are known, and target_ns is not. Capability `cost`.
	 */
	bool clock_replaced;
	/* On the program's own threads: callbacks, set-up, exit, buffer requests. */
	uint64_t target_ns;
	struct loss_sum *losses; /* by reason and detail, in order of first appearance */
	size_t loss_count;
	uint64_t lost; /* events, as far as losses know how many */
	bool lost_least; /* some did not know */
	uint64_t recorded; /* events that are there */
	struct capability_note own_profiler; /* of the program: what it got, or did not */
	uint64_t overhead_ns; /* that CUPTI reports for itself */
	uint64_t overhead_count;
};

/* Loads what it needs; always about the whole recording. 0 or a negative code. */
int cost_analyze(struct trace *t, struct cost *out, struct error *e) MUST_USE;
void cost_release(struct cost *c);

/* "callback" and so on; "unknown" for other values. */
const char *cost_kind_name(unsigned kind);
const char *loss_reason_name(unsigned reason);
/* The same for people, to follow that number: "records dropped by CUPTI". */
const char *loss_reason_text(unsigned reason, uint64_t count);

#endif
