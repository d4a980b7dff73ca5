/* section_work_kinds.c: GPU work by its kind. */
#include "analysis/work_kinds.h"
#include "report/section.h"

#define KIND(member) MEMBER(struct work_kind, member)

static const struct field kind_fields[] = {
	FIELD("name", "kind", TEXT, KIND(name), FLEXIBLE_COLUMN),
	FIELD("count", "count", COUNT, KIND(count)),
	FIELD("total_ns", "time", NS, KIND(total_ns)),
	FIELD(NULL, "share", SHARE, KIND(total_ns), WHOLE(struct work_kinds, total_ns)),
};

static const struct field fields[] = {
	LIST("work_kinds", ITEMS(struct work_kinds, items, count), kind_fields),
};

const struct section section_work_kinds = {
	.title = "GPU work by kind",
	RESULT(work_kinds),
	FIELDS(fields),
};
