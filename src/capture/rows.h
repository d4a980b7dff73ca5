/* rows.h: small rows that several sources write: capabilities and losses. Collector thread only. */
#ifndef PITOT_CAPTURE_ROWS_H
#define PITOT_CAPTURE_ROWS_H

#include "format/writer.h"

uint32_t rows_text(struct writer *w, const char *text);

/* asked, got, reason may be NULL. */
void rows_capability(struct writer *w, const char *name, enum capability_state state, const char *asked,
		     const char *got, const char *reason);

/* Nothing is written for a count of 0. detail may be NULL. */
void rows_loss(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t start_ns, uint64_t end_ns,
	       const char *detail);

/* Of a count that only grows: by how much it is more than *reported, which becomes the count. */
void rows_loss_more(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t *reported, uint64_t start_ns,
		    uint64_t end_ns, const char *detail);

void rows_cost(struct writer *w, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t count,
	       uint64_t total_ns);

#endif
