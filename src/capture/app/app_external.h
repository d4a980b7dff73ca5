/*
 * app_external.h: the program's own ids (an operator, a request) for the CUDA calls that a thread
 * makes while an id is open, like CUPTI's external correlation: pitot_external_push and pop of
 * pitot/scope.h.
 *
 * CUPTI's own external correlation is not used: its records require the activity of all runtime and
 * driver calls (+30 % on eager PyTorch), it reports only the innermost id of a kind anyway, and its
 * functions, called on the program's threads, could race with the vendor thread's detaching from
 * CUPTI. The thread's ring holds pushes, pops and calls in order, so the collector knows which call
 * lies within which id.
 */
#ifndef PITOT_CAPTURE_APP_APP_EXTERNAL_H
#define PITOT_CAPTURE_APP_APP_EXTERNAL_H

#include "capture/core/source.h"

/* Whether calls are recorded; set by their source. */
extern atomic_bool app_external_on;

/* Ring handler: an id has begun or ended. */
ring_handler app_external_event;

/* Writes the external_correlation rows of a call, while its event in `r` is being handled. */
void app_external_write(struct writer *w, const struct ring *r, uint64_t correlation);

#endif
