/* section_memory.c: GPU-visible memory. */
#include "report/section.h"

#include "analysis/memory/memory_use.h"
#include "report/words.h"

#define MEMORY(member) MEMBER(struct memory_group, member)

static const struct field kind = { ENUM(allocation, kind) };

const char *report_memory_kind(const struct memory_group *g)
{
	return value_name(&kind, g->kind);
}

void report_memory_text(const struct report *r, const struct memory_group *g, struct strbuf *out)
{
	strbuf_addf(out, "%s, device %u", report_memory_kind(g), g->device);
	report_of_process(r, g->process, out);
}

ROW_READ(read_name, struct memory_group, report_memory_text(v->report, row, &out->text))

static const struct field memory_fields[] = {
	FIELD("pid", NULL, PID, MEMORY(process)),
	FIELD("device", NULL, ID, MEMORY(device)),
	FIELD("kind", NULL, NAME, MEMORY(kind), ENUM(allocation, kind)),
	FIELD(NULL, "memory", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD("allocations", "allocations", COUNT, MEMORY(allocations)),
	FIELD("allocated_bytes", "allocated", BYTES, MEMORY(allocated_bytes)),
	FIELD("releases", NULL, COUNT, MEMORY(releases)),
	FIELD("unknown_releases", NULL, COUNT, MEMORY(unknown_releases)),
	FIELD("peak_bytes", "peak", BYTES, MEMORY(peak_bytes)),
	FIELD("peak_time_ns", NULL, TIME, MEMORY(peak_ns)),
	FIELD("live", "live at end", COUNT, MEMORY(live)),
	FIELD("live_bytes", "live bytes", BYTES, MEMORY(live_bytes)),
};

static const struct field fields[] = {
	LIST("memory", ITEMS(struct memory_use, items, count), memory_fields),
};

const struct section section_memory = { .title = "memory", RESULT(memory_use), FIELDS(fields) };
