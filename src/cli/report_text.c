#include "cli/report_lines.h"

#include <string.h>
#include <time.h>

#include "analysis/main_process.h"
#include "base/clock.h"
#include "base/human.h"
#include "cli/ui.h"

#define LABEL 10 /* columns of the labels of lines that are no tables */

/* "label  text", folded, the text and the lines after the first one from a column on. */
static void add_labelled(const struct report_view *v, enum style style, const char *label,
			 const char *text, size_t column)
{
	struct strbuf folded = STRBUF_INIT;

	text_fold(&folded, text, (unsigned)column, v->width);
	style_add(v->out, v->color, style, label);
	for (size_t i = strlen(label); i < column && *text; i++)
		strbuf_addc(v->out, ' ');
	strbuf_adds(v->out, folded.length > column ? strbuf_text(&folded) + column : "\n");
	v->out->failed |= folded.failed;
	strbuf_release(&folded);
}

void report_title(const struct report_view *v, const char *title, const char *rest)
{
	strbuf_addc(v->out, '\n');
	add_labelled(v, STYLE_BOLD, title, rest, strlen(title) + 2);
}

static void labelled(const struct report_view *v, enum style style, const char *label,
		     const char *text)
{
	add_labelled(v, style, label, text, LABEL);
}

/* "2026-01-01 00:00:00 UTC" of a CLOCK_MONOTONIC time. */
static void add_date(const struct report *r, uint64_t time_ns, struct strbuf *out)
{
	time_t seconds = (time_t)(trace_unix_ns(r->trace, time_ns) / (int64_t)NS_PER_S);
	char text[64];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		strbuf_adds(out, text);
}

static void add_pattern(struct strbuf *out, const char *what, const char *pattern)
{
	if (!pattern)
		return;
	strbuf_addf(out, "; %s '", what);
	text_safe(out, pattern, strlen(pattern));
	strbuf_addc(out, '\'');
}

void report_choice_text(const struct filter *f, struct strbuf *out)
{
	if (f->pid >= 0)
		strbuf_addf(out, "; process %lld only", (long long)f->pid);
	if (f->device >= 0)
		strbuf_addf(out, "; device %lld only", (long long)f->device);
	if (f->stream >= 0)
		strbuf_addf(out, "; stream %lld only", (long long)f->stream);
	add_pattern(out, "kernels like", f->kernel);
	add_pattern(out, "inside NVTX ranges like", f->nvtx);
}

static void print_header(const struct report_view *v)
{
	const struct report *r = v->report;
	const struct trace_process *p = main_process(r->trace);
	const struct filter *f = &r->options.filter;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint64_t start_ns = r->span_start_ns;

	if (p)
		text_safe(&line, p->command, strlen(p->command));
	text_shorten(&line, v->width);
	style_add(v->out, v->color, STYLE_BOLD, line.length ? strbuf_text(&line) : v->path);
	strbuf_addc(v->out, '\n');
	strbuf_clear(&line);
	if (p && *p->host) {
		text_safe(&line, p->host, strlen(p->host));
		strbuf_adds(&line, ", ");
	}
	add_date(r, start_ns, &line);
	strbuf_adds(&line, ", ");
	human_duration(&line, r->span_end_ns - start_ns);
	strbuf_addf(&line, ", %zu process%s, ", report_process_count(r),
		    report_process_count(r) == 1 ? "" : "es");
	human_count(&line, trace_rows(r->trace, TABLE_kernel));
	strbuf_adds(&line, " kernels");
	if (r->selection.windowed) {
		strbuf_adds(&line, "; here from ");
		human_duration(&line, r->start_ns - start_ns);
		strbuf_adds(&line, " to ");
		human_duration(&line, r->end_ns - start_ns);
	}
	report_choice_text(f, &line);
	text_fold(v->out, strbuf_text(&line), 0, v->width);
}

/* A time as --since takes it. */
static void add_since(struct strbuf *out, uint64_t ns)
{
	if (ns < NS_PER_S)
		strbuf_addf(out, "%lluus", (unsigned long long)(ns / NS_PER_US));
	else
		strbuf_addf(out, "%llu.%03llus", (unsigned long long)(ns / NS_PER_S),
			    (unsigned long long)(ns % NS_PER_S / NS_PER_MS));
}

/* What follows a slow start-up is judged by itself. */
static void add_later(const struct report *r, struct strbuf *out)
{
	const struct verdict *whole = &r->verdict, *later = &r->later;

	strbuf_adds(out, "start-up: the first ");
	human_percent(out, whole->start_up.pieces, whole->pieces);
	strbuf_adds(out, " of its work take ");
	human_duration(out, whole->start_up.length_ns);
	strbuf_adds(out, " (without it: --since ");
	add_since(out, whole->start_up.end_ns - r->span_start_ns);
	strbuf_adds(out, "); after it ");
	verdict_sentence(later, out);
	strbuf_addc(out, '\n');
	if (later->kind != whole->kind && *verdict_advice(later->kind))
		strbuf_addf(out, "what helps then: %s\n", verdict_advice(later->kind));
}

