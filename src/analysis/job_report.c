#include "analysis/job_report.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/machine_links.h"
#include "analysis/rank_path.h"
#include "analysis/rank_times.h"
#include "analysis/rank_waits.h"
#include "base/map.h"

struct job {
	const char *path;
	struct report_options options;
	struct error *error;
	struct interner processes; /* for trace_options.process; one may be several processes */
	struct report open;
	bool is_damaged;
};

/* What was found to be damaged while the process was read. */
static void find_damage(struct job *j, struct trace *t)
{
	const struct trace_loss *losses;
	size_t count;

	if (j->is_damaged || trace_losses(t, &losses, &count, NULL) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		j->is_damaged |= losses[i].reason == loss_reason_damaged_file ||
				 losses[i].reason == loss_reason_missing_segment;
}

/* Lists the processes by the headers of their segments, and reads what connects their GPUs. */
static int list_processes(struct job *j, struct machine_links *links)
{
	struct trace_options options = { .symbols = NULL };
	struct trace *t;
	int rc = trace_open(j->path, &options, &t, j->error);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < trace_process_count(t) && rc >= 0; i++) {
		_cleanup_strbuf_ struct strbuf files = STRBUF_INIT;

		if (trace_process(t, i)->subject != i || !trace_process_files(t, i, &files))
			continue;
		if (files.failed ||
		    interner_add(&j->processes, strbuf_text(&files), files.length, NULL) < 0)
			rc = -ENOMEM;
	}
	find_damage(j, t);
	if (rc >= 0)
		rc = machine_links_load(t, links, j->error);
	trace_free(t);
	return rc;
}

static int open_process(void *user, size_t item, struct report **out)
{
	struct job *j = user;
	struct trace_options options = { .process = j->processes.items[item].text };
	struct trace *t;
	int rc = trace_open(j->path, &options, &t, j->error);

	if (rc < 0)
		return rc;
	rc = report_init(&j->open, t, &j->options, j->error);
	if (rc < 0)
		trace_free(t);
	*out = &j->open;
	return rc;
}

static void close_process(void *user, struct report *r)
{
	struct trace *t = r->trace;

	find_damage(user, t);
	report_release(r);
	trace_free(t);
}

int job_report_init(struct report *out, const char *path, const struct report_options *options,
		    bool *is_damaged, struct error *e)
{
	struct job j = { .path = path, .options = *options, .error = e };
	struct job_source source = { .user = &j, .open = open_process, .close = close_process };
	int rc;

	interner_init(&j.processes);
	*out = (struct report){ .options = *options };
	out->machine_links = calloc(1, sizeof(*out->machine_links));
	rc = out->machine_links ? list_processes(&j, out->machine_links) : -ENOMEM;
	j.options.ranks = true;
	j.options.critical_path = false;
	source.count = j.processes.count;
	out->collectives = calloc(1, sizeof(*out->collectives));
	out->rank_times = calloc(1, sizeof(*out->rank_times));
	out->rank_path = calloc(1, sizeof(*out->rank_path));
	out->rank_waits = calloc(1, sizeof(*out->rank_waits));
	if (rc >= 0 &&
	    (!out->collectives || !out->rank_times || !out->rank_path || !out->rank_waits))
		rc = -ENOMEM;
	if (rc >= 0)
		rc = collectives_find(&source, out->collectives);
	j.options.steady = true;
	if (rc >= 0)
		rc = rank_times_find(&source, out->collectives, out->rank_times);
	j.options.critical_path = options->critical_path;
	if (rc >= 0 && options->critical_path)
		rc = rank_path_find(&source, out->collectives, out->rank_times, out->rank_path);
	if (rc >= 0 && options->collectives)
		rc = rank_waits_find(out->collectives, out->rank_times, out->rank_waits);
	interner_release(&j.processes);
	*is_damaged = j.is_damaged;
	if (rc == -ENOMEM)
		error_set(e, rc, "out of memory");
	if (rc < 0)
		report_release(out);
	return rc < 0 ? rc : 0;
}
