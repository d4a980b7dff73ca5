#include "report/timeline_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/idle.h"
#include "analysis/time_lanes.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "report/section.h"
#include "report/words.h"

#define LABEL_COLUMNS 22u /* of wide output; else LABEL_NARROW */
#define LABEL_NARROW 14u
#define WIDE 80u
#define TITLE_WIDE 60u
#define SHARE_COLUMNS 8u /* "  100.0%" */
#define JSON_COLUMNS 200u
#define GAPS_MAX 6u

struct gap {
	const struct idle_gap *gap;
	uint32_t gpu;
};

struct timeline {
	const struct report_view *v;
	const struct steps *steps;
	struct time_lanes lanes;
	struct gap gaps[GAPS_MAX]; /* the longest first */
	size_t gap_count;
	unsigned label; /* columns */
};

/* --- gaps --- */

static void add_gap(struct timeline *t, struct gap gap)
{
	size_t i = MIN(t->gap_count, GAPS_MAX - 1);

	if (t->gap_count == GAPS_MAX && t->gaps[i].gap->length_ns >= gap.gap->length_ns)
		return;
	for (; i && t->gaps[i - 1].gap->length_ns < gap.gap->length_ns; i--)
		t->gaps[i] = t->gaps[i - 1];
	t->gaps[i] = gap;
	t->gap_count = MIN(t->gap_count + 1, GAPS_MAX);
}

static void find_gaps(struct timeline *t)
{
	const struct idle *idle = t->v->report->idle;

	for (size_t gpu = 0; gpu < idle->count; gpu++)
		for (size_t i = 0; i < IDLE_LONGEST; i++)
			if (idle->gpus[gpu].between.longest[i].own_ns)
				add_gap(t, (struct gap){ &idle->gpus[gpu].between.longest[i],
							 (uint32_t)gpu });
}

static const char *const cause_texts[IDLE_CAUSES] = {
	[IDLE_HOST] = "in the program's own code",
	[IDLE_LAUNCH] = "in a launch call",
	[IDLE_SYNC] = "waiting for the GPU in a call",
	[IDLE_COPY] = "in calls that copy",
	[IDLE_MEMORY] = "in calls that allocate or free memory",
	[IDLE_CALL] = "in other calls",
	[IDLE_QUEUED] = "launched, not started yet",
	[IDLE_UNKNOWN] = "launch not recorded",
	[IDLE_MEASURING] = "delayed by Pitot's measuring",
};

static void add_cause(const struct timeline *t, const struct gap *g, struct strbuf *out)
{
	strbuf_adds(out, cause_texts[g->gap->cause]);
	if (g->gap->caller == CALLER_NONE)
		return;
	strbuf_adds(out, ", until a launch at ");
	report_line_text(t->v->report, g->gap->caller, CALLER_NONE, out);
}

static uint64_t since_start(const struct timeline *t, uint64_t ns)
{
	return ns - MIN(ns, t->v->report->span_start_ns);
}

/* --- lanes --- */

static void add_label(const struct timeline *t, const struct time_lane *lane, struct strbuf *out)
{
	const struct report *r = t->v->report;

	switch ((enum time_lane_kind)lane->kind) {
	case LANE_GPU:
		strbuf_addf(out, "GPU %u", lane->gpu);
		break;
	case LANE_STREAM:
		strbuf_addf(out, "  stream %u", lane->id);
		report_of_process(r, lane->process, out);
		break;
	case LANE_THREAD:
		report_thread_text(r, lane->process, lane->id, out);
		break;
	}
}

static void print_label(const struct timeline *t, struct strbuf *label)
{
	text_shorten(label, t->label);
	strbuf_adds(t->v->out, "  ");
	strbuf_add(t->v->out, strbuf_text(label), label->length);
	for (size_t i = text_columns(strbuf_text(label), label->length); i <= t->label; i++)
		strbuf_addc(t->v->out, ' ');
}

static void print_row(const struct timeline *t, const char *label, enum style style,
		      const char *cells)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, label);
	print_label(t, &text);
	style_add(t->v->out, t->v->color, style, cells);
}

