/*
 * stack_rows.h: writes stacks as rows of `stack` and `stack_node`: a tree in which stacks share
 * their outer frames. All functions run on the collector's thread.
 */
#ifndef PITOT_CAPTURE_STACK_ROWS_H
#define PITOT_CAPTURE_STACK_ROWS_H

#include "capture/core/ring.h"
#include "format/writer.h"

/*
 * Makes rows of the RING_STACK event at `position`, all of whose slots are readable; returns the
 * number of its slots.
 */
uint64_t stack_rows_event(struct writer *w, const struct ring *r, uint64_t position);

/* Returns the id of a sampled stack, and writes its rows if it is new; 0: it is not recorded. */
uint32_t stack_rows_sample(struct writer *w, const uint64_t *frames, unsigned count,
			   enum stack_end end);

/* Writes loss rows for stacks that were dropped since the last call. */
void stack_rows_losses(struct writer *w, uint64_t since_ns, uint64_t now_ns);

/* Writes capability rows about how stacks were walked, and how well. Called at the end. */
void stack_rows_finish(struct writer *w);

/* Forgets all stacks. No collector may be running. */
void stack_rows_reset(void);

#endif
