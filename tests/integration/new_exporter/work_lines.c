/* work_lines.c: GPU work as lines of text: what an exporter needs, and nothing else. */
#include <errno.h>

#include "base/output.h"
#include "export/export_merge.h"

struct lines {
	struct export_view view;
	struct export_merge merge;
	struct strbuf out;
};

static int write_work(void *exporter, const struct export_event *event)
{
	struct lines *c = exporter;
	enum table_id table = event_table(event->kind);

	strbuf_addf(&c->out, "%s,%s,%llu\n", schema_table(table)->name,
		    event_label(c->view.trace, table, event->row),
		    (unsigned long long)(event->end_ns - event->start_ns));
	return 0;
}

static export_writer *const writers[EVENT_KINDS] = {
	[EVENT_WORK... EVENT_CUDA_EVENT - 1] = write_work,
};

static int write_events(struct lines *c, struct error *e)
{
	struct export_event event;
	int r;

	while ((r = export_merge_next(&c->merge, &event)) > 0)
		if (export_event_write(&c->view, writers, c, &event) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	return export_merge_end(&c->merge, r, e);
}

int lines_write(struct trace *t, const struct export_options *options, const char *path,
		struct export_result *result, struct error *e)
{
	struct lines c = { 0 };
	struct output *output = output_open(path, options->overwrite, e);
	int r;

	*result = (struct export_result){ .files = 1 };
	if (!output)
		return e->code;
	r = export_view_init(&c.view, t, options, result, false, e);
	if (r >= 0)
		r = export_merge_init(&c.merge, &c.view, e);
	if (r >= 0)
		r = write_events(&c, e);
	output_write(output, c.out.data, c.out.length);
	if (r >= 0)
		r = output_commit(&output, &result->bytes, e);
	output_abort(&output);
	export_merge_release(&c.merge);
	export_view_release(&c.view);
	strbuf_release(&c.out);
	return r;
}
