/* report_tables.c: the sections of the report that are tables of groups. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "analysis/occupancy.h"
#include "base/human.h"
#include "cli/report_lines.h"
#include "symbol/demangle.h"
#include "symbol/kernel_name.h"

#define WIDE 132 /* columns from which on a kernel's figures fit into one line */
#define NARROW 110 /* below, the second line of a kernel begins under its figures */

static void add_kernel_name(const char *name, bool full, struct strbuf *out)
{
	struct strbuf plain = STRBUF_INIT;

	if (full)
		demangle(name, &plain);
	else
		kernel_name_short(name, &plain);
	text_safe(out, strbuf_text(&plain), plain.length);
	strbuf_release(&plain);
}

void report_thread_text(const struct report *r, uint32_t process, uint32_t thread,
			struct strbuf *out)
{
	const char *name = report_thread_name(r, process, thread);

	text_safe(out, name, strlen(name));
	strbuf_addf(out, "%s%u", *name ? " " : "thread ", thread);
	if (report_process_count(r) > 1 && thread != trace_process(r->trace, process)->pid)
		strbuf_addf(out, " of %u", trace_process(r->trace, process)->pid);
}

#define PID_TEXT 16

/* " of 4711" where there are several processes. */
static const char *of_process(const struct report *r, uint32_t process, char text[PID_TEXT])
{
	text[0] = '\0';
	if (report_process_count(r) > 1)
		snprintf(text, PID_TEXT, " of %u", trace_process(r->trace, process)->pid);
	return text;
}

void report_hotspot_name(const struct report *r, const struct hotspot *h, bool full_names,
			 struct strbuf *out)
{
	char pid[PID_TEXT];
	const char *text;

