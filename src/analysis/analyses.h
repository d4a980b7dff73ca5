/*
 * analyses.h: one line for each analysis of a report. `name` is the member of struct report that
 * points to its result, the result's type is struct `name`, and `analysis_name` in a file of its
 * own makes it. Two threads share those that read no others' results, the longest at the head; then
 * run those that do, in the order in which they need each other.
 */
#ifndef PITOT_ANALYSIS_ANALYSES_H
#define PITOT_ANALYSIS_ANALYSES_H

#include <stddef.h>

#include "base/error.h"
#include "trace/trace.h"

#define ANALYSES(X)                                                                                \
	X(hotspots)                                                                                \
	X(idle)                                                                                    \
	X(busy)                                                                                    \
	X(launches)                                                                                \
	X(cpu_use)                                                                                 \
	X(graphs)                                                                                  \
	X(syncs)                                                                                   \
	X(waits)                                                                                   \
	X(failures)                                                                                \
	X(range_times)                                                                             \
	X(scope_times)                                                                             \
	X(copies)                                                                                  \
	X(memory_use)                                                                              \
	X(stalls)                                                                                  \
	X(instructions)                                                                            \
	X(counters)                                                                                \
	X(system_use)                                                                              \
	X(commands)                                                                                \
	X(no_gpu)                                                                                  \
	X(verdicts)                                                                                \
	X(idle_lines)                                                                              \
	X(gpu_functions)                                                                           \
	X(inner_callers)                                                                           \
	X(cost)

struct report;

struct column_need {
	enum table_id table;
	uint64_t columns; /* COLUMN_BITS; 0: all */
};
#define COLUMN_NEEDS_MAX 3

struct analysis {
	size_t size; /* of the result, which is zeroed before `run` */
	/*
	 * Columns to load, beside those that all analyses share (report.c); table 0 ends the list.
	 */
	struct column_need needs[COLUMN_NEEDS_MAX];
	/* Loads what depends on the recording; NULL: nothing. 0 or a negative code. */
	int (*load)(struct trace *t, struct error *e);
	/*
	 * Fills *out, in a thread of its own unless `reads_others`. 0 or a negative code; *out is
	 * released in any case.
	 */
	int (*run)(struct report *r, void *out);
	/* What the result owns: one array, or what `release` frees. */
	size_t owned; /* OWNS(type of the result, member) */
	void (*release)(void *out);
	bool reads_others; /* runs alone, after all analyses before it */
};

#define OWNS(type, member) .owned = offsetof(type, member) + 1

/* Frees a result (NULL: nothing). */
void analysis_release(const struct analysis *a, void *result);

#define DECLARE_ANALYSIS(name) extern const struct analysis analysis_##name;
ANALYSES(DECLARE_ANALYSIS)
#undef DECLARE_ANALYSIS

#endif
