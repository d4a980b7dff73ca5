/*
 * bench-ranks: a recording of a job with many ranks, each with one kernel at a time and an
 * all-reduce after every 60 of them, for which all wait. The middle rank is late by a tenth.
 *
 *	bench-ranks FOLDER RANKS KERNELS && time pitot report --ranks FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/make_recording.h"

#define PERIOD 60 /* kernels and an all-reduce */
#define KERNEL_NS 10000
#define STEP_NS ((uint64_t)KERNEL_NS * PERIOD * 12 / 10)
#define LATE_NS (STEP_NS / 10)

static void write_rank(const char *folder, uint32_t rank, uint32_t late, uint64_t kernels)
{
	struct maker *m = maker_begin(folder, 100 + rank, 1000, "./train");
	uint32_t gemm, all_reduce;
	uint64_t correlation = 1;

	maker_device(m, rank, 1000);
	m->device = rank;
	gemm = maker_config(m, "gemm", 132, 256);
	all_reduce = maker_config(m, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 544);
	for (uint64_t step = 0; step * PERIOD < kernels; step++) {
		uint64_t at = 1000000 + step * STEP_NS + (rank == late ? LATE_NS : 0);

		for (uint64_t i = 0; i < PERIOD; i++, correlation++) {
			uint64_t end = i == PERIOD - 1 ? 1000000 + (step + 1) * STEP_NS - 1000
						       : at + KERNEL_NS - 500;

			maker_call(m, MAKER_LAUNCH, 100 + rank, at - 5000, at - 4000, correlation);
			maker_kernel(m, i == PERIOD - 1 ? all_reduce : gemm,
				     i == PERIOD - 1 ? 8 : 7, at, end, correlation);
			at += KERNEL_NS;
		}
		maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 100 + rank, at - 3000 - KERNEL_NS,
			   1000000 + (step + 1) * STEP_NS - 500, correlation++);
	}
	maker_close(m, 1000000 + (kernels / PERIOD + 2) * STEP_NS);
}

int main(int argc, char **argv)
{
	uint32_t ranks = argc > 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	uint64_t kernels = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	long workers = sysconf(_SC_NPROCESSORS_ONLN);
	int failed = 0, status;

	if (!ranks || (mkdir(argv[1], 0755) != 0)) {
		fprintf(stderr, "usage: bench-ranks NEW-FOLDER RANKS KERNELS\n");
		return 2;
	}
	for (long w = 0; w < workers; w++) {
		if (fork() != 0)
			continue;
		for (uint32_t rank = (uint32_t)w; rank < ranks; rank += (uint32_t)workers)
			write_rank(argv[1], rank, ranks / 2, kernels);
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