	switch (r->hotspots.by) {
	case HOTSPOT_KERNEL:
	case HOTSPOT_CONFIG:
		text = h->config == TRACE_NO_ROW
			       ? "(unknown kernel)"
			       : trace_string(r->trace,
					      trace_u32(r->trace, TABLE_kernel_config,
							COLUMN_kernel_config_name)[h->config]);
		add_kernel_name(text, full_names, out);
		break;
	case HOTSPOT_STREAM:
		strbuf_addf(out, "stream %u%s", h->key, of_process(r, h->process, pid));
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

static void add_figures(struct text_table *t, const struct duration_stats *s, uint64_t untimed,
			uint64_t total_ns, bool wide)
{
	text_table_percent(t, s->total_ns, total_ns);
	if (!s->count) {
		text_table_add(t, "-");
		text_table_count(t, untimed);
		for (int i = 0; i < (wide ? 5 : 3); i++)
			text_table_add(t, "-");
		return;
	}
	text_table_duration(t, s->total_ns);
	text_table_count(t, s->count + untimed);
	text_table_duration(t, stats_mean_ns(s));
	text_table_duration(t, s->median_ns);
	text_table_duration(t, s->p99_ns);
	if (wide) {
		text_table_duration(t, s->min_ns);
		text_table_duration(t, s->max_ns);
	}
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

/* The lines that launched it. */
static void add_callers(struct text_table *t, const struct report_view *v, const struct hotspot *h,
			bool wide)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	report_callers_text(v, h, &line);
	if (line.length)
		text_table_note(t, wide ? 10 : v->width < NARROW ? 1 : 6, strbuf_text(&line));
}

static void add_hotspot(struct text_table *t, const struct report_view *v, const struct hotspot *h,
			bool wide, bool callers)
{
	const struct report *r = v->report;
	bool has_config = r->hotspots.by == HOTSPOT_KERNEL || r->hotspots.by == HOTSPOT_CONFIG;
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, config = STRBUF_INIT,
				       occupancy = STRBUF_INIT;

	add_figures(t, &h->time, h->untimed, r->hotspots.total_ns, wide);
	report_hotspot_name(r, h, v->full_names, &name);
	if (wide && has_config && h->config != TRACE_NO_ROW) {
		add_config(&config, r, h);
		add_occupancy(&occupancy, r, h);
	}
	if (wide) {
		text_table_add(t, strbuf_text(&config));
		text_table_add(t, strbuf_text(&occupancy));
	}
	text_table_add(t, strbuf_text(&name));
	if (!wide)
		add_detail(t, v, h, has_config);
	if (has_config && callers)
		add_callers(t, v, h, wide);
}

/* The one line that launched all of the hotspots that are shown, where there are several; or none. */
static uint32_t common_caller(const struct report_view *v)
{
	const struct hotspots *h = &v->report->hotspots;
	size_t shown = MIN(h->count, v->top);

	if (!v->callers || shown < 2)
		return CALLER_NONE;
	for (size_t i = 0; i < shown; i++)
		if (h->items[i].caller_count != 1 ||
		    h->items[i].callers[0].caller != h->items[0].callers[0].caller)
			return CALLER_NONE;
	return h->items[0].callers[0].caller;
}

/* A choice that nothing fits is said; a recording without kernels is no such choice. */
static void print_no_hotspots(const struct report_view *v, const char *title)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, choice = STRBUF_INIT;

	report_choice_text(&v->report->options.filter, &choice);
	if (!choice.length || !trace_rows(v->report->trace, TABLE_kernel))
		return;
	strbuf_addf(&line, "none of ");
	human_count(&line, trace_rows(v->report->trace, TABLE_kernel));
	strbuf_addf(&line, " fits: %s", strbuf_text(&choice) + strlen("; "));
	report_title(v, title, strbuf_text(&line));
}

void report_print_hotspots(const struct report_view *v)
{
	static const struct text_column narrow_columns[] = {
		RIGHT("share"),  RIGHT("total"), RIGHT("count"),   RIGHT("mean"),
		RIGHT("median"), RIGHT("p99"),   FLEXIBLE("name"),
	};
	static const struct text_column wide_columns[] = {
		RIGHT("share"),         RIGHT("total"),    RIGHT("count"),   RIGHT("mean"),
		RIGHT("median"),        RIGHT("p99"),      RIGHT("min"),     RIGHT("max"),
		LEFT("(grid)x(block)"), LEFT("occupancy"), FLEXIBLE("name"),
	};
	static const char *const titles[HOTSPOT_KINDS] = {
		[HOTSPOT_KERNEL] = "kernels",
		[HOTSPOT_CONFIG] = "kernels by configuration",
		[HOTSPOT_STREAM] = "kernels by stream",
		[HOTSPOT_DEVICE] = "kernels by GPU",
		[HOTSPOT_THREAD] = "kernels by launching thread",
		[HOTSPOT_NVTX] = "kernels by innermost NVTX range",
		[HOTSPOT_CALLER] = "kernels by launching line",
	};
	const struct hotspots *h = &v->report->hotspots;
	struct text_table narrow = TEXT_TABLE_INIT(narrow_columns),
			  wide = TEXT_TABLE_INIT(wide_columns);
	struct text_table *t = v->width >= WIDE ? &wide : &narrow;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint32_t common = common_caller(v);

	if (!h->count) {
		print_no_hotspots(v, titles[h->by]);
		return;
	}
	for (size_t i = 0; i < MIN(h->count, v->top); i++)
		add_hotspot(t, v, &h->items[i], t == &wide, common == CALLER_NONE);
	human_count(&line, h->kernels);
	strbuf_adds(&line, ", ");
	human_duration(&line, h->total_ns);
	if (h->count > v->top) {
		strbuf_adds(&line, "; ");
		human_count(&line, v->top);
		strbuf_adds(&line, " of ");
		human_count(&line, h->count);
		strbuf_adds(&line, " shown");
	}
	if (h->untimed) {
		strbuf_adds(&line, "; ");
		human_count(&line, h->untimed);
		strbuf_adds(&line, " of them without times");
	}
	if (common != CALLER_NONE) {
		strbuf_adds(&line, ", all from ");
		report_line_text(v->report, common, CALLER_NONE, &line);
	}
	report_title(v, titles[h->by], strbuf_text(&line));
	text_table_print(t, 2, v->full_names ? UINT_MAX : v->width, v->color, v->out);
	text_table_release(t);
}

static const char *enum_name(enum table_id table, int column, uint8_t value)
{
	const char *name = schema_value_name(&schema_table(table)->columns[column], value);

	return name ? name : "?";
}

/* A duration of `count` things; "-" for none. */
static void cell_duration_if(struct text_table *t, uint64_t count, uint64_t ns)
{
	if (count)
		text_table_duration(t, ns);
	else
		text_table_add(t, "-");
}

static void add_copy(struct text_table *t, const struct copy_group *g)
{
	_cleanup_strbuf_ struct strbuf rate = STRBUF_INIT;

	if (g->set)
		text_table_addf(t, "set %s",
				enum_name(TABLE_memset, COLUMN_memset_memory_kind, g->destination));
	else
		text_table_addf(
			t, "%s  %s -> %s", enum_name(TABLE_memcpy, COLUMN_memcpy_kind, g->kind),
			enum_name(TABLE_memcpy, COLUMN_memcpy_source_kind, g->source),
			enum_name(TABLE_memcpy, COLUMN_memcpy_destination_kind, g->destination));
	text_table_count(t, g->count);
	text_table_bytes(t, g->bytes);
	text_table_bytes(t, g->bytes / g->count);
	cell_duration_if(t, g->timed, g->total_ns);
	human_rate(&rate, g->timed_bytes, g->total_ns);
	text_table_add(t, strbuf_text(&rate));
	text_table_percent(t, g->async, g->count);
}

void report_print_copies(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("kind"), RIGHT("count"),    RIGHT("bytes"), OPTIONAL_RIGHT("each"),
		RIGHT("time"),    RIGHT("achieved"), RIGHT("async"),
	};
	const struct copies *c = &v->report->copies;
	struct text_table t = TEXT_TABLE_INIT(columns);

