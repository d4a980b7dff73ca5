/* section_hotspots.c: which kernels took the time. */
#include "report/section.h"

#include <string.h>

#include "analysis/inner_callers.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/rank_times.h"
#include "base/path.h"
#include "report/words.h"
#include "names/demangle.h"

#define NARROW 110 /* below this width, notes of a kernel begin under its figures */

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
	case HOTSPOT_SCOPE:
		text = h->key == HOTSPOT_NO_KEY ? "(outside any scope)"
						: trace_string(r->trace, h->key);
		text = *text ? text : NO_SCOPE_NAME;
		text_safe(out, text, strlen(text));
		break;
	case HOTSPOT_CALLER:
		report_line_text(r, h->key, CALLER_NONE, out);
		break;
	case HOTSPOT_KINDS:
		break;
	}
}

/* A launch configuration and its resources. */
struct launch_config {
	const struct hotspot *hotspot;
	uint64_t count; /* kernels with this configuration */
	uint32_t row; /* of kernel_config */
	uint32_t grid[3], block[3], registers, static_shared_bytes, dynamic_shared_bytes;
};

static struct launch_config config_of(const struct report *r, const struct hotspot *h)
{
	const struct kernel_config_columns *c = kernel_config_columns(r->trace);
	uint32_t row = h->config;

	return (struct launch_config){
		.hotspot = h,
		.count = h->config_count,
		.row = row,
		.grid = { c->grid_x[row], c->grid_y[row], c->grid_z[row] },
		.block = { c->block_x[row], c->block_y[row], c->block_z[row] },
		.registers = c->registers[row],
		.static_shared_bytes = c->static_shared_bytes[row],
		.dynamic_shared_bytes = c->dynamic_shared_bytes[row],
	};
}

static void add_size(struct strbuf *out, const uint32_t size[3])
{
	strbuf_addf(out, "%u", size[0]);
	if (size[1] != 1 || size[2] != 1)
		strbuf_addf(out, ",%u", size[1]);
	if (size[2] != 1)
		strbuf_addf(out, ",%u", size[2]);
}

/* Appends "(1024,8)x(256)": the grid in blocks, the block in threads. */
static void add_config(struct strbuf *out, const struct report *r, const struct hotspot *h)
{
	struct launch_config c = config_of(r, h);

	if (!c.grid[0]) {
		strbuf_adds(out, "grid unknown");
		return;
	}
	strbuf_addc(out, '(');
	add_size(out, c.grid);
	strbuf_adds(out, ")x(");
	add_size(out, c.block);
	strbuf_addc(out, ')');
}

/* Appends "62% registers": occupancy and what limits it; nothing if it cannot be computed. */
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

/* Adds a line with the figures that do not fit beside the name. */
static void add_detail(struct text_table *t, const struct report_view *v, const struct hotspot *h,
		       bool has_config)
{
	const struct report *r = v->report;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, occupancy = STRBUF_INIT;

	if (h->time.count)
		sentence_add(&line, WORDS("min "), DURATION(h->time.min_ns), WORDS(", max "),
			     DURATION(h->time.max_ns));
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
			sentence_add(out, WORDS(" ("),
				     PERCENT(h->callers[i].total_ns, h->time.total_ns), WORDS(")"));
	}
	if (h->caller_count > shown)
		sentence_add(out, WORDS(", and "), NUMBER(h->caller_count - shown), WORDS(" more"));
}

/* The line that launched all shown hotspots, if there are several; else CALLER_NONE. */
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
		[HOTSPOT_SCOPE] = "kernels by innermost scope",
		[HOTSPOT_CALLER] = "kernels by launching line",
	};

	return titles[v->report->hotspots->by];
}

/* Says that no kernel matches the filters, unless the recording has no kernels. */
static void print_none(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, choice = STRBUF_INIT;

	report_choice_text(&v->report->options.filter, &choice);
	if (!choice.length || !trace_rows(v->report->trace, TABLE_kernel))
		return;
	sentence_add(&line, WORDS("none of "), NUMBER(trace_rows(v->report->trace, TABLE_kernel)),
		     WORDS(" match the filters ("), WORDS(strbuf_text(&choice) + strlen("; ")),
		     WORDS(")"));
	report_title(v, title_of(v), strbuf_text(&line));
}

