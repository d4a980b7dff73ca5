/*
 * steps.h: the steps of each process: passes of its outermost loop, such as those of a training.
 * Evidence, in the order of trust: scopes and NVTX ranges that are named like steps, a loop in the
 * sequence of launches (causes/launch_loop.h), launches of one graph that has nearly all work. No
 * step is better than a wrong one: then the loop has the reason. Computed if report_options.steps.
 *
 * A step has a part on the host, and all work launched while it lasts, by whatever thread. It
 * starts when its host part has begun and all earlier steps are over, and ends when both its host
 * part and its work have ended. Therefore steps of a process do not overlap, although the host may
 * be several steps ahead of the GPU.
 */
#ifndef PITOT_ANALYSIS_STEPS_H
#define PITOT_ANALYSIS_STEPS_H

#include "analysis/critical_path.h"
#include "analysis/stats.h"

enum step_source { STEPS_NONE, STEPS_SCOPES, STEPS_RANGES, STEPS_LAUNCHES, STEPS_GRAPHS };

/* Names of the reasons are those in JSON; texts follow "no steps: ". */
#define STEP_REASONS(X)                                                                            \
	X(found, "")                                                                               \
	X(short, "too few launches")                                                               \
	X(irregular, "launches do not repeat")                                                     \
	X(unmarked, "launches repeat, but without copies from or to the host, or waiting: "        \
		    "steps, or something inside of them")                                          \
	X(nested, "launches repeat in loops inside of each other")                                 \
	X(overlap, "steps of several threads overlap")                                             \
	X(window, "none of them lies in the window")

enum step_reason {
#define REASON(name, text) STEP_REASON_##name,
	STEP_REASONS(REASON)
#undef REASON
};

struct step {
	uint64_t start_ns, end_ns;
	uint64_t host_start_ns, host_end_ns;
	uint32_t loop; /* item of steps.loops */
	uint32_t number; /* from 1, in its loop */
	uint64_t launches, work_ns; /* number and total duration of its GPU work */
	bool is_slow;
};

struct step_loop {
	uint32_t process;
	uint8_t source; /* enum step_source */
	uint8_t reason; /* enum step_reason */
	uint32_t name; /* SCOPES, RANGES: string id; LAUNCHES: of the first kernel, or 0 */
	size_t first, count; /* of steps.items */
	size_t breaks; /* LAUNCHES: times between steps that are none */
	struct duration_stats time;
	uint64_t p90_ns, mad_ns; /* mad: median absolute deviation */
	uint64_t slow_ns; /* steps that take longer are slow; 0: too few steps to tell */
	uint64_t slow_count;
	uint64_t span_ns; /* from the first start to the last end */
	uint64_t work_ns; /* of all GPU work of the process */
	/* of the other steps, on average */
	uint64_t usual_ns, usual_launches, usual_work_ns;
};

/* How much more a slow step spent on an owner of the critical path than the others on average. */
struct step_difference {
	struct path_place place;
	int64_t ns;
	bool is_rest; /* all other owners of the class together */
};

#define STEP_DIFFERENCES 3u

struct slow_step {
	size_t step; /* of steps.items */
	struct step_difference
		differences[STEP_DIFFERENCES + 1]; /* the largest first, the rest last */
	size_t difference_count;
	uint64_t calls, usual_calls; /* that allocate or release memory; usual: mean, rounded */
	uint64_t losses; /* rows of table loss during the step */
	uint64_t clock_mhz, usual_clock_mhz; /* means of the GPUs' readings; 0: none */
};

struct steps {
	struct step_loop *loops; /* one of each process with GPU work, also those without steps */
	size_t loop_count;
	struct step *items; /* by loop, then by time */
	size_t count;
	struct slow_step *slow; /* the slowest first */
	size_t slow_count;
};

#define STEPS_STATS_MIN 5u /* steps, to tell slow ones */

/* The step of a loop during whose host part something happened; NULL: none. */
const struct step *steps_at(const struct steps *s, const struct step_loop *loop, uint64_t host_ns);

/* --- step_find.c --- */

#define STEP_NAME_MAX 64u

/*
 * Whether a range of this name is a step. Sets `name` to its form without numbers: "Training step
 * 12" is "training_step".
 */
bool step_name_read(const char *text, char name[STEP_NAME_MAX]);

struct step_list {
	VEC(struct step) items; /* with host times and `number` only */
};

/*
 * Finds the steps of a process, whose tasks these are, and appends them. Fills in source, reason,
 * name and breaks. 0 or -ENOMEM.
 */
int step_find(const struct report *r, uint32_t process, uint32_t first_task, uint32_t end_task,
	      struct step_loop *loop, struct step_list *list) MUST_USE;

#endif
