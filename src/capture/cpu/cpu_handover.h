/*
 * cpu_handover.h: which threads are sampled by a timer of ours, for those who sample the process by perf events
 * (format/handover_cell.h has the protocol). Collector thread only. Without cpu_handover_open() every call does nothing, and
 * every thread may be taken.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_HANDOVER_H
#define PITOT_CAPTURE_CPU_CPU_HANDOVER_H

#include <stdbool.h>

#include "capture/cpu/cpu_slot.h"

/* 0 or a negative errno. */
int cpu_handover_open(const char *directory);
/* Whether somebody else samples what we do not. */
bool cpu_handover_on(void);

/*
 * Before the timer of the slot's thread begins. false: it must not, because nobody would know. `again`: the same thread was
 * taken before, and returned.
 */
bool cpu_handover_take(struct cpu_slot *s, bool again);
/* Its timer has been deleted. */
void cpu_handover_return(struct cpu_slot *s);
/* The thread has ended; samples of it may still be in the slot's ring. */
void cpu_handover_ended(struct cpu_slot *s);

/* A row of a sample was written. */
void cpu_handover_recorded(struct cpu_slot *s, uint64_t ns);
/* All rows so far are on disk. */
void cpu_handover_stored(void);

void cpu_handover_after_fork(void);

#endif
