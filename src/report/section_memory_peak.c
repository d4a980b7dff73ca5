/* section_memory_peak.c: who owns the memory at its peak and at the end (--memory). */
#include "report/section.h"

#include <stdlib.h>

#include "analysis/memory/memory_peak.h"
#include "analysis/steps.h"
#include "base/html.h"
#include "base/human.h"
#include "report/words.h"

#define PART(member) MEMBER(struct memory_part, member)
#define POOL(member) MEMBER(struct memory_pool, member)
#define GPU(member) MEMBER(struct memory_unexplained, member)
#define POINT(member) MEMBER(struct memory_point, member)

static const struct memory_group *group_of(const struct report_view *v, uint32_t group)
{
	return &v->report->memory_use->items[group];
}

/* --- parts --- */

static void add_size_class(uint32_t key, struct strbuf *out)
{
	strbuf_adds(out, "at least ");
	human_bytes(out, UINT64_C(1) << key);
}

static void add_part_name(const struct report_view *v, const struct memory_part *p,
			  struct strbuf *out)
{
	static const char *const none[] = { [MEMORY_BY_LINE] = "(no stack)",
					    [MEMORY_BY_SCOPE] = "(outside of scopes)",
					    [MEMORY_BY_STEP] = "(outside of steps)",
					    [MEMORY_BY_SIZE] = "(nothing)" };

	if (p->key == MEMORY_BEFORE)
		strbuf_adds(out, "(before the recording)");
	else if (p->key == MEMORY_NONE)
		strbuf_adds(out, none[p->by]);
	else if (p->by == MEMORY_BY_LINE)
		report_line_text(v->report, p->key, CALLER_NONE, out);
	else if (p->by == MEMORY_BY_SCOPE)
		scope_path_text(&v->report->ranges, v->report->trace, p->key, out);
	else if (p->by == MEMORY_BY_STEP)
		sentence_add(out, WORDS("step "), NUMBER(v->report->steps->items[p->key].number));
	else
		add_size_class(p->key, out);
}

ROW_READ(read_name, struct memory_part, add_part_name(v, row, &out->text))
ROW_READ(read_part_memory, struct memory_part,
	 report_memory_text(v->report, group_of(v, row->group), &out->text))
ROW_READ(read_part_pid, struct memory_part, out->n = group_of(v, row->group)->process)
ROW_READ(read_part_device, struct memory_part, out->n = group_of(v, row->group)->device)
ROW_READ(read_part_kind, struct memory_part,
	 strbuf_adds(&out->text, report_memory_kind(group_of(v, row->group))))

static void read_peak_share(const struct report_view *v, const void *row, struct value *out)
{
	const struct memory_part *p = row;

	out->n = p->bytes;
	out->whole = group_of(v, p->group)->peak_bytes;
}

/* Whether there is nothing to tell parts apart. */
ROW_IF(has_no_scopes, struct memory_part, !v->report->ranges.path_count)
ROW_IF(has_no_steps, struct memory_part, !v->report->steps->count)

static const char *memory_head(const struct report_view *v)
{
	return v->report->memory_use->count > 1 ? "memory" : NULL;
}

#define PART_FIELDS(head, name_head, share)                                                        \
	FIELD("pid", NULL, PID, .value = read_part_pid),                                           \
		FIELD("device", NULL, ID, .value = read_part_device),                              \
		FIELD("kind", NULL, TEXT, .value = read_part_kind),                                \
		FIELD("bytes", head, BYTES, PART(bytes)), share,                                   \
		FIELD("count", "blocks", COUNT, PART(count)),                                      \
		FIELD(NULL, NULL, TEXT, .value = read_part_memory, .head_of = memory_head,         \
		      LEFT_COLUMN),                                                                \
		FIELD("name", name_head, CODE, .value = read_name, FLEXIBLE_COLUMN)
#define PEAK_FIELDS(name_head)                                                                     \
	PART_FIELDS("at peak", name_head, FIELD(NULL, "share", SHARE, .value = read_peak_share))

static const struct field line_fields[] = { PEAK_FIELDS("allocated by") };
static const struct field scope_fields[] = { PEAK_FIELDS("allocated in scope") };
static const struct field step_fields[] = { PEAK_FIELDS("allocated in") };
static const struct field size_fields[] = { PEAK_FIELDS("size of blocks") };
static const struct field live_fields[] = { PART_FIELDS("at end", "never released, allocated by",
							FIELD(NULL, NULL, COUNT, PART(count))) };

