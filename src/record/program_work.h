/*
 * program_work.h: what a recorded program has done in the last seconds, and what it waits for now
 * (`pitot top`, `pitot dump --stacks`). Texts are safe for a terminal.
 */
#ifndef PITOT_RECORD_PROGRAM_WORK_H
#define PITOT_RECORD_PROGRAM_WORK_H

#include "base/clock.h"
#include "base/json.h"
#include "base/vec.h"
#include "record/live_tail.h"

#define WORK_WINDOW_NS (2 * NS_PER_S)
#define WORK_STALE_NS (5 * NS_PER_S) /* after the last GPU work, figures are those of an idle GPU */

/* A kernel, or a line that launches kernels. */
struct work_share {
	char *name, *line; /* of a kernel: where most of it was launched, "" if that is unknown */
	uint64_t count, total_ns;
};

/* A call of the program that waits for the GPU and has not returned. */
struct work_wait {
	char *function, *line; /* "": unknown */
	/* The oldest work without an end, if the call is at least a second old; "": unknown. */
	char *work;
	uint32_t thread;
	uint64_t for_ns;
};

struct program_work {
	uint64_t window_ns; /* that the figures cover; 0: no GPU work was recorded lately */
	uint64_t launches, kernels;
	uint64_t busy_ns; /* of the GPU that was busiest */
	bool knows_waits;
	VEC(struct work_share) busiest, lines; /* by time, longest first */
	VEC(struct work_wait) waits; /* oldest first */
};

/*
 * Reads the figures of a process that is being recorded; `top`: at most so many kernels and lines.
 * Returns 0, -ESRCH if t must be opened again, or another negative code. Release *out in any case.
 */
int program_work_read(struct live_tail *t, size_t top, struct program_work *out,
		      struct error *e) MUST_USE;
void program_work_release(struct program_work *w);
void work_wait_json(const struct work_wait *w, struct json *j);

#endif
