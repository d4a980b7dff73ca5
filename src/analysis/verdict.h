/*
 * verdict.h: what bounds the program, in one word, and the evidence. The verdict is about the
 * process whose GPU work took longest, from its first to its last work on any GPU, and is made from
 * the bounds of its critical path (bounds.h). Pauses (loading a model before training, compiling;
 * see steady.h) are excluded and reported. What Pitot measured is excluded and reported, too; if
 * that is more than half of the time, there is no verdict.
 *
 * Bounds are of the GPU, the host, synchronization, or unknown. Of these the largest decides, and
 * within it the largest bound. If the GPU was busy for VERDICT_BUSY_PERCENT of the time, but the
 * host has the larger part of the path, the two limit the pace alike, or the recording lacks what
 * work waited for: then there is no verdict.
 */
#ifndef PITOT_ANALYSIS_VERDICT_H
#define PITOT_ANALYSIS_VERDICT_H

#include "analysis/bounds.h"
#include "analysis/critical_path.h"
#include "analysis/warmup.h"
#include "base/strbuf.h"

#define VERDICT_BUSY_PERCENT 85

/*
 * Whether a path cannot be what bounded the time: the GPU was busy for nearly all of it, but the
 * path is in host code and calls for longer than in GPU work. Then dependencies are missing from
 * the recording, or both limit the pace alike. class_ns: of the path, by enum path_class.
 */
static inline bool verdict_contradicts(const uint64_t *class_ns, uint64_t busy_ns,
				       uint64_t whole_ns)
{
	return busy_ns >= whole_ns / 100 * VERDICT_BUSY_PERCENT &&
	       class_ns[PATH_HOST] + class_ns[PATH_CALL] >
		       class_ns[PATH_KERNEL] + class_ns[PATH_COPY] + class_ns[PATH_MEMSET] +
			       class_ns[PATH_GRAPH];
}

enum verdict_kind {
	VERDICT_NO_WORK, /* no GPU has any */
	VERDICT_UNTIMED, /* nearly all work lacks times */
	VERDICT_INSTANT, /* all work lasts 0 ns */
	VERDICT_MEASURED, /* Pitot measured for most of the time */
	VERDICT_UNDECIDED, /* GPU and host contradict each other */
	VERDICT_BOUND, /* and enum bound */
	VERDICT_KINDS = VERDICT_BOUND + BOUNDS,
};

struct verdict {
	unsigned kind; /* for the kinds before MEASURED only the next line is valid */
	uint64_t work, untimed; /* pieces of GPU work, and how many of them have no times */
	struct bounds bounds; /* their span excludes pauses and Pitot's measuring */
	size_t gpu; /* item of struct gpus: the one that the process kept busy longest */
	uint64_t processes; /* that have GPU work */
	uint64_t pauses, pause_ns; /* number and total length of the excluded gaps */
	uint64_t busy_ns; /* of this GPU, by this process, excluding BOUND_WAIT */
	uint64_t exposed_copy_ns; /* copies that overlap with no kernel of that GPU */
	uint64_t measured; /* number of launches and ranges that Pitot measured meanwhile */
	/* of the whole window, 0 in verdicts.later: number of other launch calls, mean host time */
	uint64_t launches, launch_mean_ns;
	uint64_t sync_calls;
	uint64_t before_ns, after_ns; /* of the window: before the first and after the last work */
	uint64_t pieces; /* pieces of work of the process */
	struct start_up start_up;
};

/* Result of analysis_verdicts. */
struct verdicts {
	struct verdict whole;
	struct verdict later; /* on the time after whole.start_up; all zero if there is none */
};

static inline bool verdict_is(const struct verdict *v, enum bound bound)
{
	return v->kind == VERDICT_BOUND + (unsigned)bound;
}

/* "launch" and so on: stable, for JSON. */
const char *verdict_key(unsigned kind);
/* "launch-bound" and so on. */
const char *verdict_name(unsigned kind);
/* What the path's time of a bound was: "host code and calls of 100 us or more". */
const char *verdict_bound_text(unsigned bound);
/* One sentence with the numbers; lower case, no full stop. */
void verdict_sentence(const struct verdict *v, struct strbuf *out);
/* What usually helps; "": no advice. amd: in the words of AMD's GPUs. */
const char *verdict_advice(unsigned kind, bool amd);

#endif