static void print_verdict(const struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdict;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t window = v->report->end_ns - v->report->start_ns;

	strbuf_addc(v->out, '\n');
	style_add(v->out, v->color, STYLE_BOLD, "verdict  ");
	style_add(v->out, v->color, verdict->kind == VERDICT_GPU ? STYLE_GREEN : STYLE_YELLOW,
		  verdict_name(verdict->kind));
	if (verdict->start_up.pieces && v->report->later.kind != verdict->kind)
		strbuf_addf(v->out, "; after its start-up %s", verdict_name(v->report->later.kind));
	strbuf_addc(v->out, '\n');
	if (v->report->no_gpu.length) {
		text_safe(&text, strbuf_text(&v->report->no_gpu), v->report->no_gpu.length);
		strbuf_addc(&text, '\n');
	} else {
		verdict_sentence(verdict, &text);
		strbuf_addc(&text, '\n');
	}
	report_idle_sentence(v->report, &text);
	if (verdict->before_ns + verdict->after_ns > window / 4) {
		strbuf_adds(&text, "no GPU work in the first ");
		human_duration(&text, verdict->before_ns);
		strbuf_adds(&text, " and the last ");
		human_duration(&text, verdict->after_ns);
		strbuf_adds(&text, " of ");
		human_duration(&text, window);
		strbuf_addc(&text, '\n');
	}
	if (*verdict_advice(verdict->kind))
		strbuf_addf(&text, "what helps: %s\n", verdict_advice(verdict->kind));
	if (verdict->start_up.pieces)
		add_later(v->report, &text);
	text_fold(v->out, strbuf_text(&text), 2, v->width);
}

/* A bar of at most `columns` for part of whole; nothing when bars are off. */
static void cell_bar(struct text_table *t, const struct report_view *v, uint64_t part,
		     uint64_t whole, unsigned columns)
{
	_cleanup_strbuf_ struct strbuf bar = STRBUF_INIT;
	uint64_t eighths =
		whole ? (uint64_t)((unsigned __int128)MIN(part, whole) * columns * 8 / whole) : 0;

	for (; v->bars && eighths >= 8; eighths -= 8)
		strbuf_adds(&bar, "\u2588");
	if (v->bars && eighths)
		strbuf_add(&bar, (const char[]){ '\xe2', '\x96', (char)(0x90 - eighths) }, 3);
	text_table_add(t, strbuf_text(&bar));
}

static uint64_t gpu_sum(const struct gpu_busy *b)
{
	return b->sum_ns[GPU_WORK_kernel] + b->sum_ns[GPU_WORK_memcpy] +
	       b->sum_ns[GPU_WORK_memset] + b->sum_ns[GPU_WORK_graph_launch];
}

/* What ran beside what, where more than one kind or more than one stream did. */
static void add_mix(const struct gpu_busy *b, size_t gpu, struct strbuf *out)
{
	if (b->copy_ns && b->compute_ns) {
		strbuf_addf(out, "GPU %zu: kernels alone ", gpu);
		human_duration(out, b->compute_ns - b->overlap_ns);
		strbuf_adds(out, ", copies alone ");
		human_duration(out, b->copy_ns - b->overlap_ns);
		strbuf_adds(out, ", both at once ");
		human_duration(out, b->overlap_ns);
		strbuf_addc(out, '\n');
	}
	if (b->count[GPU_WORK_graph_launch]) {
		strbuf_addf(out, "GPU %zu: besides ", gpu);
		human_count(out, b->count[GPU_WORK_graph_launch]);
		strbuf_adds(out, " graphs that were recorded as a whole, ");
		human_duration(out, b->sum_ns[GPU_WORK_graph_launch]);
		strbuf_addc(out, '\n');
	}
	if (b->max_pieces < 2)
		return;
	strbuf_addf(out, "GPU %zu: streams at once", gpu);
	for (unsigned n = 1; n < BUSY_LEVELS; n++) {
		if (!b->streams_ns[n])
			continue;
		strbuf_addf(out, " %u%s: ", n, n == BUSY_LEVELS - 1 ? "+" : "");
		human_percent(out, b->streams_ns[n], b->union_ns);
		strbuf_addc(out, ',');
	}
	strbuf_addf(out, " at most %llu pieces of work\n", (unsigned long long)b->max_pieces);
}

