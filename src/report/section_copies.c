/* section_copies.c: copies and memory sets, with the bandwidth that they achieved. */
#include "report/section.h"

#include "analysis/copies.h"

#define COPY(member) MEMBER(struct copy_group, member)

static const struct field kind = { ENUM(memcpy, kind) };
static const struct field memory = { ENUM(memset, memory_kind) };

static const char *name_of(const struct field *f, uint8_t value)
{
	const char *name = schema_value_name(&schema_table(f->table)->columns[f->column], value);

	return name ? name : "?";
}

static void read_kind(const struct report_view *v, const void *row, struct value *out)
{
	const struct copy_group *g = row;

	(void)v;
	if (g->set)
		strbuf_addf(&out->text, "set %s", name_of(&memory, g->destination));
	else
		strbuf_addf(&out->text, "%s  %s -> %s", name_of(&kind, g->kind),
			    name_of(&memory, g->source), name_of(&memory, g->destination));
}

/* Keys of copies alone. */
static void write_source(struct report_view *v, const void *row)
{
	const struct copy_group *g = row;

	if (g->set)
		return;
	json_key_string(&v->json, "kind", name_of(&kind, g->kind));
	json_key_string(&v->json, "source", name_of(&memory, g->source));
}

static const struct field copy_fields[] = {
	FIELD("set", NULL, FLAG, COPY(set)),
	{ .json = write_source },
	FIELD("destination", NULL, NAME, COPY(destination), ENUM(memset, memory_kind)),
	FIELD(NULL, "kind", TEXT, .value = read_kind, FLEXIBLE_COLUMN),
	FIELD("count", "count", COUNT, COPY(count)),
	FIELD("bytes", "bytes", BYTES, COPY(bytes)),
	FIELD(NULL, "each", BYTES, COPY(bytes), PER(struct copy_group, count), OPTIONAL_COLUMN),
	FIELD("async", NULL, COUNT, COPY(async)),
	FIELD("timed", NULL, COUNT, COPY(timed)),
	FIELD("timed_bytes", NULL, BYTES, COPY(timed_bytes)),
	FIELD("total_ns", "time", NS, COPY(total_ns), COUNTED(struct copy_group, timed)),
	FIELD(NULL, "achieved", RATE, COPY(timed_bytes), PER(struct copy_group, total_ns)),
	FIELD(NULL, "async", SHARE, COPY(async), PER(struct copy_group, count)),
};

static const struct field fields[] = {
	LIST("copies", ITEMS(struct copies, items, count), copy_fields),
};

const struct section section_copies = { .title = "copies", RESULT(copies), FIELDS(fields) };
