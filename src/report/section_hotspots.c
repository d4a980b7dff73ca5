/* section_hotspots.c: which kernels took the time. */
#include "report/section.h"

#include <string.h>

#include "analysis/inner_callers.h"
#include "analysis/occupancy.h"
#include "base/human.h"
#include "base/path.h"
#include "report/words.h"
#include "symbol/demangle.h"

#define NARROW 110 /* columns below which the second line of a kernel begins under its figures */

static void add_name(const struct report *r, const struct hotspot *h, bool full_names,
		     struct strbuf *out)
{
	const char *text;

	switch (r->hotspots->by) {
	case HOTSPOT_KERNEL:
	case HOTSPOT_CONFIG:
		report_kernel_text(r, h->config, full_names, out);
		break;
	case HOTSPOT_STREAM:
		strbuf_addf(out, "stream %u", h->key);
		report_of_process(r, h->process, out);
		break;
	case HOTSPOT_DEVICE:
		strbuf_addf(out, "GPU %u ", h->key);
		text_safe(out, r->gpus.items[h->key].name, strlen(r->gpus.items[h->key].name));
		break;
	case HOTSPOT_THREAD:
		if (h->key == HOTSPOT_NO_KEY)
			strbuf_adds(out, "(unknown thread)");
		else
			report_thread_text(r, h->process, h->key, out);
		break;
	case HOTSPOT_NVTX:
		text = h->key == HOTSPOT_NO_KEY ? "(outside any range)"
						: trace_string(r->trace, h->key);
		text_safe(out, *text ? text : "(range without text)", *text ? strlen(text) : 20);
		break;
	case HOTSPOT_CALLER:
		report_line_text(r, h->key, CALLER_NONE, out);
		break;
	case HOTSPOT_KINDS:
		break;
	}
}

static uint32_t config_value(const struct report *r, uint32_t config, int column)
{
	return (uint32_t)trace_value(r->trace, TABLE_kernel_config, column, config, NULL);
}

static void add_size(struct strbuf *out, const struct report *r, uint32_t config,
		     const int columns[3])
{
	uint32_t x = config_value(r, config, columns[0]), y = config_value(r, config, columns[1]),
		 z = config_value(r, config, columns[2]);

	strbuf_addf(out, "%u", x);
	if (y != 1 || z != 1)
		strbuf_addf(out, ",%u", y);
	if (z != 1)
		strbuf_addf(out, ",%u", z);
}

/* "(1024,8)x(256)": the grid in blocks, the block in threads */
static void add_config(struct strbuf *out, const struct report *r, const struct hotspot *h)
{
	static const int grid[] = { COLUMN_kernel_config_grid_x, COLUMN_kernel_config_grid_y,
				    COLUMN_kernel_config_grid_z };
	static const int block[] = { COLUMN_kernel_config_block_x, COLUMN_kernel_config_block_y,
				     COLUMN_kernel_config_block_z };

	strbuf_addc(out, '(');
	add_size(out, r, h->config, grid);
	strbuf_adds(out, ")x(");
	add_size(out, r, h->config, block);
	strbuf_addc(out, ')');
}

/* "62% registers": the share of warps, and what limits it; nothing when it cannot be computed. */
static void add_occupancy(struct strbuf *out, const struct report *r, const struct hotspot *h)
{
	struct occupancy o;

	if (occupancy_of_rows(r->trace, r->gpus.items[h->device].row, h->config, &o) < 0 ||
	    !o.blocks)
		return;
	strbuf_addf(out, "%u%% %s",
		    o.max_warps ? (100 * o.warps + o.max_warps / 2) / o.max_warps : 0,
		    occupancy_limiter_name(o.limiter));
}

/* What does not fit beside the name: below it. */
static void add_detail(struct text_table *t, const struct report_view *v, const struct hotspot *h,
		       bool has_config)
{
	const struct report *r = v->report;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, occupancy = STRBUF_INIT;

	if (h->time.count) {
		strbuf_adds(&line, "min ");
		human_duration(&line, h->time.min_ns);
		strbuf_adds(&line, ", max ");
		human_duration(&line, h->time.max_ns);
	}
	if (has_config && h->config != TRACE_NO_ROW) {
		strbuf_adds(&line, line.length ? ", " : "");
		add_config(&line, r, h);
		add_occupancy(&occupancy, r, h);
		if (occupancy.length)
			strbuf_addf(&line, ", occupancy %s", strbuf_text(&occupancy));
	}
	text_table_note(t, v->width < NARROW ? 1 : 6, strbuf_text(&line));
}

