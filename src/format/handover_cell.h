/*
 * handover_cell.h: how the recorder inside a process tells `pitot record`, which samples the same
 * process by perf events, that from one instant on its own timers sample the whole process: file
 * `cpu.handover` in the recording's directory, while it is being recorded.
 *
 * The sampler makes the file, and removes it in the end. It is an array of cells. A recorder
 * appends one for each process image, or for each window of time in which its timers run. The
 * protocol:
 *
 *   - The cell is in the file, with since_ns, before the first timer is armed, and gets its
 *     until_ns after the last timer was deleted. The sampler reads the cells after the last sample
 *     that it looks at was taken, and drops samples of the process that lie in
 *     [since_ns, until_ns). So a sample that it counts, because there was no cell, was taken before
 *     the timers began, and nothing is counted twice.
 *   - `recorded_ns` is the CPU time that the timers' samples on disk stand for; it only grows, and
 *     is final when the process has ended. What remains of the CPU time that the kernel counted for
 *     the process, when this and the perf samples are taken off, becomes one sample without a stack
 *     (perf_handover.h). So nothing is lost without a word, however the process ends.
 *
 * What this costs against handing over thread by thread: a thread that blocks the timers' signal
 * has no stacks meanwhile, where perf events could have native ones (docs/cpu.md has figures).
 *
 * Writer and reader are on one machine, so words have its byte order. The reader trusts nothing in
 * it.
 */
#ifndef PITOT_FORMAT_HANDOVER_CELL_H
#define PITOT_FORMAT_HANDOVER_CELL_H

#include <stdint.h>

#define CPU_HANDOVER_FILE "cpu.handover"
/* that are read; a recorder whose cell is beyond them leaves its process to perf events */
#define CPU_HANDOVER_CELLS 65536u
#define CPU_HANDOVER_MAGIC 0x32484350u

struct cpu_handover_cell {
	uint32_t magic;
	uint32_t pid;
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC; until 0: the timers run */
	uint64_t recorded_ns;
};
_Static_assert(sizeof(struct cpu_handover_cell) == 32, "two processes share it");

#endif
