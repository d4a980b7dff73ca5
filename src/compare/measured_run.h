/*
 * measured_run.h: what a recording says of the quantities that two sides of a comparison have. A
 * run is one process's loop of steps (analysis/steps.h), the one with the most GPU work. Slow
 * steps, which differ from the others by something that does not belong to the program's pace, are
 * left out.
 */
#ifndef PITOT_COMPARE_MEASURED_RUN_H
#define PITOT_COMPARE_MEASURED_RUN_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "compare/samples.h"

/*
 * Q(name, unit, values, parts, meaning). Values are those of steps (STEP) or one of the run (RUN).
 * Quantities with parts have several, by name: in comparisons and conditions they are
 * "kernel:NAME".
 */
#define QUANTITIES(Q)                                                                              \
	Q(step, NS, STEP, false, "time of a step")                                                 \
	Q(gpu, NS, STEP, false, "GPU work of a step, one piece after the other")                   \
	Q(launches, COUNT, STEP, false, "pieces of GPU work in a step")                            \
	Q(memory, BYTES, RUN, false, "largest sum of live allocations (record --memory)")          \
	Q(path, NS, STEP, true, "time of a step on its critical path, by owner")                   \
	Q(kernel, NS, STEP, true, "time of kernels in a step, by name")                            \
	Q(copy, NS, STEP, true, "time of copies and memory sets in a step, by kind")               \
	Q(function, NS, STEP, true, "GPU work of a step, by the function that launched it")        \
	Q(scope, NS, STEP, true, "GPU work of a step, by the scope or range that launched it")

enum quantity_kind {
#define QUANTITY(name, unit, values, parts, meaning) QUANTITY_##name,
	QUANTITIES(QUANTITY)
#undef QUANTITY
		QUANTITY_KINDS
};

enum quantity_unit { QUANTITY_NS, QUANTITY_COUNT, QUANTITY_BYTES };
enum quantity_values { QUANTITY_OF_STEP, QUANTITY_OF_RUN };

struct quantity_type {
	const char *name;
	enum quantity_unit unit;
	enum quantity_values values;
	bool has_parts;
	const char *meaning;
};
extern const struct quantity_type quantity_types[QUANTITY_KINDS];

struct quantity {
	enum quantity_kind kind;
	const char *name; /* of the part; "" */
	double *steps; /* in each step; NULL: QUANTITY_OF_RUN */
	double value; /* mean over the steps; of QUANTITY_step the median */
	double count; /* mean number of pieces in a step, of work */
};

/* A kernel of a step. */
struct kernel_launch {
	uint64_t shape; /* a hash of grid and block, the same on all machines; 0: unknown */
	uint64_t scope; /* a hash of the path of its scope without digits; 0: none */
	uint32_t quantity; /* index of the run's quantities */
};

/* What has to be equal in all runs, as texts for people; "" if a recording does not say. */
#define RUN_FACTS(F)                                                                               \
	F(gpu, "the GPU")                                                                          \
	F(driver, "the driver")                                                                    \
	F(engine, "the engine")                                                                    \
	F(settings, "the settings of the recording")                                               \
	F(steps_by, "how steps were found")                                                        \
	F(rank, "the rank with the most GPU work")

enum run_fact {
#define RUN_FACT(name, text) RUN_FACT_##name,
	RUN_FACTS(RUN_FACT)
#undef RUN_FACT
		RUN_FACT_COUNT
};
extern const char *const run_fact_texts[RUN_FACT_COUNT];
extern const char *const run_fact_names[RUN_FACT_COUNT]; /* in JSON */

struct measured_run {
	const char *path;
	const char *command; /* of the process; "" if unknown */
	const char *facts[RUN_FACT_COUNT];
	const char *no_steps; /* why there are no steps; "": there are some */
	uint32_t pid;
	size_t step_count; /* without slow ones */
	size_t slow_steps;
	double clock_mhz; /* mean of the GPU's readings; 0: none */
	const char *loss; /* what makes figures unsafe; "": nothing */
	VEC(struct quantity) quantities;
	/* The kernels of a step with the usual number of launches, in the order of their launch. */
	VEC(struct kernel_launch) order;
	/* private */
	struct arena memory;
	struct map index; /* hash of kind and name -> quantity + 1 */
};

/* One of two that are compared. */
struct run_side {
	const struct measured_run *runs;
	size_t count;
};

struct trace;

/*
 * Measures a recording. The text of `path` is copied. 0 or a negative code; release in any case.
 */
int measured_run_init(struct measured_run *run, const char *path, struct trace *t,
		      struct error *e) MUST_USE;
void measured_run_release(struct measured_run *run);

/* Finds or adds a quantity, with values of 0. NULL: out of memory. Valid until the next call. */
struct quantity *measured_run_at(struct measured_run *run, enum quantity_kind kind,
				 const char *name);
/* A hash of what a quantity is, for maps. */
uint64_t quantity_key(enum quantity_kind kind, const char *name);
/* The quantity, or NULL. */
const struct quantity *measured_run_find(const struct measured_run *run, enum quantity_kind kind,
					 const char *name);
/* Sets the values and counts from the steps' values. 0 or -ENOMEM. */
int measured_run_finish(struct measured_run *run) MUST_USE;

#endif