/* Nothing, and four densities; a thread that mostly waits has a sign of its own. */
static const char *cell_of(const struct timeline *t, const struct time_lane *lane, unsigned column)
{
	uint64_t begin = t->lanes.start_ns + column * t->lanes.column_ns,
		 length = MIN(t->lanes.column_ns, t->lanes.end_ns - MIN(begin, t->lanes.end_ns));

	if (lane->wait_ns && lane->wait_ns[column] * 2 > lane->ns[column])
		return "~";
	return text_shade(t->v->bars, lane->ns[column], length);
}

static void print_lane(const struct timeline *t, const struct time_lane *lane)
{
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT, cells = STRBUF_INIT,
				       share = STRBUF_INIT;

	add_label(t, lane, &label);
	print_label(t, &label);
	for (unsigned i = 0; i < t->lanes.columns; i++)
		strbuf_adds(&cells, cell_of(t, lane, i));
	style_add(t->v->out, t->v->color, lane->kind == LANE_THREAD ? STYLE_CYAN : STYLE_GREEN,
		  strbuf_text(&cells));
	human_percent(&share, lane->total_ns, t->lanes.end_ns - t->lanes.start_ns);
	strbuf_addf(t->v->out, "%*s\n", (int)SHARE_COLUMNS, strbuf_text(&share));
}

/* The column of a moment; `columns`: outside of the window. */
static unsigned column_of(const struct timeline *t, uint64_t ns)
{
	return ns < t->lanes.start_ns || ns >= t->lanes.end_ns
		       ? t->lanes.columns
		       : (unsigned)((ns - t->lanes.start_ns) / t->lanes.column_ns);
}

static void print_cells(const struct timeline *t, const char *label, enum style style, char *cells)
{
	size_t length = t->lanes.columns;

	while (length && cells[length - 1] == ' ')
		length--;
	cells[length] = '\0';
	if (length)
		print_row(t, label, style, cells);
	if (length)
		strbuf_addc(t->v->out, '\n');
}

/* Letters in the middle of the GPU's gaps. */
static void print_gap_letters(const struct timeline *t, uint32_t gpu, char *cells)
{
	memset(cells, ' ', t->lanes.columns + 1u);
	for (size_t i = 0; i < t->gap_count; i++) {
		const struct idle_gap *g = t->gaps[i].gap;
		char *cell = &cells[column_of(t, g->start_ns + g->length_ns / 2)];

		if (t->gaps[i].gpu == gpu && *cell == ' ')
			*cell = (char)('a' + i);
	}
	print_cells(t, "  gaps", STYLE_YELLOW, cells);
}

/* A bar where a step starts, with its number if there is room; '=' where several start. */
static void print_steps(const struct timeline *t, const struct step_loop *loop, char *cells)
{
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT;

	memset(cells, ' ', t->lanes.columns);
	for (size_t i = loop->first; i < loop->first + loop->count; i++) {
		const struct step *step = &t->steps->items[i];
		unsigned from = column_of(t, step->start_ns), to = column_of(t, step->end_ns);
		char number[16];
		size_t digits = (size_t)snprintf(number, sizeof(number), "%u", step->number);

		if (from == t->lanes.columns)
			continue;
		cells[from] = cells[from] == ' ' ? '|' : '=';
		if (from + digits + 1 < to)
			memcpy(&cells[from + 1], number, digits);
	}
	strbuf_adds(&label, "steps");
	report_of_process(t->v->report, loop->process, &label);
	print_cells(t, strbuf_text(&label), STYLE_NONE, cells);
}

/* A time since the start, as exact as a column is wide: "2.2607 s". */
static void add_moment(const struct timeline *t, uint64_t time_ns, struct strbuf *out)
{
	uint64_t ns = since_start(t, time_ns), exact_ns = 1, step_ns;
	bool is_long = ns >= NS_PER_S;
	unsigned decimals = 0;

	while (ns / exact_ns >= 1000)
		exact_ns *= 10;
	if (exact_ns <= t->lanes.column_ns || ns < NS_PER_MS) {
		human_duration(out, ns);
		return;
	}
	step_ns = is_long ? NS_PER_S : NS_PER_MS;
	strbuf_addu(out, ns / step_ns);
	ns %= step_ns;
	for (; step_ns > t->lanes.column_ns && step_ns > 1; step_ns /= 10)
		decimals++;
	strbuf_addf(out, ".%0*llu %s", (int)decimals, (unsigned long long)(ns / step_ns),
		    is_long ? "s" : "ms");
}

