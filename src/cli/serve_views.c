/*
 * serve_views.c: the pages of `pitot report`, `flame`, `source`, `diff` and `export -o x.html`, as
 * `pitot serve` shows them. A page that was made is kept; the recording is read again for the next
 * one, so that its columns need no memory meanwhile.
 */
#include "cli/serve_views.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/main_process.h"
#include "analysis/verdict.h"
#include "base/clock.h"
#include "base/html.h"
#include "cli/report_flame.h"
#include "cli/source_print.h"
#include "cli/ui.h"
#include "export/page/timeline_served.h"
#include "export/source/source_page.h"
#include "report/section.h"

#define TOP 10 /* rows of a table */
#define CALLERS 2

struct viewed {
	struct strbuf pages[SERVE_VIEW_COUNT]; /* that were made */
	struct error missing[SERVE_VIEW_COUNT]; /* why there is none: it has no such data */
	struct timeline_served *timeline;
};

static int open_trace(const char *path, struct trace **out, struct error *e)
{
	struct trace_options options = { .threads = 0 };
	struct error no_names = { 0 };
	int rc = trace_open(path, &options, out, e);

	if (rc >= 0)
		(void)cli_open_with_names(path, options, out, &no_names);
	return rc;
}

/* --- the report, and its verdict --- */

static void add_gpus(const struct report *r, struct json *j)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct gpus *g = &r->gpus;

	for (size_t i = 0, next; i < g->count; i = next) {
		for (next = i + 1;
		     next < g->count && !strcmp(g->items[i].name, g->items[next].name);)
			next++;
		strbuf_adds(&text, i ? ", " : "");
		if (next - i > 1)
			strbuf_addf(&text, "%zu x ", next - i);
		strbuf_adds(&text, g->items[i].name);
	}
	json_key_string(j, "gpus", strbuf_text(&text));
}

static void add_summary(const struct report *r, struct strbuf *out)
{
	const struct trace_process *main = main_process(r->trace);
	const struct verdict *verdict = &r->verdicts->whole;
	_cleanup_strbuf_ struct strbuf sentence = STRBUF_INIT;
	struct json j = JSON_INIT(out);

	verdict_sentence(verdict, &sentence);
	json_object(&j);
	json_key_string(&j, "command", main ? main->command : "");
	json_key_string(&j, "host", main ? main->host : "");
	json_key_i64(&j, "start_ms",
		     trace_unix_ns(r->trace, r->span_start_ns) / (int64_t)NS_PER_MS);
	json_key_u64(&j, "duration_ns", r->span_end_ns - r->span_start_ns);
	add_gpus(r, &j);
	json_key_string(&j, "verdict", verdict_name(verdict->kind));
	json_key_string(&j, "sentence", strbuf_text(&sentence));
	json_end(&j);
}

/* The flame graph is a page inside of the page, without what leads from page to page. */
static int add_flame_inside(const struct report *r, const char *name, struct strbuf *out,
			    struct error *e)
{
	const char *bar = html_serve_bar(NULL);
	int rc = report_flame(r, name, out, e);

	html_serve_bar(bar);
	return rc;
}

static int make_report(struct viewed *v, const struct serve_target *t, struct trace *trace,
		       struct error *e)
{
	struct report_options options = { .filter = FILTER_ALL, .callers_of = TOP };
	_cleanup_strbuf_ struct strbuf flame = STRBUF_INIT;
	struct report report;
	struct report_view view = {
		.report = &report,
		.path = t->names[0],
		.width = REPORT_WIDTH_MAX,
		.html = true,
		.callers = CALLERS,
		.top = TOP,
		.out = &v->pages[SERVE_report],
	};
	int rc = report_init(&report, trace, &options, e);

	if (rc < 0)
		return rc;
	rc = add_flame_inside(&report, t->names[0], &flame, e);
	view.flame = strbuf_text(&flame);
	if (rc >= 0) {
		report_print_html(&view);
		add_summary(&report, &v->pages[SERVE_summary]);
	}
	report_release(&report);
	return rc;
}

/* --- other pages --- */

