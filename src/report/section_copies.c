/* section_copies.c: copies and memory sets, with their bandwidth. */
#include "analysis/copies.h"
#include "report/section.h"

#define COPY(member) MEMBER(struct copy_group, member)

static const struct field kind = { ENUM(memcpy, kind) };
static const struct field memory = { ENUM(memset, memory_kind) };

static void read_kind(const struct report_view *v, const void *row, struct value *out)
{
	const struct copy_group *g = row;

	(void)v;
	if (g->set)
		strbuf_addf(&out->text, "memset  %s", value_name(&memory, g->destination));
	else
		strbuf_addf(&out->text, "%s  %s -> %s", value_name(&kind, g->kind),
			    value_name(&memory, g->source), value_name(&memory, g->destination));
}

ROW_IF(is_copy, struct copy_group, !row->set)

static const struct field copy_fields[] = {
	FIELD("set", NULL, FLAG, COPY(set)),
	FIELD("kind", NULL, NAME, COPY(kind), ENUM(memcpy, kind), .when = is_copy),
	FIELD("source", NULL, NAME, COPY(source), ENUM(memset, memory_kind), .when = is_copy),
	FIELD("destination", NULL, NAME, COPY(destination), ENUM(memset, memory_kind)),
	FIELD(NULL, "kind", TEXT, .value = read_kind, FLEXIBLE_COLUMN),
	FIELD("count", "count", COUNT, COPY(count)),
	FIELD("bytes", "bytes", BYTES, COPY(bytes), COUNTED(struct copy_group, sized)),
	FIELD(NULL, "mean size", BYTES, COPY(bytes), PER(struct copy_group, sized),
	      OPTIONAL_COLUMN),
	FIELD("async", NULL, COUNT, COPY(async), COUNTED(struct copy_group, async_known)),
	FIELD("timed", NULL, COUNT, COPY(timed)),
	FIELD("timed_bytes", NULL, BYTES, COPY(timed_bytes), COUNTED(struct copy_group, sized)),
	FIELD("total_ns", "time", NS, COPY(total_ns), COUNTED(struct copy_group, timed)),
	FIELD(NULL, "bandwidth", RATE, COPY(timed_bytes), PER(struct copy_group, sized_ns)),
	FIELD(NULL, "async", SHARE, COPY(async), PER(struct copy_group, async_known)),
};

static const struct field fields[] = {
	LIST("copies", ITEMS(struct copies, items, count), copy_fields),
};

const struct section section_copies = { .title = "copies", RESULT(copies), FIELDS(fields) };