static bool has_config(const struct report_view *v, const void *row)
{
	const struct hotspot *h = row;
	enum hotspot_by by = v->report->hotspots->by;

	return (by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG) && h->config != TRACE_NO_ROW;
}

/*
 * The module that launched most of a hotspot, if the user's line does not show it; else
 * CALLER_NONE.
 */
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

ROW_READ(read_count, struct hotspot, out->n = row->time.count + row->untimed)

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

ROW_READ(read_name, void, add_name(v->report, row, v->full_names, &out->text))

/* Conditions on the kind of the groups. */
#define BY(name, kind)                                                                             \
	static bool name(const struct report_view *v, const void *row)                             \
	{                                                                                          \
		const struct hotspot *h = row;                                                     \
		return v->report->hotspots->by == HOTSPOT_##kind && h->key != HOTSPOT_NO_KEY;      \
	}
BY(by_stream, STREAM)
BY(by_device, DEVICE)
BY(by_thread, THREAD)
BY(by_scope, SCOPE)

ROW_IF(by_caller, void, v->report->hotspots->by == HOTSPOT_CALLER)
ROW_IF(has_callers, struct hotspot, v->callers && row->caller_count)

static const char *name_of(const struct report_view *v, const void *row)
{
	const struct kernel_config_columns *c = kernel_config_columns(v->report->trace);

	return trace_string(v->report->trace, c->name[((const struct hotspot *)row)->config]);
}

ROW_READ(read_label, void, add_name(v->report, row, false, &out->text))
ROW_READ(read_demangled, void, demangle(name_of(v, row), &out->text))
ROW_READ(read_symbol, void, strbuf_adds(&out->text, name_of(v, row)))
ROW_READ(read_inner_caller, void, out->n = inner_caller(v, row))

static const void *find_caller(const struct report_view *v, const void *row, size_t i)
{
	const struct hotspot *h = row;

	return i < MIN(MIN(h->caller_count, HOTSPOT_CALLERS_MAX), v->callers) ? &h->callers[i]
									      : NULL;
}

static const void *find_config(const struct report_view *v, const void *row, void *room)
{
	*(struct launch_config *)room = config_of(v->report, row);
	return room;
}

static const void *find_occupancy(const struct report_view *v, const void *row, void *room)
{
	const struct hotspot *h = ((const struct launch_config *)row)->hotspot;

	return occupancy_of_rows(v->report->trace, v->report->gpus.items[h->device].row, h->config,
				 room) == 0
		       ? room
		       : NULL;
}

#define OCCUPANCY(member) MEMBER(struct occupancy, member)
static const struct field occupancy_fields[] = {
	FIELD("warps", NULL, COUNT, OCCUPANCY(warps)),
	FIELD("max_warps", NULL, COUNT, OCCUPANCY(max_warps)),
	FIELD("blocks", NULL, COUNT, OCCUPANCY(blocks)),
	FIELD("limiter", NULL, CHOICE, OCCUPANCY(limiter), .names = occupancy_limiter_name),
	FIELD("waves", NULL, MILLI, OCCUPANCY(waves_milli)),
	FIELD("limits", NULL, NUMBERS, NUMBERS(struct occupancy, limits)),
};

static bool has_size(const struct report_view *v, const void *row)
{
	(void)v;
	return ((const struct launch_config *)row)->grid[0] != 0;
}

#define HAS(column)                                                                                \
	static bool has_##column(const struct report_view *v, const void *row)                     \
	{                                                                                          \
		return column_has(kernel_config_columns(v->report->trace)->valid.column,           \
				  ((const struct launch_config *)row)->row);                       \
	}
HAS(registers)
HAS(static_shared_bytes)
HAS(dynamic_shared_bytes)

