#include "analysis/work_kinds.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

ORDER(compare, struct work_kind, DOWN(total_ns))

static int run(struct report *r, void *result)
{
	struct work_kinds *out = result;
	struct work_walk w = work_walk(&r->calls, &r->selection);
	GROUPS(struct work_kind) kinds = GROUPS_INIT;

	while (work_walk_next(&w)) {
		struct work_kind *kind =
			groups_at(&kinds, w.work, .name = schema_gpu_work[w.work]->name);

		if (!kind) {
			groups_release(&kinds);
			return -ENOMEM;
		}
		kind->count++;
		kind->total_ns += w.ns;
		out->total_ns += w.ns;
	}
	groups_take(&kinds, compare, &out->items, &out->count);
	return 0;
}

const struct analysis analysis_work_kinds = {
	.size = sizeof(struct work_kinds),
	.run = run,
	.owned = { OWNS(struct work_kinds, items) },
};
