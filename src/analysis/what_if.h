/*
 * what_if.h: what a change would bring: the steps of a process, or the time from its first call to
 * its last work, are simulated (causes/simulate.h) with other costs.
 *
 * A simulation begins from what the program would take without a recorder: each launching call
 * costs WHAT_IF_CALL_NS less than recorded, and one of a graph what graphs_recording_ns says, or
 * what was measured on the machine (system/calibration.h). How uncertain that is, how far a
 * simulation without a change misses the recording, how much steps and runs differ, work that ran
 * side by side, and the latencies of an assumed graph add up, as the root of their squares, to the
 * bar.
 *
 * The kernel of a collective waits for the last rank, and then transfers. Its cost is the transfer.
 * Where all ranks are known they are simulated together (what_if_ranks.h), with every change, so
 * that the waiting results from them; else it stays as it was. Target `wait` changes it.
 */
#ifndef PITOT_ANALYSIS_WHAT_IF_H
#define PITOT_ANALYSIS_WHAT_IF_H

#include "analysis/call_cost.h"
#include "analysis/report.h"
#include "analysis/steps.h"
#include "analysis/what_if_ranks.h"
#include "causes/simulate.h"

/* What is changed. */
#define WHAT_IF_TARGETS(X)                                                                         \
	X(kernel, "kernel:GLOB", "kernels by name")                                                \
	X(copy, "copy[:DIRECTION]", "copies, such as copy:HtoD")                                   \
	X(memset, "memset", "memory sets")                                                         \
	X(gpu, "gpu", "all work on the GPU")                                                       \
	X(launch, "launch", "what each call costs that launches kernels or graphs")                \
	X(call, "call:GLOB", "what CUDA calls cost by name, except waiting")                       \
	X(host, "host[:GLOB]", "the program's own time, by the line that makes the next call")     \
	X(python, "python[:GLOB]",                                                                 \
	  "the program's own time before calls that lines of Python make")                         \
	X(cpu, "cpu", "the program's own time and what calls cost")                                \
	X(wait, "wait", "what collectives only wait for other ranks")                              \
	X(comm, "comm", "transfers of collectives, on all ranks")                                  \
	X(straggler, "no straggler [RANK]",                                                        \
	  "own work before a collective as the median rank's: each rank's, or that of one")        \
	X(sync, "sync[:GLOB]", "waiting of calls by name; only with remove")                       \
	X(graph, "graph SCOPE", "launches of a scope, or of a step, as one CUDA graph")            \
	X(fuse, "fuse[:GLOB] N [xF]", "N short kernels that follow each other as one")             \
	X(copies, "copies pinned", "copies of pageable memory as fast as those of pinned memory")  \
	X(overlap, "overlap copies", "copies beside kernels, on streams of their own")             \
	X(streams, "streams merge, or streams split SCOPE", "work on one stream, or on another")   \
	X(batch, "batch xN", "all work on the GPU N times as long")

enum what_if_target {
#define TARGET(name, usage, text) WHAT_IF_##name,
	WHAT_IF_TARGETS(TARGET)
#undef TARGET
		WHAT_IF_TARGET_COUNT
};

enum what_if_change {
	CHANGE_SCALE,
	CHANGE_SET,
	CHANGE_ADD,
	CHANGE_REMOVE,
	CHANGE_MERGE,
	CHANGE_SPLIT,
};

/* How it is known what the launch of a graph costs. */
#define GRAPH_COST_SOURCES(X) X(option) X(recording) X(calibration)
enum graph_cost_source {
#define SOURCE(name) GRAPH_COST_##name,
	GRAPH_COST_SOURCES(SOURCE)
#undef SOURCE
};

struct what_if_rule {
	const char *text; /* as given */
	enum what_if_target target;
	enum what_if_change change;
	double factor; /* SCALE; straggler: of what exceeds the median */
	uint64_t number; /* fuse: of kernels that become one */
	int64_t ns; /* SET, ADD; graph: cost of its launch */
	char *glob; /* "": all; owned */
	/* By row of kernel_config or api_function, by caller, or by task from from_task; owned. */
	uint8_t *matches;
	uint64_t *times; /* copies: by task, what it takes at most; owned */
	bool has_ns; /* graph: ns was given */
	enum graph_cost_source graph_source; /* graph: of ns */
	uint64_t latency_ns; /* graph: between nodes */
	bool latency_measured; /* graph: by the calibration; else a part of that of a stream */
	bool has_rank; /* straggler: only of this rank */
	uint32_t rank;
	uint64_t matched, cost_ns; /* tasks that it changes, and what they cost in the recording */
};

/* How it is known what recording adds to calls. */
#define CALL_COST_SOURCES(X) X(assumption) X(option) X(calibration)
enum call_cost_source {
#define SOURCE(name) CALL_COST_##name,
	CALL_COST_SOURCES(SOURCE)
#undef SOURCE
};

