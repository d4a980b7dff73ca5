/*
 * handover_cell.h: the file `cpu.handover` in a recording's directory, while it is being recorded.
 * With it the recorder inside a process tells `pitot record`, which samples the same process with
 * perf events, from which instant on its own timers sample the whole process.
 *
 * The sampler creates the file and removes it at the end. The file is an array of cells; a recorder
 * appends one for each process image or each window of time in which its timers run. The protocol:
 *
 *   - The cell is in the file, with since_ns, before the first timer is armed, and gets its
 *     until_ns after the last timer was deleted. The sampler reads the cells after taking the last
 *     sample that it processes, and drops samples of the process inside [since_ns, until_ns). A
 *     sample without a cell was therefore taken before the timers began, and no sample is counted
 *     twice.
 *   - `recorded_ns` is the CPU time that the timers' samples on disk represent. It only grows, and
 *     is final when the process has ended. The sampler subtracts it and its perf samples from the
 *     CPU time that the operating system counted for the process; the rest becomes one sample
 *     without a stack (perf_handover.h). So no CPU time is missing, however the process ends.
 *
 * The price, compared to handing over thread by thread: a thread that blocks the timers' signal has
 * no stacks meanwhile, while perf events could have native ones (docs/cpu.md has figures).
 *
 * Writer and reader are on one machine, so words have its byte order. The reader does not trust the
 * contents.
 */
#ifndef PITOT_FORMAT_HANDOVER_CELL_H
#define PITOT_FORMAT_HANDOVER_CELL_H

#include <stdint.h>

#define CPU_HANDOVER_FILE "cpu.handover"
/* cells that are read; a recorder whose cell is beyond them leaves its process to perf events */
#define CPU_HANDOVER_CELLS 65536u
#define CPU_HANDOVER_MAGIC 0x32484350u

struct cpu_handover_cell {
	uint32_t magic;
	uint32_t pid;
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC; until_ns 0: timers run */
	uint64_t recorded_ns;
};
_Static_assert(sizeof(struct cpu_handover_cell) == 32, "two processes share it");

#endif