/* --- curves --- */

static const void *curve_at(const struct report_view *v, const void *result, size_t i)
{
	const struct memory_peak *p = result;

	(void)v;
	return i < p->curve_count ? &p->curves[i] : NULL;
}

static const struct memory_group *curve_group(const struct report_view *v, const void *curve)
{
	return group_of(
		v, (uint32_t)((const struct memory_curve *)curve - v->report->memory_peak->curves));
}

#define READ_GROUP(name, statement)                                                                \
	static void name(const struct report_view *v, const void *row, struct value *out)          \
	{                                                                                          \
		const struct memory_group *g = curve_group(v, row);                                \
                                                                                                   \
		statement;                                                                         \
	}

READ_GROUP(read_pid, out->n = g->process)
READ_GROUP(read_device, out->n = g->device)
READ_GROUP(read_kind, strbuf_adds(&out->text, report_memory_kind(g)))
READ_GROUP(read_base, out->n = g->base_bytes)
READ_GROUP(read_peak, out->n = g->peak_bytes)
READ_GROUP(read_peak_time, out->n = g->peak_ns)
READ_GROUP(read_memory, report_memory_text(v->report, g, &out->text))

static bool is_set(const struct report_view *v, const void *row)
{
	return curve_group(v, row)->peak_row != TRACE_NO_ROW;
}

READ_GROUP(read_setter_bytes, out->n = allocation_columns(v->report->trace)->bytes[g->peak_row])

/* The line of the allocation that set the peak. */
READ_GROUP(read_setter, report_line_text(v->report,
					 callers_of_call(&v->report->callers, g->process,
							 memory_call(v->report, g->peak_row)),
					 CALLER_NONE, &out->text))

static const struct field point_fields[] = {
	FIELD("time_ns", NULL, TIME, POINT(time_ns)),
	FIELD("bytes", NULL, BYTES, POINT(bytes)),
};

static const struct field curve_fields[] = {
	FIELD("pid", NULL, PID, .value = read_pid),
	FIELD("device", NULL, ID, .value = read_device),
	FIELD("kind", NULL, TEXT, .value = read_kind),
	FIELD(NULL, "memory", TEXT, .value = read_memory, LEFT_COLUMN),
	FIELD("base_bytes", "before", BYTES, .value = read_base),
	FIELD("peak_bytes", "peak", BYTES, .value = read_peak),
	FIELD("peak_time_ns", "at", TIME, .value = read_peak_time),
	FIELD("set_by_bytes", "set by", BYTES, .value = read_setter_bytes, .when = is_set,
	      .null = true),
	FIELD("set_by", "of", CODE, .value = read_setter, .when = is_set, .null = true,
	      FLEXIBLE_COLUMN),
	LIST("points", ITEMS(struct memory_curve, points, count), point_fields, .all = true),
};

/* --- pools and the driver --- */

static void read_pool(const struct report_view *v, const void *row, struct value *out)
{
	const struct memory_pool *p = row;

	if (p->address)
		strbuf_addf(&out->text, "pool 0x%llx, device %u", (unsigned long long)p->address,
			    p->device);
	else
		strbuf_addf(&out->text, "segments of the allocator, device %u", p->device);
	report_of_process(v->report, p->process, &out->text);
}

ROW_READ(read_unused, struct memory_pool,
	 (out->n = row->size_bytes - MIN(row->used_bytes, row->size_bytes),
	  out->whole = row->size_bytes))
ROW_IF(has_threshold, struct memory_pool, row->threshold_bytes != UINT64_MAX)

static const struct field pool_fields[] = {
	FIELD("pid", NULL, PID, POOL(process)),
	FIELD("device", NULL, ID, POOL(device)),
	FIELD("address", NULL, ID, POOL(address)),
	FIELD("size_bytes", "largest size", BYTES, POOL(size_bytes)),
	FIELD("size_time_ns", "at", TIME, POOL(size_ns)),
	FIELD("used_bytes", "of it used", BYTES, POOL(used_bytes)),
	FIELD(NULL, "unused", SHARE, .value = read_unused),
	FIELD("peak_used_bytes", "most used", BYTES, POOL(peak_used_bytes)),
	FIELD("trims", "trims", COUNT, POOL(trims), OPTIONAL_COLUMN),
	FIELD("release_threshold_bytes", NULL, BYTES, POOL(threshold_bytes), .when = has_threshold,
	      .null = true),
	FIELD(NULL, "pool", TEXT, .value = read_pool, FLEXIBLE_COLUMN),
};

