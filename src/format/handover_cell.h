/*
 * handover_cell.h: how the recorder inside a process tells `pitot record`, which samples the same process by perf events,
 * whose CPU time it samples itself: files <pid>.<n>.handover in the recording's directory, one for each process image, by
 * the first free number.
 *
 * A file is an array of cells. The first says when the file was made, each other one is of a thread that was taken over. The
 * recorder writes, the sampler reads. It holds for each:
 *
 *   - A cell is HELD in the file before the thread's timer begins, and stays so until the timer has ended. The sampler
 *     reads the cells after the last sample that it looks at was taken. So a sample that it counts, because no cell was
 *     held, was taken before the timer began, and nothing is counted twice.
 *   - `recorded_ns` is what samples of the timer that are on disk stand for; it only grows. It is final in a SETTLED cell,
 *     and when the process has ended. What remains of the CPU time that the kernel counted, when the perf samples of
 *     the thread and this are taken off, has no sample: perf_threads.h makes it one without a stack. So nothing is lost
 *     unsaid either, however the process ends.
 *
 * Both live on one machine, so words are its own. The reader trusts nothing in it.
 */
#ifndef PITOT_FORMAT_HANDOVER_CELL_H
#define PITOT_FORMAT_HANDOVER_CELL_H

#include <stdint.h>

#define CPU_HANDOVER_SUFFIX ".handover"
#define CPU_HANDOVER_CELLS 4096u /* in a file, with the first; settled ones are used again, the oldest first */

enum cpu_handover_state {
	CPU_HANDOVER_NONE,
	CPU_HANDOVER_HELD,
	CPU_HANDOVER_RETURNED, /* the thread is perf's again, at least for now */
	CPU_HANDOVER_SETTLED, /* nothing will change any more */
	CPU_HANDOVER_FILE = 0x31484350, /* of the first cell: since_ns is when the file was made */
};

struct cpu_handover_cell {
	uint32_t state; /* enum cpu_handover_state; written last */
	uint32_t tid; /* of the first cell: process id */
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC of the time that it is or was held; until: RETURNED or SETTLED */
	uint64_t recorded_ns;
};
_Static_assert(sizeof(struct cpu_handover_cell) == 32, "two processes share it");

#endif
