/*
 * rank_path.h: the critical path of a job of several ranks, from its first collective after the
 * start-up to its last one. Computed if report_options.critical_path, or if the verdict blames a
 * rank, which is then held against it.
 *
 * On a rank the path is that of causes/cause_path.h. Where it comes behind the kernel of a
 * collective that waited for another rank (ranks/collective_wait.h), the time from that rank's
 * begin on is the transfer, and the path goes on before that rank's kernel. Where ranks came within
 * the uncertainty of their clocks it stays on its rank. So its pieces tile the window, and none of
 * them is waiting for another rank; only collectives of which all parts are known lead to others.
 *
 * Of each collective only where the path before it leads is stored; the pieces are found again for
 * those on the path. So one process is open at a time (job_report.h).
 */
#ifndef PITOT_ANALYSIS_RANK_PATH_H
#define PITOT_ANALYSIS_RANK_PATH_H

#include "analysis/collectives.h"
#include "analysis/critical_path.h"
#include "analysis/rank_verdict.h"

/* Classes besides enum path_class. */
enum {
	RANK_PATH_TRANSFER = PATH_CLASSES, /* of a collective */
	RANK_PATH_PAUSE, /* in a pause that the verdict excludes (steady.h) */
	RANK_PATH_CLASSES,
};
#define RANK_PATH_NO_TEXT UINT32_MAX

struct rank_path_owner {
	uint64_t ns, count; /* of pieces */
	uint32_t rank; /* item of collectives.ranks */
	uint32_t name, line; /* items of texts: what it is, and who called; or NO_TEXT */
	uint8_t class; /* enum path_class or one of those above */
};

/* A stay of the path on a rank, from where others waited for it until it waited for another. */
struct rank_path_stay {
	uint64_t start_ns, end_ns; /* since the window's start */
	uint32_t rank; /* item of collectives.ranks */
};

struct rank_on_path {
	uint64_t ns, transfer_ns, pause_ns; /* on the path; of this, transfers and pauses */
	uint64_t stays;
	uint32_t rank; /* item of collectives.ranks */
};

struct rank_path {
	uint64_t start_ns, window_ns; /* of the first host's clock; window_ns 0: there is none */
	struct rank_path_owner *owners; /* the longest first; they add up to window_ns */
	size_t owner_count;
	struct rank_on_path *ranks; /* those on the path, the longest first */
	size_t rank_count;
	struct rank_path_stay *stays; /* from the last to the first; they tile the window */
	size_t stay_count;
	uint64_t class_ns[RANK_PATH_CLASSES];
	uint64_t collectives; /* through which it leads */
	struct interner texts;
};

/*
 * Finds the path. If it is mostly on another rank than the one that *times blames, one of the two
 * is wrong: then the verdict abstains. 0 or a negative code; release *out in either case.
 */
int rank_path_find(const struct job_source *source, const struct collectives *c,
		   struct rank_times *times, struct rank_path *out) MUST_USE;

#endif
