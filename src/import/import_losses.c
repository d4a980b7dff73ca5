#include "import/import_losses.h"

#include <stdio.h>
#include <string.h>

#include "format/rows.h"

void import_losses_add(struct import_losses *l, enum loss_reason reason, uint64_t count,
		       const char *detail)
{
	struct import_loss *item = l->items;

	detail = detail ? detail : ""; /* compared up to the stored length */
	for (; item < l->items + l->count; item++)
		if (item->reason == reason &&
		    !strncmp(item->detail, detail, sizeof(item->detail) - 1))
			break;
	if (item == l->items + IMPORT_LOSSES) {
		item--;
		snprintf(item->detail, sizeof(item->detail), "losses of many kinds");
	} else if (item == l->items + l->count) {
		*item = (struct import_loss){ .reason = reason };
		snprintf(item->detail, sizeof(item->detail), "%s", detail);
		l->count++;
	}
	item->count += count;
}

size_t import_losses_append(const struct import_losses *l, struct writer *w, uint64_t start_ns,
			    uint64_t end_ns)
{
	for (const struct import_loss *i = l->items; i < l->items + l->count; i++)
		rows_loss(w, i->reason, i->count, start_ns, end_ns, *i->detail ? i->detail : NULL);
	return l->count;
}
