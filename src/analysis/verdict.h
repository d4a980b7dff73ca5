/*
 * verdict.h: what bounds the program, as one word with its evidence. It speaks of the GPU that was
 * busy longest, and of the time from its first to its last work. Pauses are left out and named: a
 * gap of at least 100 ms and a fifth of that time, three times as long as the longest gap that is
 * no pause; at most three of them (loading a model before training, compiling).
 *
 * At least VERDICT_BUSY_PERCENT of that time busy: GPU-bound, or copy-bound when copies that no
 * kernel hides are the larger part of it. Else the largest part of the idle time decides (enum
 * idle_part), where copies that no kernel hides count as idle.
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
	VERDICT_NO_WORK, /* on any GPU */
	VERDICT_UNTIMED, /* nearly all work is without times */
	VERDICT_GPU,
	VERDICT_LAUNCH,
	VERDICT_COPY,
	VERDICT_SYNC,
	VERDICT_LATENCY,
	VERDICT_HOST,
	VERDICT_IDLE, /* and why is not recorded */
	VERDICT_KINDS,
};

struct verdict {
	enum verdict_kind kind; /* without figures below for the two first ones */
	uint64_t work, untimed; /* pieces of work on GPUs, and how many of them have no times */
	size_t gpu; /* item of struct gpus */
	uint64_t span_ns; /* from the first to the last work of it, without pauses */
	uint64_t pauses, pause_ns; /* long gaps that are left out, and how long they are */
	uint64_t pause_start_ns; /* of the longest */
	uint64_t busy_ns; /* union */
	uint64_t exposed_copy_ns; /* copies without a kernel beside them */
	uint64_t part_ns[IDLE_PARTS]; /* of gaps that are no pauses; COPY: and exposed copies */
	uint64_t launches, launch_mean_ns; /* calls, host time of each */
	uint64_t sync_calls;
	uint64_t before_ns, after_ns; /* of the window: before the first, after the last work */
	uint64_t pieces; /* of work, and those of a slow start-up, if there is one */
	struct start_up start_up;
};

/* Result of analysis_verdicts. */
struct verdicts {
	struct verdict whole;
	struct verdict later; /* of what follows whole.start_up; all zero without one */
};

/* "launch" and so on: stable, for JSON. */
const char *verdict_key(unsigned kind);
/* "launch-bound" and so on. */
const char *verdict_name(unsigned kind);
/* One sentence with the numbers; lower case, no full stop. */
void verdict_sentence(const struct verdict *v, struct strbuf *out);
/* What usually helps; "" if nothing is to be said. */
const char *verdict_advice(unsigned kind);

#endif