static void print_gpus(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("GPU"), OPTIONAL(""),     RIGHT("busy"),   RIGHT("union"),
		RIGHT("sum"),    RIGHT("kernels"), RIGHT("copies"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf mix = STRBUF_INIT;
	uint64_t window = r->end_ns - r->start_ns;

	for (size_t i = 0; i < r->busy.count; i++) {
		const struct gpu_busy *b = &r->busy.gpus[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (!b->last_ns)
			continue;
		text_safe(&name, r->gpus.items[i].name, strlen(r->gpus.items[i].name));
		text_table_addf(&t, "%zu %s", i, strbuf_text(&name));
		cell_bar(&t, v, b->union_ns, window, 20);
		text_table_percent(&t, b->union_ns, window);
		text_table_duration(&t, b->union_ns);
		text_table_duration(&t, gpu_sum(b));
		text_table_count(&t, b->count[GPU_WORK_kernel]);
		text_table_count(&t, b->count[GPU_WORK_memcpy] + b->count[GPU_WORK_memset]);
		add_mix(b, i, &mix);
	}
	if (text_table_rows(&t)) {
		report_title(v, "GPU busy", "");
		text_table_print(&t, 2, v->width, v->color, v->out);
		text_fold(v->out, strbuf_text(&mix), 2, v->width);
	}
	text_table_release(&t);
}

static const char *const cause_texts[IDLE_CAUSES] = {
	[IDLE_BEFORE] = "before the first GPU work",
	[IDLE_AFTER] = "after the last GPU work",
	[IDLE_HOST] = "outside recorded calls", /* and see cause_text */
	[IDLE_LAUNCH] = "in a launch call",
	[IDLE_SYNC] = "in a synchronizing call",
	[IDLE_COPY] = "in a copy call",
	[IDLE_MEMORY] = "in an allocation call",
	[IDLE_CALL] = "in another CUDA call",
	[IDLE_QUEUED] = "launched, not started yet",
	[IDLE_UNKNOWN] = "unknown: launch not recorded",
};

/* Without --api all nobody knows whether the thread allocated memory, loaded a module and so on. */
static const char *cause_text(const struct report *r, int cause)
{
	return cause == IDLE_HOST && r->calls.has_all ? "outside CUDA (host code)"
						      : cause_texts[cause];
}

static const char *const size_texts[IDLE_SIZES] = { "< 1 us",  "< 10 us",  "< 100 us", "< 1 ms",
						    "< 10 ms", "< 100 ms", ">= 100 ms" };

/* Causes, longest first. */
static size_t sort_causes(const struct gpu_idle *g, int *causes)
{
	size_t count = 0;

	for (int cause = 0; cause < IDLE_CAUSES; cause++) {
		size_t i = count;

		if (!g->cause_ns[cause])
			continue;
		for (; i && g->cause_ns[causes[i - 1]] < g->cause_ns[cause]; i--)
			causes[i] = causes[i - 1];
		causes[i] = cause;
		count++;
	}
	return count;
}

/* Cells of a cause, or empty ones. */
static void add_cause(struct text_table *t, const struct report_view *v, const struct gpu_idle *g,
		      int cause, uint64_t window)
{
	text_table_add(t, cause_text(v->report, cause));
	cell_bar(t, v, g->cause_ns[cause], g->total_ns, 10);
	text_table_duration(t, g->cause_ns[cause]);
	text_table_percent(t, g->cause_ns[cause], window);
}

static void add_gaps(struct text_table *t, const struct gpu_idle *g, int size, uint64_t window)
{
	text_table_add(t, size_texts[size]);
	text_table_count(t, g->gaps[size]);
	text_table_duration(t, g->gaps_ns[size]);
	text_table_percent(t, g->gaps_ns[size], window);
}

static void print_idle(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("launching thread was"),
		OPTIONAL(""),
		RIGHT("time"),
		RIGHT("share"),
		LEFT(""),
		LEFT("gaps"),
		RIGHT("count"),
		RIGHT("time"),
		RIGHT("share"),
	};
	const struct report *r = v->report;
	const struct gpu_idle *g =
		r->verdict.kind == VERDICT_NO_WORK ? NULL : &r->idle.gpus[r->verdict.gpu];
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t window = r->end_ns - r->start_ns;
	int causes[IDLE_CAUSES], sizes[IDLE_SIZES];
	size_t count, size_count = 0;

	if (!g || !g->total_ns)
		return;
	count = sort_causes(g, causes);
	for (int size = 0; size < IDLE_SIZES; size++)
		if (g->gaps[size])
			sizes[size_count++] = size;
	for (size_t i = 0; i < MAX(count, size_count); i++) {
		if (i < count)
			add_cause(&t, v, g, causes[i], window);
		for (size_t c = i < count ? 4 : 0; c < 5; c++)
			text_table_add(&t, "");
		if (i < size_count)
			add_gaps(&t, g, sizes[i], window);
		text_table_end_row(&t);
	}
	human_duration(&line, g->total_ns);
	strbuf_adds(&line, ", ");
	human_percent(&line, g->total_ns, window);
	strbuf_addf(&line, " of the time (GPU %zu)", r->verdict.gpu);
	report_title(v, "GPU idle", strbuf_text(&line));
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

static void print_losses(const struct report_view *v)
{
	const struct cost *c = &v->report->cost;

	strbuf_addc(v->out, '\n');
	if (!c->loss_count) {
		labelled(v, STYLE_GREEN, "loss", "nothing lost");
		return;
	}
	for (size_t i = 0; i < MIN(c->loss_count, v->top); i++) {
		const struct loss_sum *l = &c->losses[i];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		if (l->count)
			human_count(&line, l->count);
		else
			strbuf_adds(&line, "some");
		strbuf_addf(&line, "%s %s", l->count && l->unknown ? " or more" : "",
			    loss_reason_text(l->reason, l->unknown ? 0 : l->count));
		if (*l->detail) {
			strbuf_adds(&line, " (");
			text_safe(&line, l->detail, strlen(l->detail));
			strbuf_addc(&line, ')');
		}
		labelled(v, STYLE_RED, i ? "" : "loss", strbuf_text(&line));
	}
	if (c->loss_count > v->top) {
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		strbuf_addf(&line, "and %zu kinds more: see `pitot info`",
			    c->loss_count - (size_t)v->top);
		labelled(v, STYLE_RED, "", strbuf_text(&line));
	}
}

/* "callback 12.3 ms (1,002,000 times 12 ns)" */
static void add_cost(struct strbuf *line, const struct cost *c, enum cost_kind kind,
		     const char *text)
{
	const struct cost_sum *sum = &c->kinds[kind];

	if (!sum->any)
		return;
	strbuf_addf(line, "%s%s ", line->length ? ", " : "", text);
	human_duration(line, sum->total_ns);
	if (kind == cost_kind_callback && sum->count) {
		strbuf_adds(line, " (");
		human_count(line, sum->count);
		strbuf_adds(line, " times ");
		human_duration(line, sum->total_ns / sum->count);
		strbuf_addc(line, ')');
	}
	if (sum->bytes) {
		strbuf_adds(line, " for ");
		human_bytes(line, sum->bytes);
	}
}

static void print_cost(const struct report_view *v)
{
	const struct cost *c = &v->report->cost;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	add_cost(&line, c, cost_kind_callback, "callbacks");
	add_cost(&line, c, cost_kind_setup, "set-up");
	add_cost(&line, c, cost_kind_exit, "exit");
	add_cost(&line, c, cost_kind_buffer_request, "buffer requests");
	add_cost(&line, c, cost_kind_collector, "collector (own thread)");
	add_cost(&line, c, cost_kind_sampler, "CPU sampler (outside)");
	add_cost(&line, c, cost_kind_write, "writing");
	if (c->overhead_count) {
		strbuf_addf(&line, "%sCUPTI says ", line.length ? ", " : "");
		human_duration(&line, c->overhead_ns);
		strbuf_adds(&line, " of its own");
	}
	labelled(v, STYLE_NONE, "cost",
		 line.length ? strbuf_text(&line) : "not measured in this recording");
}

static void print_no_gpu(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_adds(&line, "no data: ");
	text_safe(&line, strbuf_text(&v->report->no_gpu), v->report->no_gpu.length);
	strbuf_addc(v->out, '\n');
	labelled(v, STYLE_YELLOW, "GPU", strbuf_text(&line));
}

static void print_untimed(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!v->report->busy.untimed)
		return;
	human_count(&line, v->report->busy.untimed);
	strbuf_adds(&line, " pieces of GPU work have no times: counted, and in no sum above");
	strbuf_addc(v->out, '\n');
	labelled(v, STYLE_YELLOW, "no times", strbuf_text(&line));
}

void report_print_text(const struct report_view *v)
{
	print_header(v);
	/* of a program that was only sampled there is no verdict */
	if (v->report->verdict.kind != VERDICT_NO_WORK || !v->report->cpu.samples)
		print_verdict(v);
	else if (v->report->no_gpu.length)
		print_no_gpu(v);
	print_gpus(v);
	print_idle(v);
	report_print_idle_lines(v);
	report_print_hotspots(v);
	report_print_copies(v);
	report_print_syncs(v);
	report_print_blocked(v);
	report_print_cpu(v);
	report_print_launches(v);
	report_print_graphs(v);
	report_print_memory(v);
	print_untimed(v);
	print_losses(v);
	print_cost(v);
}
