/* serve_diff.c: the page of `pitot diff` in `pitot serve`. */
#include "base/html.h"
#include "cli/report_flame.h"
#include "cli/serve_views.h"
#include "compare/comparison_print.h"
#include "report/report_view.h"

static int add_comparison(struct trace *const traces[2], const struct serve_target *t,
			  const struct comparison *c, struct strbuf *out, struct error *e)
{
	_cleanup_strbuf_ struct strbuf flame = STRBUF_INIT, title = STRBUF_INIT;
	const char *bar = html_serve_bar(NULL);
	struct comparison_view view = {
		.comparison = c,
		.top = UINT64_MAX,
		.width = REPORT_WIDTH_MAX,
		.html = true,
		.flame_title = "flame graph of B, compared with A",
		.out = out,
	};
	int rc = report_flame_diff(traces[1], t->names[1], traces[0], t->names[0], &flame, e);

	html_serve_bar(bar);
	strbuf_addf(&title, "%s, compared with %s", t->names[1], t->names[0]);
	view.title = strbuf_text(&title);
	view.flame = strbuf_text(&flame);
	if (rc >= 0)
		comparison_print_html(&view);
	return rc;
}

int serve_diff(struct trace *const traces[2], const struct serve_target *t, struct strbuf *out,
	       struct error *e)
{
	struct measured_run runs[2] = { 0 };
	struct comparison comparison;
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc >= 0; i++)
		rc = measured_run_init(&runs[i], t->names[i], traces[i], e);
	if (rc >= 0) {
		rc = comparison_init(&comparison, (struct run_side){ &runs[0], 1 },
				     (struct run_side){ &runs[1], 1 }, e);
		if (rc >= 0)
			rc = add_comparison(traces, t, &comparison, out, e);
		comparison_release(&comparison);
	}
	for (unsigned i = 0; i < 2; i++)
		measured_run_release(&runs[i]);
	return rc;
}
