#include "cli/report_lines.h"

#include <string.h>

#include "base/human.h"
#include "cli/ui.h"

void report_line_text(const struct report *r, uint32_t caller, uint32_t callee, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	caller_text(&r->callers, caller, callee, &text);
	text_safe(out, strbuf_text(&text), text.length);
}

static void add_share(struct strbuf *out, uint64_t part, uint64_t whole)
{
	strbuf_adds(out, " (");
	human_percent(out, part, whole);
	strbuf_addc(out, ')');
}

void report_callers_text(const struct report_view *v, const struct hotspot *h, struct strbuf *out)
{
	uint64_t shown = MIN(MIN(v->callers, h->caller_count), HOTSPOT_CALLERS_MAX);

	if (!shown || (h->caller_count == 1 && h->callers[0].caller == CALLER_NONE))
		return;
	for (uint64_t i = 0; i < shown; i++) {
		strbuf_adds(out, i ? ", " : "from ");
		report_line_text(v->report, h->callers[i].caller, CALLER_NONE, out);
		if (h->caller_count > 1)
			add_share(out, h->callers[i].total_ns, h->time.total_ns);
	}
	if (h->caller_count > shown)
		strbuf_addf(out, ", and %llu more", (unsigned long long)(h->caller_count - shown));
}

void report_idle_sentence(const struct report *r, struct strbuf *out)
{
	const struct idle_lines *l = &r->idle_lines;
	bool sampled = l->source == IDLE_SOURCE_SAMPLES;
	size_t shown = 0;

	/* at most three, that explain a tenth of the gaps each */
	for (size_t i = 0; i < l->count && shown < 3; i++) {
		const struct idle_line *line = &l->items[i];

		if (line->ns < l->gaps_ns / 10 || line->caller == CALLER_NONE)
			continue;
		strbuf_adds(out, shown++   ? ", "
				 : sampled ? "meanwhile its launching thread is at "
					   : "it waits for launches from ");
		report_line_text(r, line->caller, line->callee, out);
		add_share(out, line->ns, r->verdict.span_ns);
	}
	if (!shown)
		return;
	if (sampled) {
		strbuf_adds(out, ", by ");
		human_count(out, l->samples);
		strbuf_adds(out, l->samples == 1 ? " sample" : " samples");
	}
	strbuf_addc(out, '\n');
}

/*
 * How long the thread did not run in gaps, where only samples tell: what they leave, if that is
 * more than three standard deviations of what they found. Else 0.
 */
static uint64_t asleep_ns(const struct idle_lines *l)
{
	double rest = (double)l->gaps_ns - (double)l->sampled_ns, found = (double)l->sampled_ns;

	if (l->source != IDLE_SOURCE_SAMPLES || l->off_cpu_ns || rest <= 0 ||
	    rest * rest * (double)l->samples <= 9 * found * found)
		return 0;
	return l->gaps_ns - l->sampled_ns;
}

