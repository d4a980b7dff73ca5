/* layer: compare */
/*
 * bench-diff: what `pitot diff` says of pairs of sides of synthetic, seeded runs of one program,
 * whose steps take 10 ms and vary by 1 % (standard deviation), and whose runs vary by a run effect,
 * normally distributed or one of two values. 40 % of a step is `gemm`, the rest other kernels and
 * host. The last column is with 3 % added to `gemm` in B.
 *
 *	bench-diff [PAIRS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/comparison.h"

#define STEPS 40
#define RUNS 10

static uint64_t seed = 1;

/* Uniform in (0, 1]. */
static double share(void)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (double)((seed >> 40) + 1) / (1 << 24);
}

/* Box and Muller's. */
static double normal(void)
{
	double radius = sqrt(-2 * log(share()));

	return radius * cos(2 * M_PI * share());
}

static double run_effect(bool two_values, double deviation)
{
	return deviation * (!two_values ? normal() : share() < 0.5 ? -1 : 1);
}

static void put(struct measured_run *run, enum quantity_kind kind, const char *name, size_t step,
		double value)
{
	struct quantity *q = measured_run_at(run, kind, name);

	if (!q)
		exit(1);
	q->steps[step] += value;
	q->count++;
}

static void make_run(struct measured_run *run, double of_run, double factor)
{
	static const char *const names[] = { "gemm", "relu", "norm", "copy" };
	static const double sizes[] = { 4e6, 1e6, 5e5, 5e5 };

	*run = (struct measured_run){ .path = "x.pitot",
				      .command = "",
				      .no_steps = "",
				      .loss = "",
				      .step_count = STEPS,
				      .facts = { "", "", "", "", "", "" } };
	for (size_t i = 0; i < STEPS; i++) {
		double scale = (1 + of_run) * (1 + 0.01 * normal()), step = 4e6 * scale;

		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			double ns = sizes[k] * scale * (k ? 1 : factor);

			put(run, QUANTITY_kernel, names[k], i, ns);
			step += ns;
		}
		put(run, QUANTITY_step, "", i, step);
	}
	if (measured_run_finish(run) < 0)
		exit(1);
}

struct findings {
	unsigned different, inconclusive, rows;
};

static void compare(size_t runs, bool two_values, double deviation, double factor,
		    struct findings *f)
{
	struct measured_run all[2 * RUNS];
	struct comparison c;
	bool any = false;

	for (size_t i = 0; i < 2 * runs; i++)
		make_run(&all[i], run_effect(two_values, deviation), i < runs ? 1 : factor);
	if (comparison_init(&c, (struct run_side){ all, runs },
			    (struct run_side){ all + runs, runs }, NULL) < 0)
		exit(1);
	f->different += c.verdict == VERDICT_SLOWER || c.verdict == VERDICT_FASTER;
	f->inconclusive += c.verdict == VERDICT_INCONCLUSIVE;
	for (size_t i = 0; i < c.rows.count; i++)
		any |= c.rows.data[i].is_significant &&
		       (factor > 1 ? !strcmp(c.rows.data[i].name, "gemm") : true);
	f->rows += any;
	comparison_release(&c);
	for (size_t i = 0; i < 2 * runs; i++)
		measured_run_release(&all[i]);
}

int main(int argc, char **argv)
{
	static const size_t counts[] = { 1, 2, 3, 5, 10 };
	static const double deviations[] = { 0, 0.005, 0.01, 0.02, 0.03, 0.05 };
	unsigned pairs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100;

	printf("of %u pairs\n%-10s %6s %6s | %9s %12s %8s | %s\n", pairs, "effects", "size", "runs",
	       "different", "inconclusive", "any row", "gemm +3%: gemm, step, inconclusive");
	for (unsigned two_values = 0; two_values < 2; two_values++)
		for (size_t d = 0; d < ARRAY_SIZE(deviations); d++)
			for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
				struct findings same = { 0 }, slower = { 0 };

				for (unsigned k = 0; k < pairs; k++) {
					compare(counts[i], two_values, deviations[d], 1, &same);
					compare(counts[i], two_values, deviations[d], 1.03,
						&slower);
				}
				printf("%-10s %5.1f%% %6zu | %9u %12u %8u | %u, %u, %u\n",
				       two_values ? "two values" : "normal", 100 * deviations[d],
				       counts[i], same.different, same.inconclusive, same.rows,
				       slower.rows, slower.different, slower.inconclusive);
				fflush(stdout);
			}
	return 0;
}
