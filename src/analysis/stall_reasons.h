/*
 * stall_reasons.h: descriptions of the warp states that GPU samplers report.
 *
 * Every period, a sampler records the instruction and state of one warp of a multiprocessor: the
 * warp issues the instruction (selected), it was ready but another warp issued (not_selected), or
 * it waits for something. Names are those of metrics, smsp__pcsamp_warps_issue_stalled_<state>,
 * with the suffix _not_issued for cycles in which the scheduler issued no instruction of any warp,
 * that is, for waits that no other warp hides.
 */
#ifndef PITOT_ANALYSIS_STALL_REASONS_H
#define PITOT_ANALYSIS_STALL_REASONS_H

#include <stdbool.h>
#include <stddef.h>

struct stall_reason {
	const char *name; /* without prefix and suffix */
	const char *words; /* "waiting for global or local memory" */
	const char *advice; /* what usually helps; "": no advice */
	bool is_wait; /* false: the warp issued or was ready */
};

/* The state within a metric's name, and whether the name has the suffix _not_issued. */
struct stall_name {
	const char *state;
	size_t length;
	bool not_issued;
};

struct stall_name stall_name_of(const char *name);
/* `name`: a state, NUL-terminated. Unknown states are described by their name. */
struct stall_reason stall_reason_of(const char *name);

#endif
