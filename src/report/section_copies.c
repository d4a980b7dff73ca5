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

static void read_each(const struct report_view *v, const void *row, struct value *out)
{
	const struct copy_group *g = row;

	(void)v;
	out->n = g->bytes / g->count;
}

static void read_rate(const struct report_view *v, const void *row, struct value *out)
{
	const struct copy_group *g = row;

	(void)v;
	out->n = g->timed_bytes;
	out->whole = g->total_ns;
}

static void read_async(const struct report_view *v, const void *row, struct value *out)
{
	const struct copy_group *g = row;

	(void)v;
	out->n = g->async;
	out->whole = g->count;
}

static const struct field copy_fields[] = {
	{ .key = "set", .unit = UNIT_FLAG, COPY(set) },
	{ .json = write_source },
	{ .key = "destination", .unit = UNIT_NAME, COPY(destination), ENUM(memset, memory_kind) },
	{ .head = "kind", .unit = UNIT_TEXT, .layout = LAYOUT_FLEXIBLE, .value = read_kind },
	{ .key = "count", .head = "count", COPY(count) },
	{ .key = "bytes", .head = "bytes", .unit = UNIT_BYTES, COPY(bytes) },
	{ .head = "each", .unit = UNIT_BYTES, .layout = LAYOUT_OPTIONAL, .value = read_each },
	{ .key = "async", COPY(async) },
	{ .key = "timed", COPY(timed) },
	{ .key = "timed_bytes", .unit = UNIT_BYTES, COPY(timed_bytes) },
	{ .key = "total_ns",
	  .head = "time",
	  .unit = UNIT_NS,
	  COPY(total_ns),
	  COUNTED(struct copy_group, timed) },
	{ .head = "achieved", .unit = UNIT_RATE, .value = read_rate },
	{ .head = "async", .unit = UNIT_SHARE, .value = read_async },
};

static const struct field fields[] = {
	{ .key = "copies",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ ITEMS(struct copies, items, count), FIELDS(copy_fields) } },
};

const struct section section_copies = { .title = "copies", RESULT(copies), FIELDS(fields) };
