#include "cli/report_flame.h"

#include <errno.h>

#include "cli/flame_print.h"
#include "cli/ui.h"
#include "export/flame/flame_html.h"

#define BOXES_MAX 4000 /* a page for others stays small */
#define KINDS (1 << FLAME_GPU | 1 << FLAME_WAIT | 1 << FLAME_CPU | 1 << FLAME_OFF_CPU)

/* Whether the flame graph is about the same part of the recording as the report. */
static bool has_same_filter(const struct filter *f)
{
	return f->pid < 0 && f->device < 0 && f->stream < 0 && !f->kernel;
}

static bool has_stacks(const struct flame *f)
{
	return f->calls_with_stack ||
	       f->sections[FLAME_CPU].count > f->sections[FLAME_CPU].stackless;
}

/* Appends the page, unless the graph is empty or would show no stack. */
static int append(struct flame *f, const char *path, const char *before, struct strbuf *page)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	const struct flame_write write = {
		.title = "flame graph", .recording = path, .before = before, .notes = ""
	};

	if (flame_finish(f, false) < 0)
		return -ENOMEM;
	if (!has_stacks(f) || flame_print_empty(f, true, &why))
		return 0;
	return flame_html_append(f, &write, BOXES_MAX, page);
}

int report_flame(const struct report *r, const char *path, struct strbuf *page, struct error *e)
{
	const struct filter *filter = &r->options.filter;
	struct flame_options options = FLAME_OPTIONS_INIT;
	struct flame flame;
	int rc;

	if (!has_same_filter(filter))
		return 0;
	options.kinds = flame_kinds_recorded(r->trace) & KINDS;
	options.since_ns = filter->since_ns;
	options.until_ns = filter->until_ns;
	options.scope = filter->scope;
	options.captures = r->options.captures;
	if (!options.kinds)
		return 0;
	rc = flame_init(&flame, r->trace, &options, e);
	if (rc < 0)
		return rc;
	rc = append(&flame, path, NULL, page);
	flame_release(&flame);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

/* Compares f, which is of `path`, with another recording. */
static int compare(const struct context *c, struct flame *f, struct flame_options options,
		   const char *path, const char *before, struct strbuf *page)
{
	struct trace *trace = NULL;
	struct progress progress;
	struct flame other;
	struct error e = { 0 };
	int status = cli_open_trace(c, before, &progress, NULL, &trace), rc;

	if (status != EXIT_DONE)
		return status;
	rc = flame_init(&other, trace, &options, &e);
	progress_end(&progress);
	if (rc >= 0) {
		if (has_stacks(&other))
			rc = flame_compare(f, &other);
		if (rc >= 0 && has_stacks(&other))
			rc = append(f, path, before, page);
		flame_release(&other);
	}
	trace_free(trace);
	return rc < 0 ? cli_failf(c, "%s", *e.text ? e.text : "out of memory") : EXIT_DONE;
}

int report_flame_diff(const struct context *c, const char *path, const char *before,
		      struct strbuf *page)
{
	/* lines move when a program is changed */
	struct flame_options options = FLAME_OPTIONS_INIT;
	struct trace *trace = NULL;
	struct progress progress;
	struct flame flame;
	struct error e = { 0 };
	int status = cli_open_trace(c, path, &progress, NULL, &trace);

	if (status != EXIT_DONE)
		return status;
	options.no_lines = true;
	options.kinds = flame_kinds_recorded(trace) & KINDS;
	if (options.kinds && flame_init(&flame, trace, &options, &e) < 0)
		status = cli_fail(c, &e);
	progress_end(&progress);
	if (status == EXIT_DONE && options.kinds) {
		if (has_stacks(&flame))
			status = compare(c, &flame, options, path, before, page);
		flame_release(&flame);
	}
	trace_free(trace);
	return status;
}