struct what_if_times {
	uint64_t step_ns; /* median of the steps, or the whole span */
	uint64_t span_ns; /* from the start of the first to the end of the last */
	uint64_t class_ns[PATH_CLASSES]; /* critical path of the span */
};

struct what_if_candidate {
	struct path_place place;
	bool is_class; /* all owners of place.class */
	/* wait, comm or straggler; TARGET_COUNT: the place's */
	enum what_if_target target;
	uint32_t process; /* with most of its cost */
	uint64_t cost_ns; /* in the span, of that process; straggler: of all ranks */
	int64_t gain_ns; /* of a step, if it cost half */
};

/* A rank that needs longer than the median rank before collectives. */
struct what_if_rank {
	uint32_t rank, process;
	uint64_t slower, slower_ns; /* number of such times in the span, and by how much */
	uint64_t step_ns; /* as predicted, if it did not */
};

struct what_if {
	struct report *report;
	uint32_t process;
	const struct step_loop *loop; /* NULL: no steps */
	size_t first_step, step_count; /* those simulated */
	uint32_t first_task, end_task;
	struct what_if_ranks ranks;
	uint32_t from_task, until_task; /* of all that is simulated: also of other ranks */
	VEC(uint32_t) calls; /* tasks, in order of their starts */
	uint32_t *step_of; /* by task from first_task on: number of a simulated step, or NONE */
	struct simulated *times; /* the same; reused; part of … */
	struct simulated *all_times; /* by task from from_task on */
	struct task_order *order; /* the same, of the rule that changes it; NULL: none does */
	uint32_t *turns;
	bool beside; /* threads make calls side by side: what they wait for is unknown */
	uint64_t *rank_waits; /* by task from from_task on: what collectives wait; NULL: nothing */
	uint64_t rank_wait_ns; /* their sum, of the process */
	uint64_t unknown_waits; /* collectives of which it is unknown how long they only wait */
	/* That recording adds to each launching call, and to each other one that waits for work. */
	uint64_t call_ns, synchronize_ns;
	enum call_cost_source call_source;
	uint64_t call_spread_ns; /* calibration: of call_ns */
	/* Of the calibration, without recording; or CALIBRATION_UNKNOWN. */
	uint64_t graph_launch_ns; /* of a graph of one node */
	uint64_t graph_node_ns; /* what each further one adds to it */
	uint64_t node_latency_ns; /* between nodes */
	/*
	 * That recording adds to each launch of a graph, for each further node, and to such a
	 * node; 0: unknown.
	 */
	uint64_t graph_added_ns, node_added_ns, node_gap_ns, node_gap_bar_ns;
	uint64_t launches, launch_ns; /* launching calls in the span, and what they took */
	uint64_t graph_launches; /* of these, of graphs */
	uint32_t *nodes; /* recorded ones of each launch of a graph, by task from from_task on */
	struct what_if_times recorded, corrected, predicted;
	uint64_t identity_ns; /* by which a simulation without a change misses the recorded step */
	uint64_t overlap_per_mille; /* of the GPU work: during which other work ran */
	/* The GPU was busy nearly all the time, but host code and calls bound it (verdict.h). */
	bool contradicts_busy;
	/* Parts of the bar, and the bar. */
	uint64_t steps_bar_ns, call_bar_ns, overlap_bar_ns, runs_bar_ns, graph_bar_ns, bar_ns;
	struct what_if_candidate *candidates;
	size_t candidate_count;
	struct what_if_rank *slow_ranks; /* that which would bring most first */
	size_t slow_rank_count;
	uint64_t omitted; /* owners that are no candidates, … */
	uint64_t omitted_ns; /* … because none of them costs more in the span */
};

/*
 * What recording adds to a launching call of an eager program on an H200: 0.7 to 2.1 us on an idle
 * machine, and up to 7 us on a busy one.
 */
#define WHAT_IF_CALL_NS 1400u
#define WHAT_IF_CALL_BAR_NS 700u
/* +/- between machines: thirteen calibrations of H200s said 0.9 to 1.7 us. */
#define WHAT_IF_CALL_SPREAD_NS 350u
/* What it adds between two nodes of a graph there: 124 to 293 ns. */
#define WHAT_IF_NODE_GAP_NS 200u
#define WHAT_IF_GRAPH_NS 1500u /* a launch of a graph there without recording */
#define WHAT_IF_STEPS_MAX 50u

/*
 * Parses a transform. The result may be released also after an error, and is valid as long as the
 * text. E_USAGE describes what is wrong with it.
 */
