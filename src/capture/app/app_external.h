/*
 * app_external.h: ids of the program's own (an operator, a request) for the CUDA calls that a
 * thread makes meanwhile, as CUPTI's external correlation has them; pitot_external_push and pop of
 * pitot/scope.h.
 *
 * CUPTI is not asked for it: its records need the activity of all runtime and driver calls (+30 %
 * on eager PyTorch), it gives only the innermost id of a kind anyway, and its functions, on the
 * program's threads, might meet the vendor thread that leaves it. The thread's ring has the order
 * of pushes, pops and calls, so the collector knows which call is within which id.
 */
#ifndef PITOT_CAPTURE_APP_APP_EXTERNAL_H
#define PITOT_CAPTURE_APP_APP_EXTERNAL_H

#include "capture/source.h"

/* Whether calls are recorded: set by what records them. */
extern atomic_bool app_external_on;

/* A handler: an id has begun, or ended. */
ring_handler app_external_event;

/* The collector's: rows of external_correlation for a call, whose event in `r` is in hand. */
void app_external_write(struct writer *w, const struct ring *r, uint64_t correlation);

#endif
