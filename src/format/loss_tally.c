#include "format/loss_tally.h"

#include <errno.h>

void loss_add(struct loss_tally *t, unsigned reason, uint64_t count, uint64_t start_ns,
	      uint64_t end_ns)
{
	struct loss_item *item = &t->items[reason < LOSS_REASONS ? reason : loss_reason_unknown];

	item->start_ns = item->any ? MIN(item->start_ns, start_ns) : start_ns;
	item->end_ns = item->any ? MAX(item->end_ns, end_ns) : end_ns;
	item->count += count;
	item->any = t->any = true;
}

enum loss_reason loss_of_error(int err)
{
	return err == -ENOSPC || err == -EDQUOT ? loss_reason_disk_full : loss_reason_write_error;
}

void loss_add_row(struct loss_tally *t, const struct row_loss *row)
{
	loss_add(t, row->reason, row->count, row->start_ns, row->end_ns);
}

void loss_add_tally(struct loss_tally *t, const struct loss_tally *more)
{
	for (unsigned i = 0; i < LOSS_REASONS; i++)
		if (more->items[i].any)
			loss_add(t, i, more->items[i].count, more->items[i].start_ns,
				 more->items[i].end_ns);
}

void loss_clear(struct loss_tally *t)
{
	*t = (struct loss_tally){ 0 };
}

size_t loss_rows(const struct loss_tally *t, struct row_loss *rows)
{
	size_t count = 0;

	for (unsigned i = 0; i < LOSS_REASONS; i++) {
		const struct loss_item *item = &t->items[i];

		if (!item->any)
			continue;
		rows[count] = (struct row_loss){ .reason = (uint8_t)i,
						 .count = item->count,
						 .start_ns = item->start_ns,
						 .end_ns = item->end_ns };
		ROW_MISSING(&rows[count], loss, detail);
		count++;
	}
	return count;
}
