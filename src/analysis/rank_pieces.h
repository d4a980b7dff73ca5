/*
 * rank_pieces.h: what a rank's GPU did at each time, and which place of the program made it do so.
 *
 * Work comes before collectives, and these before idling: a piece of time in which a kernel and a
 * collective ran belongs to the kernel. So the collectives' pieces are exposed communication.
 */
#ifndef PITOT_ANALYSIS_RANK_PIECES_H
#define PITOT_ANALYSIS_RANK_PIECES_H

#include "analysis/callers.h"
#include "analysis/collectives.h"
#include "analysis/nvtx_ranges.h"
#include "base/map.h"

struct report;

enum rank_state {
	RANK_COMPUTE, /* a kernel or graph ran */
	RANK_COPY, /* a copy or memory set ran */
	RANK_HOST, /* idle: waited for the host */
	RANK_TRANSFER, /* only collectives ran, and all of their ranks had arrived */
	RANK_WAIT, /* only collectives ran, which waited for other ranks */
	RANK_STATES,
};

enum place_kind {
	PLACE_UNKNOWN,
	PLACE_LINE, /* of the program, as caller_text writes it */
	PLACE_RANGE, /* name of an NVTX range, in which digits are replaced by N */
	PLACE_KERNEL, /* short name of a kernel */
	PLACE_KINDS,
};

/* A place of the program, and what the GPU did because of it. */
struct rank_place {
	uint32_t text; /* item of the interner that rank_pieces_init was given */
	uint8_t kind; /* enum place_kind */
	uint8_t state; /* enum rank_state */
};

static inline bool rank_place_equal(struct rank_place a, struct rank_place b)
{
	return a.text == b.text && a.kind == b.kind && a.state == b.state;
}

struct rank_piece {
	uint64_t start_ns, end_ns; /* of the rank's own clock */
	struct rank_place place;
};

/* What the ranks of a report need. */
struct rank_pieces {
	struct report *report;
	struct interner *texts;
	struct map known; /* kind, id in the trace -> item of texts */
	struct nvtx_ranges ranges;
	struct map nccl_domains; /* process << 32 | domain */
	/* of one rank, in order of time, without gaps between the first and the last */
	VEC(struct rank_piece) pieces;
	/*
	 * What the host did between the launches of collectives, in order of time: RANK_HOST. Times
	 * in which it waited for the GPU are left out.
	 */
	VEC(struct rank_piece) host;
};

/* Adds to `texts`, which outlives the report. 0 or -ENOMEM; release *p in either case. */
int rank_pieces_init(struct rank_pieces *p, struct report *r, struct interner *texts) MUST_USE;
/*
 * Lists the pieces of a rank. parts: those of the rank by their start, with the own clock's times;
 * last_ns: for each, when its last rank arrived, or its start if that is unknown. 0 or -ENOMEM.
 */
int rank_pieces_find(struct rank_pieces *p, const struct job_rank *rank,
		     const struct collective_part *parts, const uint64_t *last_ns,
		     size_t count) MUST_USE;
/*
 * Sets kind and text of a place. id: a caller, or the string id of the name of a range or kernel. 0
 * or -ENOMEM.
 */
int rank_pieces_place(struct rank_pieces *p, struct rank_place *place, enum place_kind kind,
		      uint32_t id) MUST_USE;
/* Sets kind and text to the line of a call, or else its range: PLACE_UNKNOWN if it has neither. */
int rank_pieces_call(struct rank_pieces *p, uint32_t process, uint32_t call,
		     struct rank_place *place) MUST_USE;

/* A time of the thread of a call, before the call. */
struct host_span {
	uint64_t start_ns, end_ns;
	uint32_t call;
};

/*
 * Lists only what the host of a rank did in these spans, which are in order of their starts, as
 * `host`. 0 or -ENOMEM.
 */
int rank_pieces_host(struct rank_pieces *p, const struct job_rank *rank,
		     const struct host_span *spans, size_t count) MUST_USE;
void rank_pieces_release(struct rank_pieces *p);

#endif