int what_if_parse(struct what_if_rule *rule, const char *text, struct error *e) MUST_USE;
/* Finds what the rule changes. E_USAGE: nothing, with the nearest name; or it cannot be done. */
int what_if_match(const struct what_if *w, struct what_if_rule *rule, struct error *e) MUST_USE;
/* Whether the rule is about this cost of a task; costs of latencies are never. */
bool what_if_changes(const struct what_if *w, const struct what_if_rule *rule, enum cost_of what,
		     uint32_t task);
/* What the thread of a call needed before it, since its call before or the turn before. */
uint64_t what_if_host_ns(const struct what_if *w, uint32_t call);
/* The cost of a task by a rule. */
uint64_t what_if_cost(const struct what_if *w, const struct what_if_rule *rule, enum cost_of what,
		      uint32_t task, uint64_t ns);
/* What a collective waits for other ranks, of the recording, and by a rule that was `ns`. */
static inline uint64_t what_if_rank_wait_ns(const struct what_if *w, uint32_t task)
{
	return w->rank_waits ? w->rank_waits[task - w->from_task] : 0;
}
uint64_t what_if_rank_wait(const struct what_if *w, const struct what_if_rule *rule, uint32_t task,
			   uint64_t ns);
/* Whether the rule removes the waiting of a call. */
bool what_if_returns(const struct what_if *w, const struct what_if_rule *rule, uint32_t call);
void what_if_rule_release(struct what_if_rule *rule);
/* Whether the rules can be simulated together. 0 or E_USAGE. */
int what_if_check(const struct what_if_rule *rules, size_t count, struct error *e) MUST_USE;

static inline enum api_kind what_if_call_kind(const struct what_if *w, const struct task *call)
{
	return calls_kind(&w->report->calls, call->row);
}

/* --- what_if_runs.c: graph and fuse --- */

int what_if_match_run(const struct what_if *w, struct what_if_rule *rule, struct error *e) MUST_USE;
bool what_if_run_changes(const struct what_if *w, const struct what_if_rule *rule,
			 enum cost_of what, uint32_t task);
uint64_t what_if_run_cost(const struct what_if *w, const struct what_if_rule *rule,
			  enum cost_of what, uint32_t task, uint64_t ns);
void what_if_join_runs(const struct what_if *w, const struct what_if_rule *rule,
		       struct task_order *order);
/*
 * Whether a call was made in a step (paths NULL), or in a scope that scope_paths_match found.
 * *scope is set to its number.
 */
bool what_if_in_scope(const struct what_if *w, const struct task *call, const uint8_t *paths,
		      uint32_t *scope);

/* --- what_if_candidates.c --- */

/* Finds what halving the cost of each owner brings, the largest gain first. 0 or -ENOMEM. */
int what_if_candidates(struct what_if *w) MUST_USE;
/* The owner of a cost of a task; PATH_UNKNOWN: nobody knows. */
struct path_place what_if_place(const struct report *r, enum cost_of what, const struct task *task);
/* Simulates that a candidate costs half, and sets its gain. 0 or -ENOMEM. */
int what_if_gain(struct what_if *w, struct what_if_candidate *c) MUST_USE;

/* Simulates that a rank is as fast as the median, and sets its step_ns. 0 or -ENOMEM. */
int what_if_rank_gain(struct what_if *w, struct what_if_rank *r) MUST_USE;

/* --- what_if_costs.c: what recording adds --- */

/* Sets what recording adds to calls and graphs; arguments as of what_if_init. */
int what_if_choose_costs(struct what_if *w, const uint64_t *call_ns, const struct calibration *c,
			 struct error *e) MUST_USE;

/* --- what_if_copies.c: copies --- */

int what_if_match_copies(const struct what_if *w, struct what_if_rule *rule,
			 struct error *e) MUST_USE;

/* --- what_if_order.c: overlap and streams --- */

/* Whether the rule changes the order of work: one at a time can. */
bool what_if_has_order(const struct what_if_rule *rule);
int what_if_match_order(const struct what_if *w, struct what_if_rule *rule) MUST_USE;
/* Sets the order of work by the rule that changes it, if one does. 0 or -ENOMEM. */
int what_if_set_order(struct what_if *w, const struct what_if_rule *rules, size_t count) MUST_USE;

/*
 * Chooses the process with most GPU work, and measures what was recorded. The report has `steps`
 * in its options, and must outlive *w. call_ns: what recording adds to a launching call, or NULL;
 * then the recording's calibration is used, or else `calibration`, which may be NULL, if they fit
 * the process. 0 or a negative code; then *w needs no release.
 */
int what_if_init(struct what_if *w, struct report *r, const uint64_t *call_ns,
		 const struct calibration *calibration, struct error *e) MUST_USE;
/* Predicts what all the rules together bring, in their order. 0 or -ENOMEM. */
int what_if_predict(struct what_if *w, struct what_if_rule *rules, size_t count) MUST_USE;
void what_if_release(struct what_if *w);

#endif