	if (!c->count)
		return;
	for (size_t i = 0; i < MIN(c->count, v->top); i++)
		add_copy(&t, &c->items[i]);
	report_title(v, "copies", "");
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

void report_print_syncs(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("call"), LEFT("thread"),         RIGHT("count"),   RIGHT("time"),
		RIGHT("share"),   OPTIONAL_RIGHT("mean"), RIGHT("longest"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < MIN(r->syncs.count, v->top); i++) {
		const struct call_group *g = &r->syncs.items[i];
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		size_t length;
		const char *name = calls_function_name(r->trace, g->function, &length);

		text_safe(&text, name, length);
		text_table_add(&t, text.length ? strbuf_text(&text) : "?");
		strbuf_clear(&text);
		report_thread_text(r, g->process, g->thread, &text);
		text_table_add(&t, strbuf_text(&text));
		text_table_count(&t, g->count);
		text_table_duration(&t, g->total_ns);
		text_table_percent(&t, g->total_ns, r->end_ns - r->start_ns);
		text_table_duration(&t, g->total_ns / g->count);
		text_table_duration(&t, g->max_ns);
	}
	if (text_table_rows(&t)) {
		report_title(v, "synchronizing and copying calls",
			     "time that threads spent in them");
		text_table_print(&t, 2, v->width, v->color, v->out);
	}
	text_table_release(&t);
}

static void add_launch_row(struct text_table *t, const char *what, const struct duration_stats *s)
{
	if (!s->count)
		return;
	text_table_add(t, what);
	text_table_count(t, s->count);
	text_table_duration(t, stats_mean_ns(s));
	text_table_duration(t, s->median_ns);
	text_table_duration(t, s->p99_ns);
	text_table_duration(t, s->max_ns);
	text_table_duration(t, s->total_ns);
}

/* ", 12 of something"; nothing for none. */
static void add_remark(struct strbuf *line, uint64_t count, const char *text)
{
	if (!count)
		return;
	strbuf_adds(line, ", ");
	human_count(line, count);
	strbuf_addf(line, " %s", text);
}

void report_print_launches(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE(""), RIGHT("count"),   RIGHT("mean"),  RIGHT("median"),
		RIGHT("p99"), RIGHT("longest"), RIGHT("total"),
	};
	const struct report *r = v->report;
	const struct launches *l = &r->launches;
	uint64_t calls = l->kernel_calls.count + l->graph_calls.count,
		 window = r->end_ns - r->start_ns;
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!calls)
		return;
	add_launch_row(&t, "kernel launch call", &l->kernel_calls);
	add_launch_row(&t, "graph launch call", &l->graph_calls);
	add_launch_row(&t, "queued until the start", &l->delay);
	if (window)
		human_count(&line, (uint64_t)((unsigned __int128)calls * 1000000000 / window));
	strbuf_adds(&line, window ? "/s" : "");
	add_remark(&line, l->in_call, "started before the call returned");
	add_remark(&line, l->before_call, "before it began (clock error)");
	add_remark(&line, l->unmatched, "kernels without a recorded call");
	add_remark(&line, l->failed, "failed");
	report_title(v, "launches", strbuf_text(&line));
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

void report_print_graphs(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE(""),           RIGHT("launches"),     RIGHT("nodes each"),
		RIGHT("replay median"), OPTIONAL_RIGHT("p99"), OPTIONAL_RIGHT("total"),
		RIGHT("sum of nodes"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);
	char pid[PID_TEXT];

	if (!r->graphs.count)
		return;
	for (size_t i = 0; i < MIN(r->graphs.count, v->top); i++) {
		const struct graph_group *g = &r->graphs.items[i];

		text_table_addf(&t, "graph %u%s", g->graph, of_process(r, g->process, pid));
		text_table_count(&t, g->launches);
		if (g->nodes)
			text_table_count(&t, (g->nodes + g->launches / 2) / g->launches);
		else
			text_table_add(&t, "-");
		cell_duration_if(&t, g->replay.count, g->replay.median_ns);
		cell_duration_if(&t, g->replay.count, g->replay.p99_ns);
		cell_duration_if(&t, g->replay.count, g->replay.total_ns);
		cell_duration_if(&t, g->nodes, g->node_ns);
	}
	report_title(v, "CUDA graphs", "");
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

void report_print_memory(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("memory"), RIGHT("allocations"),     RIGHT("allocated"),
		RIGHT("peak"),      RIGHT("left at the end"), RIGHT("bytes left"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);
	char pid[PID_TEXT];

	if (!r->memory.count)
		return;
	for (size_t i = 0; i < MIN(r->memory.count, v->top); i++) {
		const struct memory_group *g = &r->memory.items[i];

		text_table_addf(&t, "%s, device %u%s",
				enum_name(TABLE_allocation, COLUMN_allocation_kind, g->kind),
				g->device, of_process(r, g->process, pid));
		text_table_count(&t, g->allocations);
		text_table_bytes(&t, g->allocated_bytes);
		text_table_bytes(&t, g->peak_bytes);
		text_table_count(&t, g->live);
		text_table_bytes(&t, g->live_bytes);
	}
	report_title(v, "memory", "");
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}