/* Times at the beginning of every fourth part. */
static void print_axis(const struct timeline *t, char *cells)
{
	memset(cells, ' ', t->lanes.columns);
	for (unsigned i = 0; i < 4; i++) {
		_cleanup_strbuf_ struct strbuf time = STRBUF_INIT;
		unsigned column = t->lanes.columns * i / 4;

		add_moment(t, t->lanes.start_ns + column * t->lanes.column_ns, &time);
		if (column + time.length + 1 < t->lanes.columns * (i + 1) / 4)
			memcpy(&cells[column], strbuf_text(&time), time.length);
	}
	print_cells(t, "", STYLE_DIM, cells);
}

static void print_gaps(const struct timeline *t)
{
	static const struct text_column columns[] = { LEFT("gap"), RIGHT("start"), RIGHT("length"),
						      LEFT("GPU"),
						      FLEXIBLE("the launching thread was") };
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);

	if (!t->gap_count)
		return;
	strbuf_addc(t->v->out, '\n');
	for (size_t i = 0; i < t->gap_count; i++) {
		text_table_addf(&table, "%c", (char)('a' + i));
		add_moment(t, t->gaps[i].gap->start_ns, text_table_begin(&table));
		text_table_duration(&table, t->gaps[i].gap->length_ns);
		text_table_addf(&table, "%u", t->gaps[i].gpu);
		add_cause(t, &t->gaps[i], text_table_begin(&table));
	}
	report_table(t->v, &table);
}

static void print_title(const struct timeline *t)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, "  from ");
	add_moment(t, t->lanes.start_ns, &text);
	sentence_add(&text, WORDS(" for "), DURATION(t->lanes.end_ns - t->lanes.start_ns));
	if (t->v->width >= TITLE_WIDE)
		sentence_add(&text, WORDS(", "), DURATION(t->lanes.column_ns), WORDS(" a column"));
	strbuf_addc(&text, '\n');
	style_add(t->v->out, t->v->color, STYLE_BOLD, "timeline");
	strbuf_adds(t->v->out, strbuf_text(&text));
}

/* How many streams and threads have no lane. */
static void print_rest(const struct timeline *t)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t streams = t->lanes.streams, threads = t->lanes.threads;

	for (size_t i = 0; i < t->lanes.count; i++) {
		streams -= t->lanes.items[i].kind == LANE_STREAM;
		threads -= t->lanes.items[i].kind == LANE_THREAD;
	}
	if (streams + threads)
		sentence_add(&text, WORDS("less busy: "), COUNTED_AS(streams, "stream"),
			     WORDS(" and "), COUNTED_AS(threads, "thread"),
			     WORDS("; to show all: --top 0\n"));
	report_paragraph(t->v, 2, strbuf_text(&text));
}

static int find(struct timeline *t, const struct report_view *v, const struct steps *steps,
		unsigned columns)
{
	*t = (struct timeline){ .v = v,
				.steps = steps,
				.label = v->width < WIDE ? LABEL_NARROW : LABEL_COLUMNS };
	if (!columns)
		columns = v->width - t->label - SHARE_COLUMNS - 3;
	find_gaps(t);
	return time_lanes_find(&t->lanes, v->report, columns, v->top, v->top);
}

int timeline_text(const struct report_view *v, const struct steps *steps)
{
	_cleanup_free_ char *cells = NULL;
	struct timeline t;
	int code = find(&t, v, steps, 0);

	if (code >= 0 && !t.lanes.count)
		code = -ENODATA;
	if (code >= 0) /* and one for what is outside of the window, and the end */
		cells = malloc(t.lanes.columns + 2u);
	if (cells) {
		print_title(&t);
		print_axis(&t, cells);
		for (size_t i = 0; i < steps->loop_count; i++)
			print_steps(&t, &steps->loops[i], cells);
		for (size_t i = 0; i < t.lanes.count; i++) {
			print_lane(&t, &t.lanes.items[i]);
			if (t.lanes.items[i].kind == LANE_GPU)
				print_gap_letters(&t, t.lanes.items[i].gpu, cells);
		}
		print_rest(&t);
		print_gaps(&t);
	}
	time_lanes_release(&t.lanes);
	return cells ? 0 : code < 0 ? code : -ENOMEM;
}