static void add_callers_text(const struct report_view *v, const struct hotspot *h,
			     struct strbuf *out)
{
	uint64_t shown = MIN(MIN(v->callers, h->caller_count), HOTSPOT_CALLERS_MAX);

	if (!shown || (h->caller_count == 1 && h->callers[0].caller == CALLER_NONE))
		return;
	for (uint64_t i = 0; i < shown; i++) {
		strbuf_adds(out, i ? ", " : "from ");
		report_line_text(v->report, h->callers[i].caller, CALLER_NONE, out);
		if (h->caller_count > 1)
			report_share_text(h->callers[i].total_ns, h->time.total_ns, out);
	}
	if (h->caller_count > shown)
		strbuf_addf(out, ", and %llu more", (unsigned long long)(h->caller_count - shown));
}

/* The one line that launched all of the hotspots that are shown, where there are several; or none. */
static uint32_t common_caller(const struct report_view *v)
{
	const struct hotspots *h = v->report->hotspots;
	size_t shown = MIN(h->count, v->top);

	if (!v->callers || shown < 2)
		return CALLER_NONE;
	for (size_t i = 0; i < shown; i++)
		if (h->items[i].caller_count != 1 ||
		    h->items[i].callers[0].caller != h->items[0].callers[0].caller)
			return CALLER_NONE;
	return h->items[0].callers[0].caller;
}

static const char *title_of(const struct report_view *v)
{
	static const char *const titles[HOTSPOT_KINDS] = {
		[HOTSPOT_KERNEL] = "kernels",
		[HOTSPOT_CONFIG] = "kernels by configuration",
		[HOTSPOT_STREAM] = "kernels by stream",
		[HOTSPOT_DEVICE] = "kernels by GPU",
		[HOTSPOT_THREAD] = "kernels by launching thread",
		[HOTSPOT_NVTX] = "kernels by innermost NVTX range",
		[HOTSPOT_CALLER] = "kernels by launching line",
	};

	return titles[v->report->hotspots->by];
}

/* A choice that nothing fits is said; a recording without kernels is no such choice. */
static void print_none(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, choice = STRBUF_INIT;

	report_choice_text(&v->report->options.filter, &choice);
	if (!choice.length || !trace_rows(v->report->trace, TABLE_kernel))
		return;
	strbuf_addf(&line, "none of ");
	human_count(&line, trace_rows(v->report->trace, TABLE_kernel));
	strbuf_addf(&line, " fits: %s", strbuf_text(&choice) + strlen("; "));
	report_title(v, title_of(v), strbuf_text(&line));
}

static void write_config(struct report_view *v, const struct hotspot *h)
{
	static const int dimensions[] = {
		COLUMN_kernel_config_grid_x,  COLUMN_kernel_config_grid_y,
		COLUMN_kernel_config_grid_z,  COLUMN_kernel_config_block_x,
		COLUMN_kernel_config_block_y, COLUMN_kernel_config_block_z
	};
	const struct report *r = v->report;
	struct occupancy o;

	report_json_object(v, "config");
	json_key_u64(&v->json, "count", h->config_count);
	for (int i = 0; i < 6; i++) {
		if (i % 3 == 0)
			report_json_list(v, i ? "block" : "grid");
		json_u64(&v->json, config_value(r, h->config, dimensions[i]));
		if (i % 3 == 2)
			json_end(&v->json);
	}
	json_key_u64(&v->json, "registers",
		     config_value(r, h->config, COLUMN_kernel_config_registers));
	json_key_u64(&v->json, "static_shared_bytes",
		     config_value(r, h->config, COLUMN_kernel_config_static_shared_bytes));
	json_key_u64(&v->json, "dynamic_shared_bytes",
		     config_value(r, h->config, COLUMN_kernel_config_dynamic_shared_bytes));
	if (occupancy_of_rows(r->trace, r->gpus.items[h->device].row, h->config, &o) == 0) {
		report_json_object(v, "occupancy");
		json_key_u64(&v->json, "warps", o.warps);
		json_key_u64(&v->json, "max_warps", o.max_warps);
		json_key_u64(&v->json, "blocks", o.blocks);
		json_key_string(&v->json, "limiter", occupancy_limiter_name(o.limiter));
		json_key_fixed(&v->json, "waves", (int64_t)o.waves_milli, 3);
		json_end(&v->json);
	}
	json_end(&v->json);
}