void report_print_idle_lines(const struct report_view *v)
{
	const struct report *r = v->report;
	const struct idle_lines *l = &r->idle_lines;
	bool sampled = l->source == IDLE_SOURCE_SAMPLES;
	const struct text_column columns[] = {
		RIGHT("share"),
		RIGHT("time"),
		RIGHT(l->off_cpu_ns && sampled ? "not running" : ""),
		RIGHT(sampled ? "samples" : "gaps"),
		FLEXIBLE(sampled ? "launching thread was at" : "the next launch came from"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t window = r->end_ns - r->start_ns, asleep = asleep_ns(l);
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!l->count)
		return;
	for (size_t i = 0; i < MIN(l->count, v->top / 2 + v->top % 2); i++) {
		const struct idle_line *x = &l->items[i];

		strbuf_clear(&line);
		report_line_text(r, x->caller, x->callee, &line);
		text_table_percent(&t, x->ns, window);
		text_table_duration(&t, x->ns);
		if (x->off_cpu_ns)
			text_table_duration(&t, x->off_cpu_ns);
		else
			text_table_add(&t, "");
		text_table_count(&t, x->count);
		text_table_add(&t, strbuf_text(&line));
	}
	if (asleep) {
		text_table_percent(&t, asleep, window);
		text_table_duration(&t, asleep);
		text_table_add(&t, "");
		text_table_add(&t, "");
		text_table_add(&t, "(no samples: it did not run)");
	}
	strbuf_clear(&line);
	human_count(&line, l->gaps);
	strbuf_adds(&line, " gaps between work, ");
	human_duration(&line, l->gaps_ns);
	report_title(v, "GPU idle by line", strbuf_text(&line));
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

void report_print_blocked(const struct report_view *v)
{
	static const struct text_column columns[] = {
		RIGHT("share"),   RIGHT("time"), RIGHT("count"),
		RIGHT("longest"), LEFT("call"),  FLEXIBLE("waited for the GPU at"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!r->blocked.count || !r->callers.any)
		return;
	for (size_t i = 0; i < MIN(r->blocked.count, v->top / 2 + v->top % 2); i++) {
		const struct blocked_line *b = &r->blocked.items[i];
		_cleanup_strbuf_ struct strbuf call = STRBUF_INIT;
		size_t length;
		const char *name = calls_function_name(r->trace, b->function, &length);

		text_table_percent(&t, b->total_ns, r->end_ns - r->start_ns);
		text_table_duration(&t, b->total_ns);
		text_table_count(&t, b->count);
		text_table_duration(&t, b->max_ns);
		text_safe(&call, name, length);
		text_table_add(&t, call.length ? strbuf_text(&call) : "?");
		strbuf_clear(&line);
		report_line_text(r, b->caller, CALLER_NONE, &line);
		text_table_add(&t, strbuf_text(&line));
	}
	strbuf_clear(&line);
	human_duration(&line, r->blocked.total_ns);
	strbuf_adds(&line, " in ");
	human_count(&line, r->blocked.calls);
	strbuf_adds(&line, r->blocked.calls == 1 ? " call" : " calls");
	report_title(v, "lines that waited for the GPU", strbuf_text(&line));
	text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

static void add_threads(const struct report *r, struct strbuf *out)
{
	const struct cpu_use *c = &r->cpu;
	size_t shown = MIN(c->thread_count, 6);

	for (size_t i = 0; i < shown; i++) {
		const struct cpu_thread *t = &c->threads[i];

		strbuf_adds(out, i ? ", " : "");
		report_thread_text(r, t->process, t->thread, out);
		strbuf_adds(out, ": ");
		human_duration(out, t->total_ns);
	}
	if (c->thread_count > shown)
		strbuf_addf(out, ", and %zu more", c->thread_count - shown);
	strbuf_addc(out, '\n');
}

/* Where there are no kernel frames at all, nobody looked: nothing is said of them. */
static void add_remarks(const struct cpu_use *c, struct strbuf *out)
{
	if (c->kernel_ns) {
		human_percent(out, c->kernel_ns, c->total_ns);
		strbuf_adds(out, " in the operating system's kernel");
	}
	if (c->inside_ns && c->inside_ns < c->total_ns) {
		strbuf_adds(out, out->length ? "; " : "");
		human_percent(out, c->inside_ns, c->total_ns);
		strbuf_adds(out, " sampled by timers inside");
	}
	if (c->pauses) {
		strbuf_adds(out, out->length ? "; besides " : "besides ");
		human_duration(out, c->pause_ns);
		strbuf_adds(out, " not running, in ");
		human_count(out, c->pauses);
		strbuf_adds(out, " pauses");
	}
	if (c->stackless) {
		strbuf_adds(out, out->length ? "; " : "");
		human_percent(out, c->stackless_ns, c->total_ns);
		strbuf_adds(out, " without a stack");
	}
	if (*c->way.reason && c->way.state != capability_state_on) {
		strbuf_adds(out, out->length ? "; " : "");
		text_safe(out, c->way.reason, strlen(c->way.reason));
	}
}

static void print_functions(const struct report_view *v, uint64_t top)
{
	static const struct text_column columns[] = { RIGHT("self"), RIGHT(""), RIGHT("total"),
						      FLEXIBLE("function") };
	const struct cpu_use *c = &v->report->cpu;
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < MIN(c->function_count, top); i++) {
		const struct cpu_function *f = &c->functions[i];
		const char *name = stacks_text(&v->report->callers.stacks, f->function);
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		if (!f->self_ns)
			break; /* sorted by it: the rest only called those above */
		text_safe(&text, name, strlen(name));
		if (caller_at(&v->report->callers, f->caller)->class == FRAME_SYSTEM)
			strbuf_adds(&text, " [kernel]");
		text_table_percent(&t, f->self_ns, c->total_ns);
		text_table_duration(&t, f->self_ns);
		text_table_percent(&t, f->total_ns, c->total_ns);
		text_table_add(&t, strbuf_text(&text));
	}
	if (text_table_rows(&t))
		text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

static void print_lines(const struct report_view *v, uint64_t top)
{
	static const struct text_column columns[] = { RIGHT("share"), RIGHT("time"),
						      RIGHT("samples"), FLEXIBLE("line") };
	const struct cpu_use *c = &v->report->cpu;
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < MIN(c->line_count, top); i++) {
		const struct cpu_line *l = &c->lines[i];
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		report_line_text(v->report, l->caller, l->callee, &text);
		text_table_percent(&t, l->total_ns, c->total_ns);
		text_table_duration(&t, l->total_ns);
		text_table_count(&t, l->samples);
		text_table_add(&t, strbuf_text(&text));
	}
	if (text_table_rows(&t))
		text_table_print(&t, 2, v->width, v->color, v->out);
	text_table_release(&t);
}

/* Why there are no samples, where that is known. */
static void print_no_cpu(const struct report_view *v)
{
	const struct capability_note *way = &v->report->cpu.way;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, reason = STRBUF_INIT;

	if (!way->known)
		return;
	capability_no_samples(way, &reason);
	strbuf_adds(&line, "no samples");
	strbuf_adds(&line, reason.length ? ": " : "");
	text_safe(&line, strbuf_text(&reason), reason.length);
	report_title(v, "CPU", strbuf_text(&line));
}

void report_print_cpu(const struct report_view *v)
{
	const struct cpu_use *c = &v->report->cpu;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, threads = STRBUF_INIT,
				       remarks = STRBUF_INIT;
	uint64_t top = v->top / 2 + v->top % 2;

	if (!c->samples) {
		print_no_cpu(v);
		return;
	}
	human_duration(&line, c->total_ns);
	strbuf_addf(&line, " in %zu thread%s of %zu process%s, ", c->thread_count,
		    c->thread_count == 1 ? "" : "s", c->processes, c->processes == 1 ? "" : "es");
	human_count(&line, c->samples);
	strbuf_adds(&line, c->samples == 1 ? " sample" : " samples");
	if (*c->way.got) {
		strbuf_adds(&line, " by ");
		text_safe(&line, c->way.got, strlen(c->way.got));
	}
	report_title(v, "CPU", strbuf_text(&line));
	add_threads(v->report, &threads);
	text_fold(v->out, strbuf_text(&threads), 2, v->width);
	add_remarks(c, &remarks);
	if (remarks.length)
		text_fold(v->out, strbuf_text(&remarks), 2, v->width);
	print_lines(v, top);
	print_functions(v, top);
}
