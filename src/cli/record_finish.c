#include "cli/record_finish.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/checks.h"
#include "cli/record_end.h"
#include "cli/symbolize.h"
#include "cli/ui.h"
#include "format/rows.h"

static void note_capabilities(struct recording *r)
{
	char reason[512];

	if (!r->asked->cpu_only || r->preload)
		rows_capability(r->writer, "injection", capability_state_on, NULL, r->library,
				r->asked->cpu_only ? "--cpu-only" : NULL);
	else
		rows_capability(r->writer, "injection", capability_state_off, NULL, NULL,
				"--cpu-only");
	if (watch_can_follow(r->watch))
		rows_capability(r->writer, "processes", capability_state_on, NULL, NULL, NULL);
	else
		rows_capability(r->writer, "processes", capability_state_degraded, NULL,
				"the command only",
				checks_foreign_proc() ? "/proc is of another pid namespace"
				: access("/proc/self/stat", R_OK) < 0
					? "there is no /proc"
					: "the kernel does not tell who is whose child "
					  "(CONFIG_PROC_CHILDREN)");
	if (checks_no_gpu_reason(reason, sizeof(reason)))
		rows_capability(r->writer, "gpu", capability_state_unavailable, NULL, NULL, reason);
}

/*
 * A folder that takes nothing any more may have kept a process of the command from beginning to write. Nobody knows what
 * is missing then; the row about it goes where the reserve of a segment is.
 */
static void finish_json(struct recording *r)
{
	struct row_loss row = { .start_ns = r->spawn.start_ns, .end_ns = r->spawn.end_ns };
	struct error e = { 0 };
	int err;

	r->identity.end_monotonic_ns = r->spawn.end_ns;
	r->identity.exit_status = r->spawn.status;
	err = record_json_write(r->directory, &r->identity, &e);
	if (err == 0)
		return;
	cli_warn(r->context, "%s", e.text);
	row.reason =
		err == -ENOSPC || err == -EDQUOT ? loss_reason_disk_full : loss_reason_write_error;
	ROW_MISSING(&row, loss, detail);
	writer_append(r->writer, TABLE_loss, &row);
}

static void close_recording(struct recording *r)
{
	const struct context *c = r->context;
	struct writer_stats stats;
	struct error e = { 0 };
	int err;

	if (record_cpu_stop(&r->cpu, r->writer, &e) < 0)
		cli_warn(c, "CPU samples are incomplete: %s", e.text);
	e = (struct error){ 0 };
	note_capabilities(r);
	record_threads_write(&r->threads, r->directory, r->writer);
	finish_json(r);
	writer_flush(r->writer);
	writer_stats(r->writer, &stats);
	err = writer_close(&r->writer);
	if (err < 0 || stats.error)
		cli_warn(c, "the list of processes is incomplete: cannot write to '%s': %s",
			 r->shown, strerror(stats.error ? stats.error : -err));
	if (watch_running(r->watch))
		cli_note(c, "%zu %s of the command still %s; they go on recording by themselves",
			 watch_running(r->watch),
			 watch_running(r->watch) == 1 ? "process" : "processes",
			 watch_running(r->watch) == 1 ? "runs" : "run");
}

/* So that the stacks can be read on another machine. What fails can be tried again. */
static void name_stacks(struct recording *r)
{
	const struct symbolizer_options how = { .kept = &r->cpu.kept };
	struct symbolize_result result = { .addresses = 0 };
	struct error e = { 0 };

	if (!r->asked->symbols || (r->asked->stacks == RECORD_STACKS_NONE && !r->cpu.hz))
		return;
	if (symbolize_recording(r->directory, &how, &result, &e) < 0)
		cli_warn(r->context, "call stacks have no names: %s; try `pitot symbolize %s`",
			 e.text, r->shown);
	else
		symbolize_release(&result);
}

static void report_end(struct recording *r)
{
	const struct context *c = r->context;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct record_end end = { .elapsed_ns = r->spawn.end_ns - r->spawn.start_ns };
	struct error e = { 0 };
	const char *why;

	if (c->quiet && !c->json)
		return;
	if (record_end_read(r->directory, &end, &e) < 0) {
		cli_warn(c, "%s", e.text);
		return;
	}
	why = end.no_gpu[0] ? end.no_gpu : NULL;
	if (c->json) {
		record_end_json(&end, r->shown, why, r->spawn.status, &out);
	} else {
		if (r->asked->pid_given)
			strbuf_addf(&out, "pitot record: process %" PRIu64 " was sampled\n",
				    r->asked->pid);
		else
			strbuf_addf(&out, "pitot record: the command ended with status %d\n",
				    r->spawn.status);
		record_end_text(&end, r->shown, why, c->color_errors, &out);
	}
	if (!out.failed)
		io_write_all(STDERR_FILENO, out.data, out.length);
}

void record_finish(struct recording *r)
{
	close_recording(r);
	spawn_release(&r->spawn);
	name_stacks(r);
	report_end(r);
}