/* What the group is, by the key that its kind has. */
static void write_group_keys(struct report_view *v, const void *row)
{
	const struct hotspot *h = row;
	const struct report *r = v->report;
	enum hotspot_by by = r->hotspots->by;
	const char *name;
	struct strbuf text = STRBUF_INIT;

	add_name(r, h, false, &text);
	json_key_string(&v->json, "label", strbuf_text(&text));
	strbuf_clear(&text);
	if ((by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG) && h->config != TRACE_NO_ROW) {
		name = trace_string(
			r->trace, (uint32_t)config_value(r, h->config, COLUMN_kernel_config_name));
		demangle(name, &text);
		json_key_string(&v->json, "name", strbuf_text(&text));
		json_key_string(&v->json, "symbol", name);
	} else if (by == HOTSPOT_STREAM) {
		json_key_u64(&v->json, "pid", trace_process(r->trace, h->process)->pid);
		json_key_u64(&v->json, "stream", h->key);
	} else if (by == HOTSPOT_DEVICE) {
		json_key_u64(&v->json, "gpu", h->key);
	} else if (by == HOTSPOT_THREAD && h->key != HOTSPOT_NO_KEY) {
		report_json_thread(v, h->process, h->key);
	} else if (by == HOTSPOT_NVTX && h->key != HOTSPOT_NO_KEY) {
		json_key_string(&v->json, "range", trace_string(r->trace, h->key));
	} else if (by == HOTSPOT_CALLER) {
		report_json_line(v, "caller", h->key);
	}
	strbuf_release(&text);
}

static bool has_config(const struct report_view *v, const struct hotspot *h)
{
	enum hotspot_by by = v->report->hotspots->by;

	return (by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG) && h->config != TRACE_NO_ROW;
}

/* The module that launched most of it, where the user's line does not say it; or CALLER_NONE. */
static uint32_t inner_caller(const struct report_view *v, const struct hotspot *h)
{
	const struct inner_callers *c = v->report->inner_callers;
	size_t i = (size_t)(h - v->report->hotspots->items);

	return i < c->count ? c->items[i] : CALLER_NONE;
}

/* "LlamaAttention.forward modeling_llama.py:259" */
static void add_inner_caller(const struct report *r, uint32_t caller, struct strbuf *out)
{
	const struct caller *c = caller_at(&r->callers, caller);
	const char *function = stacks_text(&r->callers.stacks, c->function);
	const char *file = base_name(stacks_text(&r->callers.stacks, c->file));

	text_safe(out, function, strlen(function));
	strbuf_addc(out, ' ');
	text_safe(out, file, strlen(file));
	if (c->line)
		strbuf_addf(out, ":%u", c->line);
}

static void write_details(struct report_view *v, const void *row)
{
	const struct hotspot *h = row;

	if (has_config(v, h))
		write_config(v, h);
	if (!v->callers || !h->caller_count)
		return;
	json_key_u64(&v->json, "caller_count", h->caller_count);
	report_json_list(v, "callers");
	for (uint64_t i = 0; i < MIN(MIN(h->caller_count, HOTSPOT_CALLERS_MAX), v->callers); i++) {
		json_object(&v->json);
		report_json_line(v, "caller", h->callers[i].caller);
		json_key_u64(&v->json, "count", h->callers[i].count);
		json_key_u64(&v->json, "total_ns", h->callers[i].total_ns);
		json_end(&v->json);
	}
	json_end(&v->json);
	report_json_line(v, "inner_caller", inner_caller(v, h));
}

static void add_notes(const struct report_view *v, const void *row, struct text_table *t)
{
	enum hotspot_by by = v->report->hotspots->by;
	bool wide = v->width >= REPORT_WIDE, kernels = by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint32_t inner = inner_caller(v, row);

	if (!wide)
		add_detail(t, v, row, kernels);
	if (kernels && common_caller(v) == CALLER_NONE)
		add_callers_text(v, row, &line);
	if (kernels && v->callers && inner != CALLER_NONE) {
		strbuf_adds(&line, line.length ? " -> " : "-> ");
		add_inner_caller(v->report, inner, &line);
	}
	if (line.length)
		text_table_note(t, wide ? 10 : v->width < NARROW ? 1 : 6, strbuf_text(&line));
}

