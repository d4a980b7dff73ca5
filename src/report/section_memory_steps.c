/* section_memory_steps.c: leak suspects, calls within steps, lifetimes (--memory). */
#include "report/section.h"

#include "analysis/memory/memory_steps.h"
#include "report/words.h"

#define LEAK(member) MEMBER(struct memory_leak, member)
#define CHURN(member) MEMBER(struct memory_churn, member)
#define LIFETIME(member) MEMBER(struct memory_lifetime, member)

static const struct memory_group *group_of(const struct report_view *v, uint32_t group)
{
	return &v->report->memory_use->items[group];
}

ROW_READ(read_leak_pid, struct memory_leak, out->n = group_of(v, row->group)->process)
ROW_READ(read_leak_device, struct memory_leak, out->n = group_of(v, row->group)->device)
ROW_READ(read_leak_kind, struct memory_leak,
	 strbuf_adds(&out->text, report_memory_kind(group_of(v, row->group))))
ROW_READ(read_leak_line, struct memory_leak,
	 report_line_text(v->report, row->line, CALLER_NONE, &out->text))
ROW_READ(read_slope, struct memory_leak, out->n = (uint64_t)(row->step_bytes + 0.5))

static const struct field leak_fields[] = {
	FIELD("pid", NULL, PID, .value = read_leak_pid),
	FIELD("device", NULL, ID, .value = read_leak_device),
	FIELD("kind", NULL, TEXT, .value = read_leak_kind),
	FIELD("step_bytes", "per step", BYTES, .value = read_slope),
	FIELD("steps", "steps", COUNT, LEAK(steps)),
	FIELD("first_bytes", "after the first", BYTES, LEAK(first_bytes)),
	FIELD("last_bytes", "after the last", BYTES, LEAK(last_bytes)),
	FIELD("last_count", "blocks", COUNT, LEAK(last_count)),
	FIELD("p", NULL, REAL, LEAK(p)),
	FIELD("name", "leak suspect, allocated by", CODE, .value = read_leak_line, FLEXIBLE_COLUMN),
};

ROW_READ(read_churn_line, struct memory_churn,
	 report_line_text(v->report, row->line, CALLER_NONE, &out->text))

static const struct field churn_fields[] = {
	FIELD("pid", NULL, PID, CHURN(process)),
	FIELD("allocations", "allocations", COUNT, CHURN(allocations)),
	FIELD("releases", "releases", COUNT, CHURN(releases)),
	FIELD("allocated_bytes", "allocated", BYTES, CHURN(allocated_bytes)),
	FIELD("synchronizing", "synchronous", COUNT, CHURN(synchronizing)),
	FIELD("host_ns", "host time", NS, CHURN(host_ns)),
	FIELD("steps", "in steps", COUNT, CHURN(steps)),
	FIELD("loop_steps", "of", COUNT, CHURN(loop_steps)),
	FIELD("name", "by", CODE, .value = read_churn_line, FLEXIBLE_COLUMN),
};

ROW_READ(read_lifetime_pid, struct memory_lifetime, out->n = group_of(v, row->group)->process)
ROW_READ(read_lifetime_device, struct memory_lifetime, out->n = group_of(v, row->group)->device)
ROW_READ(read_lifetime_kind, struct memory_lifetime,
	 strbuf_adds(&out->text, report_memory_kind(group_of(v, row->group))))
ROW_READ(read_lifetime_memory, struct memory_lifetime,
	 report_memory_text(v->report, group_of(v, row->group), &out->text))

#define LIVED(decade, head) FIELD(NULL, head, COUNT, LIFETIME(counts[decade]), OPTIONAL_COLUMN)

ROW_IF(knows_ranges, struct memory_lifetime, row->knows_ranges)
#define IF_RANGES .when = knows_ranges, .null = true

static const struct field lifetime_fields[] = {
	FIELD("pid", NULL, PID, .value = read_lifetime_pid),
	FIELD("device", NULL, ID, .value = read_lifetime_device),
	FIELD("kind", NULL, TEXT, .value = read_lifetime_kind),
	FIELD(NULL, "blocks that lived", TEXT, .value = read_lifetime_memory, FLEXIBLE_COLUMN),
	FIELD("counts", NULL, NUMBERS, NUMBERS(struct memory_lifetime, counts)),
	FIELD("bytes", NULL, NUMBERS, NUMBERS(struct memory_lifetime, bytes)),
	LIVED(0, "<10 us"),
	LIVED(1, "<100 us"),
	LIVED(2, "<1 ms"),
	LIVED(3, "<10 ms"),
	LIVED(4, "<100 ms"),
	LIVED(5, "<1 s"),
	LIVED(6, "<10 s"),
	LIVED(7, "longer"),
	FIELD("same_range_count", "in one scope", COUNT, LIFETIME(same_range_count),
	      OPTIONAL_COLUMN, IF_RANGES),
	FIELD("same_range_bytes", NULL, BYTES, LIFETIME(same_range_bytes), IF_RANGES),
};

static uint64_t ended(const struct memory_lifetime *l)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < MEMORY_LIFETIMES; i++)
		count += l->counts[i];
	return count;
}

ROW_IF(is_empty, struct memory_lifetime, !ended(row))

static const struct field fields[] = {
	LIST("leaks", ITEMS(struct memory_steps, leaks, leak_count), leak_fields),
	LIST("churn", ITEMS(struct memory_steps, churn, churn_count), churn_fields),
	LIST("lifetimes", ITEMS(struct memory_steps, lifetimes, lifetime_count), lifetime_fields,
	     .hidden = is_empty),
};

static bool is_computed(const struct report_view *v)
{
	return v->report->options.memory;
}

const struct section section_memory_steps = {
	.key = "memory_steps",
	.title = "memory over steps",
	RESULT(memory_steps),
	FIELDS(fields),
	.computed = is_computed,
};
