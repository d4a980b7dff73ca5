/* section_idle.c: why a GPU was idle, and the lengths of the gaps. */
#include "report/section.h"

#include "analysis/idle.h"
#include "analysis/verdict.h"
#include "report/words.h"

static const char *const cause_texts[IDLE_CAUSES] = {
	[IDLE_BEFORE] = "before the first GPU work",
	[IDLE_AFTER] = "after the last GPU work",
	[IDLE_HOST] = "outside recorded calls", /* and see cause_text */
	[IDLE_LAUNCH] = "in a launch call",
	[IDLE_SYNC] = "in a synchronizing call",
	[IDLE_COPY] = "in a copy call",
	[IDLE_MEMORY] = "in an allocation call",
	[IDLE_CALL] = "in another call",
	[IDLE_QUEUED] = "launched, not started yet",
	[IDLE_UNKNOWN] = "launch not recorded",
	[IDLE_MEASURING] = "delayed by Pitot's measuring",
};

/* Only --api all records allocations, module loading and other calls, so only then it is known. */
static const char *cause_text(const struct report *r, int cause)
{
	return cause == IDLE_HOST && r->calls.has_all ? "outside of calls (host code)"
						      : cause_texts[cause];
}

static const char *const size_texts[IDLE_SIZES] = { "< 1 us",  "< 10 us",  "< 100 us", "< 1 ms",
						    "< 10 ms", "< 100 ms", ">= 100 ms" };

/* Sorts the causes by time, longest first; returns their number. */
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

/* Adds the cells of a cause. */
static void add_cause(struct text_table *t, const struct report_view *v, const struct gpu_idle *g,
		      int cause)
{
	text_table_add(t, cause_text(v->report, cause));
	report_bar(t, v, g->cause_ns[cause], g->total_ns, 10);
	text_table_duration(t, g->cause_ns[cause]);
	text_table_percent(t, g->cause_ns[cause], g->total_ns);
}

static void add_gaps(struct text_table *t, const struct gpu_idle *g, int size)
{
	text_table_add(t, "");
	text_table_add(t, size_texts[size]);
	text_table_count(t, g->gaps[size].count);
	text_table_duration(t, g->gaps[size].total_ns);
	text_table_percent(t, g->gaps[size].total_ns, g->total_ns);
}

#define CAUSE_COLUMNS 4
#define BESIDE_WIDTH 78 /* with less, the gaps are printed below the causes, not beside them */

static void print(const struct report_view *v)
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
	const struct gpu_idle *g = r->verdicts->whole.kind < VERDICT_MEASURED
					   ? NULL
					   : &r->idle->gpus[r->verdicts->whole.gpu];
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	bool beside = v->html || v->width >= BESIDE_WIDTH;
	_cleanup_table_ struct text_table t = { .columns = columns,
						.column_count = beside ? ARRAY_SIZE(columns)
								       : CAUSE_COLUMNS };
	_cleanup_table_ struct text_table below = { .columns = columns + CAUSE_COLUMNS,
						    .column_count =
							    ARRAY_SIZE(columns) - CAUSE_COLUMNS };
	struct text_table *gaps = beside ? &t : &below;
	int causes[IDLE_CAUSES], sizes[IDLE_SIZES];
	size_t count, size_count = 0;

	if (!g || !g->total_ns)
		return;
	count = sort_causes(g, causes);
	for (int size = 0; size < IDLE_SIZES; size++)
		if (g->gaps[size].count)
			sizes[size_count++] = size;
	for (size_t i = 0; i < MAX(count, size_count); i++) {
		if (i < count)
			add_cause(&t, v, g, causes[i]);
		for (size_t c = i < count ? CAUSE_COLUMNS : 0; beside && c < CAUSE_COLUMNS; c++)
			text_table_add(&t, "");
		if (i < size_count)
			add_gaps(gaps, g, sizes[i]);
		text_table_end_row(gaps);
	}
	sentence_add(&line, DURATION(g->total_ns), WORDS(" of "), DURATION(r->end_ns - r->start_ns),
		     WORDS(" (GPU "), NUMBER(r->verdicts->whole.gpu), WORDS(")"));
	report_title(v, "GPU idle", strbuf_text(&line));
	t.fixed = true;
	report_table(v, &t);
	if (!beside)
		report_table(v, &below);
}

/* The JSON keys belong to the GPUs: see section_gpus.c. */
const struct section section_idle = { .whole_report = true, .text = print };
