/*
 * rows.h: appends common small rows. Times are those of the call; texts may be NULL: missing. To be
 * called on the writer's thread.
 */
#ifndef PITOT_FORMAT_ROWS_H
#define PITOT_FORMAT_ROWS_H

#include "format/writer.h"

/* Returns the id of a text; that of "" for NULL. */
uint32_t rows_text(struct writer *w, const char *text);

/* Appends what was requested of the recorder, what is in effect from a time on, and why. */
void rows_capability_at(struct writer *w, uint64_t time_ns, enum feature name,
			enum capability_state state, const char *requested, const char *actual,
			const char *reason);
/* The same, in effect since now. */
void rows_capability(struct writer *w, enum feature name, enum capability_state state,
		     const char *requested, const char *actual, const char *reason);

/* Appends a loss, unless the count is 0. */
void rows_loss(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t start_ns,
	       uint64_t end_ns, const char *detail);

/* Appends the growth of a counter since *reported, and updates *reported. */
void rows_loss_more(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t *reported,
		    uint64_t start_ns, uint64_t end_ns, const char *detail);

/* Appends the recorder's cost in a period, unless it is 0. */
void rows_cost(struct writer *w, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns,
	       uint64_t count, uint64_t total_ns);

/* Appends the time that the writer spent writing since *reported, and updates *reported. */
void rows_writing(struct writer *w, uint64_t start_ns, uint64_t end_ns,
		  struct writer_stats *reported);

/* Reads all clocks but the GPU's. */
struct row_clock rows_read_clocks(void);
/* Reads and appends all clocks. gpu_ns is the GPU's clock a moment ago, or 0. */
void rows_clock(struct writer *w, uint64_t gpu_ns);

/* Appends a mark of the user, at this moment. */
void rows_mark(struct writer *w, const char *text);

#endif
