#include "cli/report_flame.h"

#include <errno.h>

#include "cli/flame_print.h"
#include "export/flame/flame_html.h"

#define BOXES_MAX 4000 /* a page for others stays small */

/* Whether the flame graph is about the same part of the recording as the report. */
static bool has_same_filter(const struct filter *f)
{
	return f->pid < 0 && f->device < 0 && f->stream < 0 && !f->kernel;
}

/* Appends the page, unless the graph is empty or would show no stack. */
static int append(struct flame *f, const char *path, struct strbuf *page)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	const struct flame_write write = { .title = "flame graph", .recording = path, .notes = "" };
	bool samples = f->sections[FLAME_CPU].count > f->sections[FLAME_CPU].stackless;

	if (flame_finish(f, false) < 0)
		return -ENOMEM;
	if ((!f->calls_with_stack && !samples) || flame_print_empty(f, true, &why))
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
	options.kinds = flame_kinds_recorded(r->trace) &
			(1 << FLAME_GPU | 1 << FLAME_WAIT | 1 << FLAME_CPU | 1 << FLAME_OFF_CPU);
	options.since_ns = filter->since_ns;
	options.until_ns = filter->until_ns;
	options.scope = filter->scope;
	options.captures = r->options.captures;
	if (!options.kinds)
		return 0;
	rc = flame_init(&flame, r->trace, &options, e);
	if (rc < 0)
		return rc;
	rc = append(&flame, path, page);
	flame_release(&flame);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}
