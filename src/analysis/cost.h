/* cost.h: sums of Pitot's own cost as it measured it, and of known losses. */
#ifndef PITOT_ANALYSIS_COST_H
#define PITOT_ANALYSIS_COST_H

#include "analysis/capabilities.h"
#include "base/compiler.h"
#include "schema/loss_kinds.h"

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
	bool unknown; /* at least one row has no count */
	uint64_t rows;
	uint64_t tails; /* LOST_TAIL: events of the processes */
	enum loss_effect effect;
	uint64_t start_ns, end_ns;
	uint64_t length_ns; /* sum over all rows */
};

struct lost_share {
	uint64_t lost; /* as far as the losses have counts */
	bool least; /* some losses have no count */
	uint64_t recorded; /* in the recording */
};

struct cost {
	struct cost_sum kinds[COST_KINDS];
	/*
	 * The program did not run on the machine's clock (a tape was played): only kinds measured
	 * in CPU time are known, and target_ns is not. From capability `cost`.
	 */
	bool clock_replaced;
	/* Time on the program's own threads: callbacks, set-up, exit, buffer requests. */
	uint64_t target_ns;
	struct loss_sum *losses; /* by reason and detail, in order of first appearance */
	size_t loss_count;
	enum loss_effect effect; /* of all losses together */
	struct lost_share all, gpu; /* of all events, and of CUPTI's activity records */
	struct capability_note own_profiler; /* of the program: how it shared CUPTI */
	uint64_t overhead_ns; /* CUPTI's own overhead, as it reports it */
	uint64_t overhead_count;
};

/* A damaged or hostile recording must not hide losses by counts whose sum overflows. */
#define LOST_MAX (UINT64_MAX / 2)

/* Adds to a sum that stays at LOST_MAX, so that the number of recorded rows can be added to it. */
static inline void add_lost(uint64_t *sum, uint64_t more)
{
	*sum += MIN(more, LOST_MAX - *sum);
}

/* Loads what it needs. Always covers the whole recording. 0 or a negative code. */
int cost_analyze(struct trace *t, struct cost *out, struct error *e) MUST_USE;
void cost_release(struct cost *c);

/* The first loss with the reason, NULL if there is none. */
const struct loss_sum *cost_find_loss(const struct cost *c, enum loss_reason reason);
/* "callback" and so on; "unknown" for invalid values. */
const char *cost_kind_name(unsigned kind);
enum loss_effect lost_share_effect(const struct lost_share *s);
/* The loss with the largest effect, of these the largest; NULL if nothing is lost. */
const struct loss_sum *cost_worst_loss(const struct cost *c);
/* Appends "53 records dropped by CUPTI"; not its detail. */
void loss_sum_text(const struct loss_sum *l, struct strbuf *out);

#endif
