/* loss_tally.h: sums of losses by reason, until they can be written. */
#ifndef PITOT_FORMAT_LOSS_TALLY_H
#define PITOT_FORMAT_LOSS_TALLY_H

#include "schema/schema.h"

#define LOSS_REASON_COUNT(E, name, value) +1
#define LOSS_REASONS (0 ENUM_loss_reason(LOSS_REASON_COUNT, ))

struct loss_item {
	uint64_t count, start_ns, end_ns;
	bool any; /* a count of 0 means unknown */
};

struct loss_tally {
	struct loss_item items[LOSS_REASONS];
	bool any;
};

void loss_add(struct loss_tally *t, unsigned reason, uint64_t count, uint64_t start_ns,
	      uint64_t end_ns);
/* Returns the loss reason of a negative errno. */
enum loss_reason loss_of_error(int err);
void loss_add_row(struct loss_tally *t, const struct row_loss *row);
void loss_add_tally(struct loss_tally *t, const struct loss_tally *more);
void loss_clear(struct loss_tally *t);
/* Fills rows, at most LOSS_REASONS. Returns their number. */
size_t loss_rows(const struct loss_tally *t, struct row_loss *rows);

#endif
