/* import_losses.h: counts what an import leaves out, by reason and detail. */
#ifndef PITOT_IMPORT_IMPORT_LOSSES_H
#define PITOT_IMPORT_IMPORT_LOSSES_H

#include "format/writer.h"

#define IMPORT_LOSSES 128 /* kinds of losses that are counted separately */

struct import_losses {
	struct import_loss {
		enum loss_reason reason;
		uint64_t count;
		char detail[160];
	} items[IMPORT_LOSSES];
	size_t count;
};

/* Counts a loss under its reason and detail. The last item is for those that have no room. */
void import_losses_add(struct import_losses *l, enum loss_reason reason, uint64_t count,
		       const char *detail);
/* Appends a row for each. Returns their number. */
size_t import_losses_append(const struct import_losses *l, struct writer *w, uint64_t start_ns,
			    uint64_t end_ns);

#endif