static int make_timeline(struct viewed *v, struct trace *trace, struct error *e)
{
	const struct strbuf *page;
	int rc = timeline_served_new(trace, &v->timeline, e);

	if (rc < 0)
		return rc;
	page = timeline_served_page(v->timeline);
	strbuf_add(&v->pages[SERVE_timeline], page->data, page->length);
	return 0;
}

static int add_slices(struct viewed *v, const struct serve_ask *ask, struct strbuf *out)
{
	if (!v->timeline || timeline_served_instance(v->timeline) != ask->instance)
		return E_MOVED;
	if (ask->correlation)
		return timeline_served_related(v->timeline, ask->correlation, out);
	if (ask->sums)
		return timeline_served_sums(v->timeline, ask->from_ns, ask->until_ns, out);
	return timeline_served_window(v->timeline, ask->from_ns, ask->until_ns, ask->pixels, out);
}

static int make_flame(struct viewed *v, const struct serve_target *t, struct trace *trace,
		      struct error *e)
{
	int rc = flame_page(trace, t->names[0], &v->pages[SERVE_flame], e);

	if (rc == 0 && !v->pages[SERVE_flame].length)
		rc = error_set(e, -ENODATA, "the recording has no call stacks");
	return rc;
}

static int make_source(struct viewed *v, const struct serve_target *t, struct trace *trace,
		       struct error *e)
{
	_cleanup_strbuf_ struct strbuf program = STRBUF_INIT;
	struct source_options options = { .limit_s = SOURCE_LIMIT_S };
	struct filter filter = FILTER_ALL;
	struct source_view view;
	int rc;

	if (sass_program(&program))
		options.nvdisasm = strbuf_text(&program);
	rc = source_view_init(&view, trace, &filter, &options, e);
	if (rc < 0)
		return rc;
	if (view.stalls.samples || view.stalls.sass.known)
		source_page(&view, NULL, t->names[0], &v->pages[SERVE_source]);
	else
		rc = error_set(e, -ENODATA, SOURCE_NOTHING);
	source_view_release(&view);
	return rc;
}

/* --- all --- */

static int make_from(struct viewed *v, const struct serve_target *t, enum serve_view view,
		     struct trace *const traces[2], struct error *e)
{
	switch (view) {
	case SERVE_summary:
	case SERVE_report:
		return make_report(v, t, traces[0], e);
	case SERVE_timeline:
		return make_timeline(v, traces[0], e);
	case SERVE_flame:
		return make_flame(v, t, traces[0], e);
	case SERVE_source:
		return make_source(v, t, traces[0], e);
	default:
		return serve_diff(traces, t, &v->pages[SERVE_diff], e);
	}
}

static int make_page(struct viewed *v, const struct serve_target *t, enum serve_view view,
		     struct error *e)
{
	struct trace *traces[2] = { NULL, NULL };
	int rc = 0;

	for (unsigned i = 0; i < t->count && rc >= 0; i++)
		rc = open_trace(t->paths[i], &traces[i], e);
	if (rc >= 0)
		rc = make_from(v, t, view, traces, e);
	for (unsigned i = 0; i < t->count; i++)
		trace_free(traces[i]);
	if (rc < 0)
		strbuf_release(&v->pages[view]);
	if (rc == -ENODATA)
		v->missing[view] = *e;
	return rc;
}

int serve_views(struct serve_target *t, const struct serve_ask *ask, struct strbuf *out,
		struct error *e)
{
	struct viewed *v = t->state ? t->state : calloc(1, sizeof(*v));
	const struct strbuf *page;
	int rc = 0;

	t->state = v;
	if (!v || ask->view >= SERVE_VIEW_COUNT)
		return error_set(e, -ENOMEM, "out of memory");
	if (ask->view == SERVE_programs)
		return serve_programs(out, e);
	if (ask->view == SERVE_slices)
		return add_slices(v, ask, out);
	page = &v->pages[ask->view];
	if (v->missing[ask->view].code) {
		*e = v->missing[ask->view];
		return e->code;
	}
	if (!page->length)
		rc = make_page(v, t, ask->view, e);
	if (rc >= 0)
		strbuf_add(out, page->data, page->length);
	out->failed |= page->failed;
	return rc;
}
