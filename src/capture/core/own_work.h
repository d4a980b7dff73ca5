/*
 * own_work.h: when engines delayed the program: set-up, and measured launches and ranges. Each such
 * time is a row of table `cost` that begins and ends with it, so that a report can tell it from the
 * program's own behaviour.
 */
#ifndef PITOT_CAPTURE_OWN_WORK_H
#define PITOT_CAPTURE_OWN_WORK_H

#include "format/writer.h"

/*
 * Adds the time from start_ns until now. kind: cost_kind_setup or _replay; count: 1, or 0 for the
 * second part of a measurement. Any thread; neither waits nor allocates.
 */
void own_work_add(enum cost_kind kind, uint64_t start_ns, unsigned count);

/* Writes what was added since the last call, at since_ns. The collector only. */
void own_work_write(struct writer *w, uint64_t since_ns, uint64_t now_ns);

void own_work_after_fork(void);

#endif
