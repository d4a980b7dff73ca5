/*
 * verdict.h: what bounds the program, in one word, and the evidence. The verdict is about the GPU
 * that was busy longest, from its first to its last work. Pauses (loading a model before training,
 * compiling) are excluded and reported: gaps of at least 100 ms and a fifth of that time, three
 * times as long as the longest gap that is not a pause; at most three. What Pitot measured is
 * excluded and reported, too; if that is more than half of the time, there is no verdict.
 *
 * If the GPU is busy for at least VERDICT_BUSY_PERCENT of that time, the program is GPU-bound, or
 * copy-bound if copies that no kernel hides are more than half of it. Else the largest part of the
 * idle time decides (enum idle_part), where copies that no kernel hides count as idle.
 */
#ifndef PITOT_ANALYSIS_VERDICT_H
#define PITOT_ANALYSIS_VERDICT_H

#include "analysis/busy.h"
#include "analysis/idle.h"
#include "analysis/launches.h"
#include "analysis/sync_calls.h"
#include "base/strbuf.h"

#define VERDICT_BUSY_PERCENT 85

enum verdict_kind {
	VERDICT_NO_WORK, /* no GPU has any */
	VERDICT_UNTIMED, /* nearly all work lacks times */
	VERDICT_INSTANT, /* all work lasts 0 ns */
	VERDICT_MEASURED, /* Pitot measured for most of the time */
	VERDICT_GPU,
	VERDICT_LAUNCH,
	VERDICT_CALL, /* slow launch calls */
	VERDICT_COPY,
	VERDICT_SYNC,
	VERDICT_LATENCY,
	VERDICT_HOST,
	VERDICT_WAIT, /* for other ranks, in collectives */
	VERDICT_IDLE, /* for a reason that is not recorded */
	VERDICT_KINDS,
};

struct verdict {
	enum verdict_kind kind; /* for the kinds before MEASURED only the next line is valid */
	uint64_t work, untimed; /* pieces of GPU work, and how many of them have no times */
	size_t gpu; /* item of struct gpus */
	/* from its first to its last work, excluding pauses and IDLE_PART_MEASURING */
	uint64_t span_ns;
	uint64_t pauses, pause_ns; /* number and total length of the excluded gaps */
	uint64_t busy_ns; /* union, excluding wait_ns */
	uint64_t wait_ns; /* nothing but collectives ran, which waited for other ranks */
	uint64_t exposed_copy_ns; /* copies that overlap with no kernel */
	uint64_t part_ns[IDLE_PARTS]; /* of gaps but pauses; COPY includes exposed copies */
	uint64_t measured; /* number of launches and ranges that Pitot measured meanwhile */
	uint64_t launches, launch_mean_ns; /* number of other launch calls, mean host time */
	uint64_t sync_calls;
	uint64_t before_ns, after_ns; /* of the window: before the first and after the last work */
	uint64_t pieces; /* pieces of work of this GPU */
	struct start_up start_up;
};

/* Result of analysis_verdicts. */
struct verdicts {
	struct verdict whole;
	struct verdict later; /* on the time after whole.start_up; all zero if there is none */
};

/* "launch" and so on: stable, for JSON. */
const char *verdict_key(unsigned kind);
/* "launch-bound" and so on. */
const char *verdict_name(unsigned kind);
/* One sentence with the numbers; lower case, no full stop. */
void verdict_sentence(const struct verdict *v, struct strbuf *out);
/* What usually helps; "": no advice. */
const char *verdict_advice(unsigned kind);

#endif
