/*
 * cpu_handover.h: tells `pitot record`, which samples this process by perf events, that from now on
 * timers inside sample all of it (format/handover_cell.h has the protocol). Process-wide, for the
 * collector's thread. Without cpu_handover_begin() every call does nothing.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_HANDOVER_H
#define PITOT_CAPTURE_CPU_CPU_HANDOVER_H

#include <stdint.h>

/*
 * Claims the process from now on. To be called before the first timer is armed. 0; or a negative
 * errno, after which no timer may be armed: -ENOENT when nobody samples into this directory by perf
 * events (any more).
 */
int cpu_handover_begin(const char *directory);
/* Leaves the process to perf events again. All timers have been deleted. */
void cpu_handover_end(void);

/* Counts CPU time for which a row was appended. */
void cpu_handover_recorded(uint64_t ns);
/* All rows so far are on disk. */
void cpu_handover_stored(void);

void cpu_handover_after_fork(void);

#endif
