#include "cli/report_flame.h"

#include <errno.h>

#include "analysis/capabilities.h"
#include "cli/flame_print.h"
#include "export/flame/flame_html.h"

#define BOXES_MAX 4000 /* a page inside of another stays small */
#define PAGE_BOXES_MAX 40000
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
static int append(struct flame *f, const char *path, const char *before, size_t boxes,
		  struct strbuf *page)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	const struct flame_write write = {
		.title = "flame graph", .recording = path, .before = before, .notes = ""
	};

	if (flame_finish(f, false) < 0)
		return -ENOMEM;
	if (!has_stacks(f) || flame_print_empty(f, true, &why))
		return 0;
	return flame_html_append(f, &write, boxes, page);
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
	rc = append(&flame, path, NULL, BOXES_MAX, page);
	flame_release(&flame);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

int flame_page(struct trace *t, const char *path, struct strbuf *page, struct error *e)
{
	struct flame_options options = FLAME_OPTIONS_INIT;
	struct flame flame;
	bool cpu_only;
	int rc = capability_cpu_only(t, &cpu_only, e); /* loads what is said of an empty graph */

	options.kinds = flame_kinds_recorded(t) & KINDS;
	if (rc < 0 || !options.kinds)
		return rc;
	rc = flame_init(&flame, t, &options, e);
	if (rc < 0)
		return rc;
	rc = append(&flame, path, NULL, PAGE_BOXES_MAX, page);
	flame_release(&flame);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

/* Compares f, which is of `path`, with another recording. */
static int compare(struct flame *f, const struct flame_options *options, const char *path,
		   struct trace *before, const char *before_path, struct strbuf *page,
		   struct error *e)
{
	struct flame other;
	int rc = flame_init(&other, before, options, e);

	if (rc < 0)
		return rc;
	if (has_stacks(&other)) {
		rc = flame_compare(f, &other);
		if (rc >= 0)
			rc = append(f, path, before_path, BOXES_MAX, page);
	}
	flame_release(&other);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

int report_flame_diff(struct trace *t, const char *path, struct trace *before,
		      const char *before_path, struct strbuf *page, struct error *e)
{
	/* lines move when a program is changed */
	struct flame_options options = FLAME_OPTIONS_INIT;
	struct flame flame;
	int rc;

	options.no_lines = true;
	options.kinds = flame_kinds_recorded(t) & KINDS;
	if (!options.kinds)
		return 0;
	rc = flame_init(&flame, t, &options, e);
	if (rc < 0)
		return rc;
	if (has_stacks(&flame))
		rc = compare(&flame, &options, path, before, before_path, page, e);
	flame_release(&flame);
	return rc;
}