ROW_READ(read_gpu, struct memory_unexplained, strbuf_addf(&out->text, "GPU %u", row->gpu))

static void read_unexplained(const struct report_view *v, const void *row, struct value *out)
{
	const struct memory_unexplained *g = row;

	(void)v;
	strbuf_adds(&out->text, g->unexplained_bytes < 0 ? "-" : "");
	human_bytes(&out->text, (uint64_t)llabs(g->unexplained_bytes));
}

static const struct field gpu_fields[] = {
	FIELD("gpu", NULL, ID, GPU(gpu)),
	FIELD(NULL, "in use", TEXT, .value = read_gpu, LEFT_COLUMN),
	FIELD("time_ns", "at", TIME, GPU(time_ns)),
	FIELD("used_bytes", "by the driver", BYTES, GPU(used_bytes)),
	FIELD("tracked_bytes", "recorded", BYTES, GPU(tracked_bytes)),
	FIELD("unexplained_bytes", NULL, UNIX, GPU(unexplained_bytes)),
	FIELD(NULL, "unexplained", TEXT, .value = read_unexplained, .layout = LAYOUT_RIGHT),
};

/* --- the section --- */

#define PARTS(of) ITEMS(struct memory_peak, of.items, of.count)

static const struct field fields[] = {
	LIST("curves", .item = curve_at, curve_fields),
	LIST("by_line", PARTS(peak[MEMORY_BY_LINE]), line_fields),
	LIST("by_scope", PARTS(peak[MEMORY_BY_SCOPE]), scope_fields, .hidden = has_no_scopes),
	LIST("by_step", PARTS(peak[MEMORY_BY_STEP]), step_fields, .hidden = has_no_steps),
	LIST("by_size", PARTS(peak[MEMORY_BY_SIZE]), size_fields, .half = true),
	LIST("live", PARTS(live), live_fields),
	LIST("pools", ITEMS(struct memory_peak, pools, pool_count), pool_fields),
	LIST("gpus", ITEMS(struct memory_peak, gpus, gpu_count), gpu_fields, .all = true),
};

static bool is_computed(const struct report_view *v)
{
	return v->report->options.memory;
}

/* A curve as an area, with its peak above it. */
static void draw(const struct report_view *v, const struct memory_curve *c)
{
	const struct memory_group *g = curve_group(v, c);
	const struct report *r = v->report;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	double span = (double)MAX(r->end_ns - r->span_start_ns, 1), y = 80;
	double peak = (double)MAX(g->peak_bytes, 1);

	report_memory_text(r, g, &text);
	sentence_add(&text, WORDS(": peak "), BYTES(g->peak_bytes));
	strbuf_adds(v->out, "<p>");
	html_escape(v->out, strbuf_text(&text), text.length);
	strbuf_adds(v->out, "</p><svg viewBox=\"0 0 960 82\" width=\"100%\" height=\"82\" "
			    "preserveAspectRatio=\"none\" role=\"img\"><path "
			    "fill=\"#3b7dd8\" fill-opacity=\".45\" d=\"M0 80");
	if (g->base_bytes)
		strbuf_addf(v->out, "V%.1f", y = 80 - 78 * (double)g->base_bytes / peak);
	for (size_t i = 0; i < c->count; i++)
		strbuf_addf(v->out, "H%.1fV%.1f",
			    960 * (double)(c->points[i].time_ns - r->span_start_ns) / span,
			    80 - 78 * (double)c->points[i].bytes / peak);
	strbuf_adds(v->out, "H960V80Z\"/></svg>\n");
}

#define CURVES_DRAWN 8u

static void draw_curves(const struct report_view *v)
{
	const struct memory_peak *p = v->report->memory_peak;

	for (size_t i = 0; i < MIN(p->curve_count, CURVES_DRAWN); i++)
		if (p->curves[i].count)
			draw(v, &p->curves[i]);
}

static void print_none(const struct report_view *v)
{
	if (!v->report->options.memory)
		return;
	report_title(v, "memory at its peak", "no allocations in the recording");
	report_paragraph(v, 2,
			 "to record them: pitot record --memory; those of PyTorch's "
			 "allocator: pitot.torch.memory() in the program");
}

const struct section section_memory_peak = {
	.key = "memory_peak",
	.title = "memory at its peak",
	RESULT(memory_peak),
	FIELDS(fields),
	.computed = is_computed,
	.picture = draw_curves,
	.empty = print_none,
};