static void read_count(const struct report_view *v, const void *row, struct value *out)
{
	const struct hotspot *h = row;

	(void)v;
	out->n = h->time.count + h->untimed;
}

static void read_config(const struct report_view *v, const void *row, struct value *out)
{
	if (has_config(v, row))
		add_config(&out->text, v->report, row);
}

static void read_occupancy(const struct report_view *v, const void *row, struct value *out)
{
	if (has_config(v, row))
		add_occupancy(&out->text, v->report, row);
}

static void read_name(const struct report_view *v, const void *row, struct value *out)
{
	add_name(v->report, row, v->full_names, &out->text);
}

#define HOTSPOT(member) MEMBER(struct hotspot, member)
#define TIMED(member) HOTSPOT(time.member), COUNTED(struct hotspot, time.count)
static const struct field hotspot_fields[] = {
	{ .json = write_group_keys },
	FIELD("time", NULL, STATS, HOTSPOT(time)),
	FIELD("untimed", NULL, COUNT, HOTSPOT(untimed)),
	{ .json = write_details },
	FIELD(NULL, "share", SHARE, HOTSPOT(time.total_ns), WHOLE(struct hotspots, total_ns)),
	FIELD(NULL, "total", NS, TIMED(total_ns)),
	FIELD(NULL, "count", COUNT, .value = read_count),
	FIELD(NULL, "mean", NS, HOTSPOT(time.total_ns), PER(struct hotspot, time.count),
	      COUNTED(struct hotspot, time.count)),
	FIELD(NULL, "median", NS, TIMED(median_ns)),
	FIELD(NULL, "p99", NS, TIMED(p99_ns)),
	FIELD(NULL, "min", NS, TIMED(min_ns), .wide = true),
	FIELD(NULL, "max", NS, TIMED(max_ns), .wide = true),
	FIELD(NULL, "(grid)x(block)", TEXT, .value = read_config, .wide = true, LEFT_COLUMN),
	FIELD(NULL, "occupancy", TEXT, .value = read_occupancy, .wide = true, LEFT_COLUMN),
	FIELD(NULL, "name", TEXT, .value = read_name, FLEXIBLE_COLUMN),
};

static void read_by(const struct report_view *v, const void *row, struct value *out)
{
	static const char *const names[HOTSPOT_KINDS] = { "kernel", "config", "stream", "device",
							  "thread", "nvtx",   "caller" };

	(void)v;
	strbuf_adds(&out->text, names[((const struct hotspots *)row)->by]);
}

static const struct field fields[] = {
	FIELD("by", NULL, TEXT, .value = read_by),
	FIELD("kernels", NULL, COUNT, MEMBER(struct hotspots, kernels)),
	FIELD("untimed", NULL, COUNT, MEMBER(struct hotspots, untimed)),
	FIELD("total_ns", NULL, NS, MEMBER(struct hotspots, total_ns)),
	FIELD("groups", NULL, COUNT, MEMBER(struct hotspots, count)),
	LIST("items", ITEMS(struct hotspots, items, count), hotspot_fields, .notes = add_notes),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct hotspots *h = v->report->hotspots;
	uint32_t common = common_caller(v);

	human_count(out, h->kernels);
	strbuf_adds(out, ", ");
	human_duration(out, h->total_ns);
	if (h->count > v->top) {
		strbuf_adds(out, "; ");
		human_count(out, v->top);
		strbuf_adds(out, " of ");
		human_count(out, h->count);
		strbuf_adds(out, " shown");
	}
	if (h->untimed) {
		strbuf_adds(out, "; ");
		human_count(out, h->untimed);
		strbuf_adds(out, " of them without times");
	}
	if (common != CALLER_NONE) {
		strbuf_adds(out, ", all from ");
		report_line_text(v->report, common, CALLER_NONE, out);
	}
}

const struct section section_hotspots = {
	.key = "hotspots",
	.title_of = title_of,
	RESULT(hotspots),
	FIELDS(fields),
	.remark = add_remark,
	.empty = print_none,
};
