/* loss_tally.h: what is lost, added up by reason until it can be written. */
#ifndef PITOT_FORMAT_LOSS_TALLY_H
#define PITOT_FORMAT_LOSS_TALLY_H

#include "schema/schema.h"

#define LOSS_REASONS 32

struct loss_item {
	uint64_t count, start_ns, end_ns;
	bool any; /* a count can be unknown, which is 0 */
};

struct loss_tally {
	struct loss_item items[LOSS_REASONS];
	bool any;
};

void loss_add(struct loss_tally *t, unsigned reason, uint64_t count, uint64_t start_ns,
	      uint64_t end_ns);
/* What a failure of the system, a negative errno, means for what should have been written. */
enum loss_reason loss_of_error(int err);
void loss_add_row(struct loss_tally *t, const struct row_loss *row);
void loss_add_tally(struct loss_tally *t, const struct loss_tally *more);
void loss_clear(struct loss_tally *t);
/* Fills rows, at most LOSS_REASONS; returns their number. */
size_t loss_rows(const struct loss_tally *t, struct row_loss *rows);

#endif
