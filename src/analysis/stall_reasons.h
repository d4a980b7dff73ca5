/*
 * stall_reasons.h: what the samplers of GPUs call the states of warps, in words.
 *
 * A sampler looks at one warp of a multiprocessor every period and says which instruction it is at
 * and in which state: it issues the instruction (selected), it could have but another warp did
 * (not_selected), or it waits for something. The names are those of metrics:
 * smsp__pcsamp_warps_issue_stalled_<state>, and with _not_issued for the samples of cycles in which
 * the scheduler issued no instruction of any warp: those waits were hidden by no other warp.
 */
#ifndef PITOT_ANALYSIS_STALL_REASONS_H
#define PITOT_ANALYSIS_STALL_REASONS_H

#include <stdbool.h>
#include <stddef.h>

struct stall_reason {
	const char *name; /* without prefix and suffix */
	const char *words; /* "waiting for global or local memory" */
	const char *advice; /* what usually helps; "": nothing to say */
	bool is_wait; /* else the warp issued, or could have */
};

/*
 * The length of the state in a name, where it begins, and whether the name is of cycles in which
 * nothing was issued.
 */
struct stall_name {
	const char *state;
	size_t length;
	bool not_issued;
};

struct stall_name stall_name_of(const char *name);
/*
 * A state that is not known has its name as words. `name`: as in struct stall_name, with its NUL.
 */
struct stall_reason stall_reason_of(const char *name);

#endif
