/*
 * kept_dumps.h: the dumps that rules have made of a recording, with a limit for their size. The
 * oldest are removed first, but never the first one of a rule, which shows how it began.
 */
#ifndef PITOT_RECORD_KEPT_DUMPS_H
#define PITOT_RECORD_KEPT_DUMPS_H

#include "base/folder.h"
#include "base/vec.h"

#define KEPT_DUMPS_BYTES (UINT64_C(16) << 30) /* unless requested otherwise */

struct kept_dump {
	char *path;
	struct folder_id id;
	uint64_t bytes;
	bool is_first; /* of its rule */
};

struct kept_dumps {
	uint32_t rules; /* that have a dump: bits */
	VEC(struct kept_dump) all; /* oldest first */
};

/* Adds a dump, which is complete. Without memory it is never removed. */
void kept_dumps_add(struct kept_dumps *dumps, unsigned rule, const char *path,
		    const struct folder_id *id);
/*
 * Removes the oldest dump if all together have more than `bytes`. Returns its path, to be freed, or
 * NULL: none was removed.
 */
char *kept_dumps_trim(struct kept_dumps *dumps, uint64_t bytes) MUST_USE;
void kept_dumps_release(struct kept_dumps *dumps);

#endif
