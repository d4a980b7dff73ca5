/* section_memory.c: memory that the GPU can see. */
#include "report/section.h"

#include "analysis/memory_use.h"
#include "report/words.h"

#define MEMORY(member) MEMBER(struct memory_group, member)

static void read_name(const struct report_view *v, const void *row, struct value *out)
{
	const struct memory_group *g = row;
	const struct column_schema *kind =
		&schema_table(TABLE_allocation)->columns[COLUMN_allocation_kind];
	const char *name = schema_value_name(kind, g->kind);

	strbuf_addf(&out->text, "%s, device %u", name ? name : "?", g->device);
	report_of_process(v->report, g->process, &out->text);
}

static const struct field memory_fields[] = {
	{ .key = "pid", .unit = UNIT_PID, MEMORY(process) },
	{ .key = "device", .unit = UNIT_ID, MEMORY(device) },
	{ .key = "kind", .unit = UNIT_NAME, MEMORY(kind), ENUM(allocation, kind) },
	{ .head = "memory", .unit = UNIT_TEXT, .layout = LAYOUT_FLEXIBLE, .value = read_name },
	{ .key = "allocations", .head = "allocations", MEMORY(allocations) },
	{ .key = "allocated_bytes",
	  .head = "allocated",
	  .unit = UNIT_BYTES,
	  MEMORY(allocated_bytes) },
	{ .key = "releases", MEMORY(releases) },
	{ .key = "unknown_releases", MEMORY(unknown_releases) },
	{ .key = "peak_bytes", .head = "peak", .unit = UNIT_BYTES, MEMORY(peak_bytes) },
	{ .key = "peak_time_ns", .unit = UNIT_TIME, MEMORY(peak_ns) },
	{ .key = "live", .head = "left at the end", MEMORY(live) },
	{ .key = "live_bytes", .head = "bytes left", .unit = UNIT_BYTES, MEMORY(live_bytes) },
};

static const struct field fields[] = {
	{ .key = "memory",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ ITEMS(struct memory_use, items, count),
					FIELDS(memory_fields) } },
};

const struct section section_memory = { .title = "memory", RESULT(memory_use), FIELDS(fields) };