/* --- JSON --- */

static void write_lane(const struct timeline *t, const struct time_lane *lane, struct json *j)
{
	static const char *const kinds[] = {
		[LANE_GPU] = "gpu", [LANE_STREAM] = "stream", [LANE_THREAD] = "thread"
	};
	const struct report *r = t->v->report;
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT;

	add_label(t, lane, &label);
	json_object(j);
	json_key_string(j, "kind", kinds[lane->kind]);
	json_key(j, "name");
	json_bytes(j, strbuf_text(&label) + strspn(strbuf_text(&label), " "),
		   label.length - strspn(strbuf_text(&label), " "));
	json_key_known(j, "gpu", lane->kind != LANE_THREAD, lane->gpu);
	json_key_known(j, "pid", lane->kind != LANE_GPU,
		       trace_process(r->trace, lane->process)->pid);
	json_key_known(j, "stream", lane->kind == LANE_STREAM, lane->id);
	json_key_known(j, "thread", lane->kind == LANE_THREAD, lane->id);
	json_key_u64(j, "busy_ns", lane->total_ns);
	json_key_array(j, "columns_ns");
	for (unsigned i = 0; i < t->lanes.columns; i++)
		json_u64(j, lane->ns[i]);
	json_end(j);
	if (lane->wait_ns) {
		json_key_array(j, "waiting_ns");
		for (unsigned i = 0; i < t->lanes.columns; i++)
			json_u64(j, lane->wait_ns[i]);
		json_end(j);
	}
	json_end(j);
}

static void write_gaps(const struct timeline *t, struct json *j)
{
	json_key_array(j, "gaps");
	for (size_t i = 0; i < t->gap_count; i++) {
		_cleanup_strbuf_ struct strbuf cause = STRBUF_INIT;

		add_cause(t, &t->gaps[i], &cause);
		json_object(j);
		json_key_u64(j, "gpu", t->gaps[i].gpu);
		json_key_u64(j, "start_ns", since_start(t, t->gaps[i].gap->start_ns));
		json_key_u64(j, "length_ns", t->gaps[i].gap->length_ns);
		json_key(j, "cause");
		json_bytes(j, strbuf_text(&cause), cause.length);
		json_end(j);
	}
	json_end(j);
}

static void write_steps(const struct timeline *t, struct json *j)
{
	json_key_array(j, "steps");
	for (size_t i = 0; i < t->steps->count; i++) {
		const struct step *step = &t->steps->items[i];
		uint32_t process = t->steps->loops[step->loop].process;

		if (step->end_ns <= t->lanes.start_ns || step->start_ns >= t->lanes.end_ns)
			continue;
		json_object(j);
		json_key_u64(j, "pid", trace_process(t->v->report->trace, process)->pid);
		json_key_u64(j, "number", step->number);
		json_key_u64(j, "start_ns", since_start(t, step->start_ns));
		json_key_u64(j, "duration_ns", step->end_ns - step->start_ns);
		json_end(j);
	}
	json_end(j);
}

int timeline_json(const struct report_view *v, const struct steps *steps)
{
	struct json j = JSON_INIT(v->out);
	struct timeline t;
	int code = find(&t, v, steps, JSON_COLUMNS);

	if (code >= 0) {
		json_object(&j);
		json_key_string(&j, "recording", v->path);
		json_key_u64(&j, "start_ns", since_start(&t, t.lanes.start_ns));
		json_key_u64(&j, "end_ns", since_start(&t, t.lanes.end_ns));
		json_key_u64(&j, "column_ns", t.lanes.column_ns);
		json_key_array(&j, "lanes");
		for (size_t i = 0; i < t.lanes.count; i++)
			write_lane(&t, &t.lanes.items[i], &j);
		json_end(&j);
		write_steps(&t, &j);
		write_gaps(&t, &j);
		json_finish(&j);
	}
	time_lanes_release(&t.lanes);
	return code;
}
