/*
 * stack_rows.h: stacks as rows of `stack` and `stack_node`: a tree in which stacks share their
 * outer frames. Collector thread only.
 */
#ifndef PITOT_CAPTURE_STACK_ROWS_H
#define PITOT_CAPTURE_STACK_ROWS_H

#include "capture/ring.h"
#include "format/writer.h"

/*
 * Makes rows of the RING_STACK event at `position`, whose slots are all there; returns the number
 * of its slots.
 */
uint64_t stack_rows_event(struct writer *w, const struct ring *r, uint64_t position);

/* Id of a sampled stack, whose rows are made when it is new; 0: it is not kept. */
uint32_t stack_rows_sample(struct writer *w, const uint64_t *frames, unsigned count,
			   enum stack_end end);

/* Loss rows: stacks that were not kept since the last call. */
void stack_rows_losses(struct writer *w, uint64_t since_ns, uint64_t now_ns);

/* Capability rows: how stacks are taken, and how it went. At the end of a session. */
void stack_rows_finish(struct writer *w);

/* Forgets all stacks. No collector runs. */
void stack_rows_reset(void);

#endif
