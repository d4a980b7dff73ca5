/* made_runs.h: runs that tests of src/compare make. */
#ifndef PITOT_TESTS_MADE_RUNS_H
#define PITOT_TESTS_MADE_RUNS_H

#include "compare/measured_run.h"
#include "support/cmocka_tests.h"

#define STEPS 20

static uint64_t made_seed = 1;

/* Uniform in [0, 1). */
static inline double random_share(void)
{
	made_seed = made_seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (double)(made_seed >> 40) / (1 << 24);
}

static inline void put(struct measured_run *run, enum quantity_kind kind, const char *name,
		       size_t step, double value)
{
	struct quantity *q = measured_run_at(run, kind, name);

	assert_non_null(q);
	if (q->steps)
		q->steps[step] += value;
	else
		q->value = value;
	q->count++;
}

/*
 * A program whose steps take 10 ms times of_run, of which `gemm` is 40 %, slower by a factor. Steps
 * vary by 0.5 % each way.
 */
static inline void make_run_with(struct measured_run *run, double of_run, double factor)
{
	*run = (struct measured_run){ .path = "x.pitot",
				      .command = "train",
				      .no_steps = "",
				      .loss = "",
				      .step_count = STEPS,
				      .facts = { "H200", "CUDA 13.0", "trace", "", "scopes", "" } };
	for (size_t i = 0; i < STEPS; i++) {
		double of_step = of_run * (1 + 0.01 * (random_share() - 0.5));
		double gemm = 4e6 * factor * of_step, relu = 1e6 * of_step, host = 5e6 * of_step;

		put(run, QUANTITY_step, "", i, gemm + relu + host);
		put(run, QUANTITY_launches, "", i, 30);
		put(run, QUANTITY_kernel, "gemm", i, gemm);
		put(run, QUANTITY_kernel, "relu", i, relu);
		put(run, QUANTITY_path, "gemm", i, gemm);
		put(run, QUANTITY_path, "relu", i, relu);
		put(run, QUANTITY_path, "host", i, host);
	}
	put(run, QUANTITY_memory, "", 0, 1000);
	assert_int_equal(measured_run_finish(run), 0);
}

/* The same of runs that vary by 0.4 % each way. */
static inline void make_run(struct measured_run *run, double factor)
{
	make_run_with(run, 1 + 0.008 * (random_share() - 0.5), factor);
}

#endif
