#include "read/read_report.h"

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "report/section.h"

/* Each program that a process executes is a separate session. */
static bool is_first_of_pid(const struct trace *t, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (trace_process(t, i)->pid == trace_process(t, index)->pid)
			return false;
	return true;
}

int report_check_filter(const struct report *r, struct error *e)
{
	const struct filter *f = &r->options.filter;
	_cleanup_strbuf_ struct strbuf known = STRBUF_INIT;

	for (size_t i = 0; f->pid >= 0 && i < trace_process_count(r->trace); i++) {
		const struct trace_process *p = trace_process(r->trace, i);

		if (p->pid == f->pid)
			break;
		if (p->subject == i && is_first_of_pid(r->trace, i))
			strbuf_addf(&known, "%s%u", known.length ? ", " : "", p->pid);
		if (i + 1 == trace_process_count(r->trace))
			return error_set(e, E_USAGE,
					 "no process %lld in this recording; its processes: %s",
					 (long long)f->pid, strbuf_text(&known));
	}
	strbuf_clear(&known);
	for (size_t i = 0; f->device >= 0 && i < r->gpus.count; i++) {
		if (r->gpus.items[i].ordinal == f->device)
			return 0;
		strbuf_addf(&known, "%s%u", known.length ? ", " : "", r->gpus.items[i].ordinal);
	}
	if (f->device >= 0 && r->gpus.count)
		return error_set(e, E_USAGE,
				 "no GPU with CUDA ordinal %lld in this recording; its GPUs: %s",
				 (long long)f->device, strbuf_text(&known));
	return 0;
}

static int find_by(const char *name, enum hotspot_by *by, struct error *e)
{
	for (int i = 0; hotspot_by_names[i]; i++)
		if (!strcmp(hotspot_by_names[i], name)) {
			*by = hotspot_by_choice(i);
			return 0;
		}
	error_set(e, E_USAGE, "kernels cannot be grouped by '%s'", name);
	return error_suggest(e, name, hotspot_by_names, NULL);
}

#define CALLERS_SHOWN 2 /* as in `pitot report` without --callers */

static int print(const struct report *r, const char *path, char **json, struct error *e)
{
	struct strbuf out = STRBUF_INIT;
	struct report_view view = {
		.report = r, .path = path, .callers = CALLERS_SHOWN, .top = UINT64_MAX, .out = &out
	};

	report_print_json(&view);
	if (out.failed) {
		strbuf_release(&out);
		return error_set(e, -ENOMEM, "out of memory");
	}
	*json = out.data;
	return 0;
}

int read_report(struct trace *t, const char *path, const struct pitot_read_report *o, char **json,
		struct error *e)
{
	struct report_options options = { .callers_of = UINT64_MAX,
					  .scope_tree = o->scopes,
					  .stalls = o->stalls,
					  .filter = { .since_ns = o->since_ns,
						      .until_ns = o->until_ns,
						      .pid = o->pid,
						      .device = o->device,
						      .stream = o->stream,
						      .kernel = o->kernel,
						      .scope = o->scope } };
	struct report report;
	int result = o->by ? find_by(o->by, &options.by, e) : 0;

	if (result >= 0)
		result = report_init(&report, t, &options, e);
	if (result < 0)
		return result;
	result = report_check_filter(&report, e);
	if (result >= 0)
		result = print(&report, path, json, e);
	report_release(&report);
	return result;
}
