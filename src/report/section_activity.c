/*
 * section_activity.c: a strip of a page that shows when each GPU worked; without GPU work, when the
 * CPU did, from its samples. Each step of a strip is the share of its time that was busy.
 */
#include "report/section.h"

#include "analysis/busy.h"
#include "report/words.h"
#include "trace/columns.h"

#define STEPS 800u
#define HEIGHT 40.0
#define HEIGHT_MIN 1.5 /* of a step in which anything ran */
#define GPUS_SHOWN 8u

struct strip {
	double busy_ns[STEPS];
	uint64_t end_ns; /* of the work so far */
};

struct window {
	uint64_t start_ns, end_ns;
	double step_ns;
};

static void add_time(struct strip *s, const struct window *w, uint64_t start_ns, uint64_t end_ns)
{
	double from = (double)(MAX(start_ns, w->start_ns) - w->start_ns) / w->step_ns;
	double to = (double)(MIN(end_ns, w->end_ns) - w->start_ns) / w->step_ns;

	for (unsigned i = (unsigned)from; i < STEPS && i < to; i++)
		s->busy_ns[i] += (MIN(to, i + 1.0) - MAX(from, (double)i)) * w->step_ns;
}

/* Returns how many GPUs worked, or -ENOMEM. */
static int add_gpus(const struct report *r, const struct window *w, struct strip *strips)
{
	struct gpu_operation op;
	struct gpu_walk walk;
	int found = 0, rc = gpu_walk_init(&walk, &r->gpus, &r->selection);

	while (rc >= 0 && gpu_walk_next(&walk, &op)) {
		struct strip *s = &strips[op.gpu];

		if (op.end_ns <= s->end_ns)
			continue;
		found += !s->end_ns;
		add_time(s, w, MAX(op.start_ns, s->end_ns), op.end_ns);
		s->end_ns = op.end_ns;
	}
	gpu_walk_release(&walk);
	return rc < 0 ? rc : found;
}

static bool add_samples(const struct report *r, const struct window *w, struct strip *s)
{
	const struct cpu_sample_columns *c = cpu_sample_columns(r->trace);
	uint64_t count = c->time_ns && c->weight_ns ? trace_rows(r->trace, TABLE_cpu_sample) : 0;
	bool found = false;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t end_ns = c->time_ns[i];

		if (end_ns <= w->start_ns || end_ns > w->end_ns)
			continue;
		add_time(s, w, end_ns - MIN(c->weight_ns[i], end_ns), end_ns);
		found = true;
	}
	return found;
}

/* Appends a strip, scaled to its busiest step. */
static void print_strip(const struct report_view *v, const struct strip *s, const struct window *w,
			const char *label, size_t number)
{
	_cleanup_strbuf_ struct strbuf most_text = STRBUF_INIT;
	double most = 0;

	for (unsigned i = 0; i < STEPS; i++)
		most = MAX(most, s->busy_ns[i]);
	if (number != SIZE_MAX)
		sentence_add(&most_text, WORDS("up to "),
			     PERCENT((uint64_t)(most + 0.5), (uint64_t)(w->step_ns + 0.5)),
			     WORDS(" busy"));
	else
		strbuf_addf(&most_text, "up to %.1f processors", most / w->step_ns);
	strbuf_addf(v->out, "<div class=\"strip\"><b>%s", label);
	if (number != SIZE_MAX)
		strbuf_addf(v->out, " %zu", number);
	strbuf_addf(v->out,
		    "</b><svg viewBox=\"0 0 %u %.0f\" preserveAspectRatio=\"none\" role=\"img\" "
		    "aria-label=\"activity over time\"><path d=\"",
		    STEPS, HEIGHT);
	for (unsigned i = 0; i < STEPS; i++)
		if (s->busy_ns[i] > 0)
			strbuf_addf(v->out, "M%u %.0fv-%.1fh1V%.0fz", i, HEIGHT,
				    MAX(HEIGHT * s->busy_ns[i] / most, HEIGHT_MIN), HEIGHT);
	strbuf_addf(v->out, "\"/></svg><small>%s</small></div>\n", strbuf_text(&most_text));
}

static void print_axis(const struct report_view *v, const struct window *w)
{
	uint64_t from_ns = w->start_ns - v->report->span_start_ns;

	strbuf_adds(v->out, "<div class=\"axis\">");
	for (uint64_t i = 0; i <= 4; i++) {
		_cleanup_strbuf_ struct strbuf time = STRBUF_INIT;

		sentence_add(&time, DURATION(from_ns + (w->end_ns - w->start_ns) / 4 * i));
		strbuf_addf(v->out, "<span>%s</span>", strbuf_text(&time));
	}
	strbuf_adds(v->out, "</div>\n");
}

static void print(const struct report_view *v)
{
	const struct report *r = v->report;
	struct window w = { r->start_ns, r->end_ns, (double)(r->end_ns - r->start_ns) / STEPS };
	size_t count = r->gpus.count, shown = 0;
	_cleanup_free_ struct strip *strips = calloc(count + 1, sizeof(*strips));
	_cleanup_strbuf_ struct strbuf how = STRBUF_INIT;
	int gpus;

	if (!v->html || w.end_ns <= w.start_ns)
		return;
	gpus = strips ? add_gpus(r, &w, strips) : -1;
	if (gpus < 0) {
		v->out->failed = true;
		return;
	}
	if (!gpus && !add_samples(r, &w, &strips[count]))
		return;
	strbuf_adds(&how, "over time; each strip is scaled to its busiest place");
	if (gpus > (int)GPUS_SHOWN)
		strbuf_addf(&how, "; the first %u of %d GPUs: `--device N` shows another",
			    GPUS_SHOWN, gpus);
	report_title(v, gpus ? "GPU activity" : "CPU activity", strbuf_text(&how));
	for (size_t i = 0; gpus && i < count && shown < GPUS_SHOWN; i++)
		if (strips[i].end_ns && ++shown)
			print_strip(v, &strips[i], &w, "GPU", i);
	if (!gpus)
		print_strip(v, &strips[count], &w, "CPU", SIZE_MAX);
	print_axis(v, &w);
}

const struct section section_activity = { .whole_report = true, .text = print };
