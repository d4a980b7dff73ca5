/*
 * what_if_ranks.h: simulates the ranks of a job together with the process of a what-if. The kernel
 * of a collective ends when all ranks that it needs (ranks/collective_wait.h) have begun it and it
 * has transferred: its transfer is a cost, and its waiting results from the others. Ranks are
 * simulated in turn, each until it needs a rank that has not come so far. If each needs another
 * one, because ranks launch collectives of several communicators in different orders, what did not
 * come counts as recorded.
 */
#ifndef PITOT_ANALYSIS_WHAT_IF_RANKS_H
#define PITOT_ANALYSIS_WHAT_IF_RANKS_H

#include "analysis/collectives.h"
#include "analysis/rank_verdict.h"
#include "causes/simulate.h"

/* The simulated tasks of a process. */
struct task_range {
	uint32_t first, end;
	uint32_t next; /* while they are simulated */
	uint32_t rank; /* in the job */
	/* Of times at which it is slower than the median: number, and by how much. */
	uint64_t slower, slower_ns;
};

struct what_if_ranks {
	const struct causes *causes;
	const struct collectives *collectives;
	/* One for each rank's process, in the order of their tasks; none: ranks are unknown. */
	VEC(struct task_range) ranges;
	uint32_t first, end; /* of all of them */
	uint32_t *part_of; /* by task from `first` on: the part that it is, or UINT32_MAX */
	/* by part: its task, or UINT32_MAX: it is not simulated; match; what it needs; in a
	 * simulation, whether it has begun */
	uint32_t *task_of, *match_of, *needs;
	uint8_t *begun;
	uint32_t *missing; /* by match, in a simulation: parts that have not begun */
	/*
	 * By task from `first` on: by which factor the rank's own work before a collective is
	 * longer than that of the median rank, inverted.
	 */
	float *pace;
	uint64_t unresolved; /* parts that counted as recorded, in the latest simulation */
};

/*
 * Finds the ranks, of which one has the tasks `own`, and the tasks of the others from start_ns to
 * end_ns by its clock. 0 or -ENOMEM; release *r in either case.
 */
int what_if_ranks_init(struct what_if_ranks *r, const struct causes *causes,
		       const struct collectives *c, const struct rank_times *t,
		       struct task_range own, uint64_t start_ns, uint64_t end_ns) MUST_USE;
void what_if_ranks_release(struct what_if_ranks *r);

/* Whether a task is the kernel of a collective that is simulated. */
static inline bool what_if_ranks_has(const struct what_if_ranks *r, uint32_t task)
{
	return r->part_of && r->part_of[task - r->first] != UINT32_MAX;
}

/* The range that has a task of a rank; NULL: none has. */
const struct task_range *what_if_ranks_range(const struct what_if_ranks *r, uint32_t task);

/*
 * Simulates all tasks, into items from r->first on, which have the recorded times before. The costs
 * of collectives are those of their transfers; waits() returns what one waits instead of `ns`.
 */
void what_if_ranks_simulate(struct what_if_ranks *r, const struct simulation *s,
			    struct simulated *times,
			    uint64_t (*waits)(void *user, uint32_t task, uint64_t ns));

#endif
