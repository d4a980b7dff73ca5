#include "analysis/collective_waits.h"

#include <errno.h>
#include <stdlib.h>

#include "ranks/collective_wait.h"

static int add_waits(const struct collectives *c, const struct collective_match *m,
		     bool waits_known, uint32_t *last, struct map *waits)
{
	const struct collective_part *parts = c->parts.data;
	bool known = waits_known && m->parts > 1 && collective_is_whole(parts, m);
	int rc = 0;

	if (known) {
		collective_find_needs(parts, m, last);
		collective_find_last(parts, m, last, 0, last);
	}
	for (uint32_t i = 0; i < m->parts && rc >= 0; i++) {
		const struct collective_part *p = &parts[m->first + i];

		if (p->size != 1)
			rc = map_put(waits, p->kernel,
				     known ? parts[last[i]].start_ns - p->start_ns : WAIT_UNKNOWN);
	}
	return rc;
}

int collective_waits_list(const struct collectives *c, bool waits_known, struct map *waits)
{
	_cleanup_free_ uint32_t *last = calloc(c->rank_count + 1, sizeof(*last));
	int rc = last ? 0 : -ENOMEM;

	for (size_t i = 0; i < c->matches.items.count && rc >= 0; i++)
		rc = add_waits(c, &c->matches.items.data[i], waits_known, last, waits);
	return rc;
}
