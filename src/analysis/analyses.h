/*
 * analyses.h: the list of analyses of a report. For X(name), `name` is the member of struct report
 * that points to the result, struct `name` is the result's type, and `analysis_name` is defined in
 * a file of its own. Two threads run the analyses that do not read the results of others, the
 * longest first; afterwards the others run one by one, in the order of their dependencies.
 */
#ifndef PITOT_ANALYSIS_ANALYSES_H
#define PITOT_ANALYSIS_ANALYSES_H

#include <stddef.h>

#include "base/error.h"
#include "trace/trace.h"

#define ANALYSES(X)                                                                                \
	X(hotspots)                                                                                \
	X(stream_states)                                                                           \
	X(critical_path)                                                                           \
	X(steps)                                                                                   \
	X(idle)                                                                                    \
	X(busy)                                                                                    \
	X(launches)                                                                                \
	X(cpu_use)                                                                                 \
	X(graphs)                                                                                  \
	X(syncs)                                                                                   \
	X(waits)                                                                                   \
	X(last_words)                                                                              \
	X(last_readings)                                                                           \
	X(thread_states)                                                                           \
	X(triggered)                                                                               \
	X(failures)                                                                                \
	X(range_times)                                                                             \
	X(scope_times)                                                                             \
	X(scope_counters)                                                                          \
	X(copies)                                                                                  \
	X(memory_use)                                                                              \
	X(memory_peak)                                                                             \
	X(memory_steps)                                                                            \
	X(stalls)                                                                                  \
	X(instructions)                                                                            \
	X(counters)                                                                                \
	X(system_use)                                                                              \
	X(machine_links)                                                                           \
	X(collectives)                                                                             \
	X(rank_times)                                                                              \
	X(rank_path)                                                                               \
	X(rank_waits)                                                                              \
	X(collective_groups)                                                                       \
	X(peer_traffic)                                                                            \
	X(commands)                                                                                \
	X(energy)                                                                                  \
	X(no_gpu)                                                                                  \
	X(cost)                                                                                    \
	X(verdicts)                                                                                \
	X(idle_lines)                                                                              \
	X(gpu_functions)                                                                           \
	X(inner_callers)

struct report;

struct column_need {
	enum table_id table;
	uint64_t columns; /* COLUMN_BITS; 0: all */
};
#define COLUMN_NEEDS_MAX 3
#define OWNED_MAX 5

struct analysis {
	size_t size; /* of the result, which is zeroed before `run` */
	/* Columns to load in addition to those that all share (report.c); table 0 ends the list. */
	struct column_need needs[COLUMN_NEEDS_MAX];
	/* Loads columns that depend on the recording; may be NULL. 0 or a negative code. */
	int (*load)(struct trace *t, struct error *e);
	/*
	 * Fills *out. Runs concurrently with other analyses unless `reads_others`. 0 or a negative
	 * code; *out is released in either case.
	 */
	int (*run)(struct report *r, void *out);
	/* The result owns either arrays and data of VECs, OWNS(type of the result, member), … */
	size_t owned[OWNED_MAX];
	void (*release)(void *out); /* … or whatever this function frees */
	bool reads_others; /* runs alone, after all analyses listed before it */
};

#define OWNS(type, member) (offsetof(type, member) + 1)

#define DECLARE_ANALYSIS(name) extern const struct analysis analysis_##name;
ANALYSES(DECLARE_ANALYSIS)
#undef DECLARE_ANALYSIS

#endif
