/*
 * cpu_handover.h: tells `pitot record`, which samples this process by perf events, that timers
 * inside it sample all of it from now on (format/handover_cell.h has the protocol). Process-wide;
 * must be called on the collector's thread. Before cpu_handover_begin() the other calls do nothing.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_HANDOVER_H
#define PITOT_CAPTURE_CPU_CPU_HANDOVER_H

#include <stdint.h>

#include "base/folder.h"

/*
 * Claims the process from now on. Must be called before the first timer is armed. Returns 0, or a
 * negative errno, after which no timer may be armed: -ENOENT if nobody samples into this directory
 * by perf events, or not any more.
 */
int cpu_handover_begin(const char *directory, const struct folder_id *folder);
/* Returns the process to perf events. All timers must have been deleted. */
void cpu_handover_end(void);

/* Counts CPU time for which a row was appended. */
void cpu_handover_recorded(uint64_t ns);
/* Called before all rows so far are sealed, and when those are on disk. */
void cpu_handover_sealed(void);
void cpu_handover_stored(void);

void cpu_handover_after_fork(void);

#endif
