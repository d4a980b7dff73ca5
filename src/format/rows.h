/*
 * rows.h: small rows that many write. Time is the moment of the call; texts may be NULL: missing.
 * The writer's thread only.
 */
#ifndef PITOT_FORMAT_ROWS_H
#define PITOT_FORMAT_ROWS_H

#include "format/writer.h"

/* Id of a text; of "" for NULL. */
uint32_t rows_text(struct writer *w, const char *text);

/* What was requested of the recorder, what it actually does, and why not more. */
void rows_capability(struct writer *w, const char *name, enum capability_state state,
		     const char *requested, const char *actual, const char *reason);

/* A loss; none for a count of 0. */
void rows_loss(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t start_ns,
	       uint64_t end_ns, const char *detail);

/* Of a count that only grows: by how much it is more than *reported, which becomes the count. */
void rows_loss_more(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t *reported,
		    uint64_t start_ns, uint64_t end_ns, const char *detail);

/* What recording cost in a period. Nothing is written for nothing. */
void rows_cost(struct writer *w, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns,
	       uint64_t count, uint64_t total_ns);

/* What the writer spent writing since *reported, which becomes what it spent so far. */
void rows_writing(struct writer *w, uint64_t start_ns, uint64_t end_ns,
		  struct writer_stats *reported);

/* Reads all clocks. cupti_ns: what CUPTI's said a moment ago; 0: nothing. */
void rows_clock(struct writer *w, uint64_t cupti_ns);

#endif