#define CONFIG(member) MEMBER(struct launch_config, member)
#define KNOWN(member) CONFIG(member), .when = has_##member
static const struct field config_fields[] = {
	FIELD("count", NULL, COUNT, CONFIG(count)),
	FIELD("row", NULL, ID, CONFIG(row)),
	FIELD("grid", NULL, NUMBERS, NUMBERS(struct launch_config, grid), .when = has_size),
	FIELD("block", NULL, NUMBERS, NUMBERS(struct launch_config, block), .when = has_size),
	FIELD("registers", NULL, COUNT, KNOWN(registers)),
	FIELD("static_shared_bytes", NULL, BYTES, KNOWN(static_shared_bytes)),
	FIELD("dynamic_shared_bytes", NULL, BYTES, KNOWN(dynamic_shared_bytes)),
	OBJECT("occupancy", occupancy_fields, .of = find_occupancy),
};
_Static_assert(sizeof(struct launch_config) <= SECTION_ROOM &&
		       sizeof(struct occupancy) <= SECTION_ROOM,
	       "built in the `room` of an object");

#define SHARE(member) MEMBER(struct caller_share, member)
static const struct field caller_fields[] = {
	FIELD("caller", NULL, LINE, SHARE(caller)),
	FIELD("count", NULL, COUNT, SHARE(count)),
	FIELD("total_ns", NULL, NS, SHARE(total_ns)),
};

#define HOTSPOT(member) MEMBER(struct hotspot, member)
static const struct field key_fields[] = {
	FIELD("label", NULL, TEXT, .value = read_label),
	FIELD("name", NULL, TEXT, .value = read_demangled, .when = has_config),
	FIELD("symbol", NULL, TEXT, .value = read_symbol, .when = has_config),
	FIELD("pid", NULL, PID, HOTSPOT(process), .when = by_stream),
	FIELD("stream", NULL, ID, HOTSPOT(key), .when = by_stream),
	FIELD("gpu", NULL, ID, HOTSPOT(key), .when = by_device),
	FIELD("thread", NULL, THREAD, HOTSPOT(process), .when = by_thread),
	FIELD("range", NULL, STRING, HOTSPOT(key), .when = by_scope),
	FIELD("caller", NULL, LINE, HOTSPOT(key), .when = by_caller),
};

#define TIMED(member) HOTSPOT(time.member), COUNTED(struct hotspot, time.count)
static const struct field hotspot_fields[] = {
	OBJECT(NULL, key_fields),
	FIELD("time", NULL, STATS, HOTSPOT(time)),
	FIELD("untimed", NULL, COUNT, HOTSPOT(untimed)),
	OBJECT("config", config_fields, .of = find_config, .when = has_config),
	FIELD("caller_count", NULL, COUNT, HOTSPOT(caller_count), .when = has_callers),
	{ .key = "callers",
	  .unit = UNIT_LIST,
	  .when = has_callers,
	  .list = &(const struct list){ FIELDS(caller_fields), .item = find_caller, .all = true } },
	FIELD("inner_caller", NULL, LINE, .value = read_inner_caller, .when = has_callers),
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

static const char *by_name(unsigned by)
{
	static const char *const names[HOTSPOT_KINDS] = { "kernel", "config", "stream", "device",
							  "thread", "scope",  "caller" };

	return names[by];
}

static const struct field fields[] = {
	FIELD("by", NULL, CHOICE, MEMBER(struct hotspots, by), .names = by_name),
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

	sentence_add(out, NUMBER(h->kernels), WORDS(", "), DURATION(h->total_ns));
	if (h->count > v->top)
		sentence_add(out, WORDS("; "), NUMBER(v->top), WORDS(" of "), NUMBER(h->count),
			     WORDS(" shown"));
	if (h->untimed)
		sentence_add(out, WORDS("; "), NUMBER(h->untimed), WORDS(" without times"));
	if (common != CALLER_NONE) {
		strbuf_adds(out, ", all from ");
		report_line_text(v->report, common, CALLER_NONE, out);
	}
}

/* A collective's kernel that waits is not slow. */
static void add_waits(const struct report_view *v, struct strbuf *out)
{
	const struct rank_times *t = v->report->rank_times;
	uint64_t wait_ns = 0;

	for (size_t i = 0; i < t->count; i++)
		wait_ns += t->items[i].all_wait_ns;
	if (wait_ns && t->waits_known)
		sentence_add(out, WORDS("collectives only waited for other ranks in "),
			     DURATION(wait_ns), WORDS(" of this time\n"));
}

const struct section section_hotspots = {
	.key = "hotspots",
	.title_of = title_of,
	RESULT(hotspots),
	FIELDS(fields),
	.remark = add_remark,
	.before = add_waits,
	.empty = print_none,
};
