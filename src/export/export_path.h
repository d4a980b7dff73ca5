/* export_path.h: the critical path of an exported window (cause_path.h), with names. */
#ifndef PITOT_EXPORT_EXPORT_PATH_H
#define PITOT_EXPORT_EXPORT_PATH_H

#include "base/strbuf.h"
#include "causes/cause_path.h"

struct export_path {
	struct causes causes;
	struct path path; /* pieces in the order of time */
	uint64_t since_ns, until_ns;
	const uint8_t *processes; /* NULL: all */
};

/*
 * Finds the path of the calls and the work that begin in the window [since_ns, until_ns), from the
 * first one to the end of the last that can end a path, of `processes` (a byte for each, which must
 * outlive the path; NULL: all).
 * Returns 0 or a negative code; export_path_release in either case.
 */
int export_path_find(struct export_path *p, struct trace *t, const uint8_t *processes,
		     uint64_t since_ns, uint64_t until_ns, struct error *e) MUST_USE;
void export_path_release(struct export_path *p);

/* Whether a task begins in the window, in a selected process. */
bool export_path_has(const struct export_path *p, uint32_t task);

/* Appends the name of a task: a kernel's, a call's. */
void export_task_name(const struct trace *t, const struct task *task, struct strbuf *out);
/* Appends what a piece was: the name of its task, a latency, "host before cudaLaunchKernel". */
void export_piece_name(const struct export_path *p, const struct path_piece *piece,
		       struct strbuf *out);

#endif
