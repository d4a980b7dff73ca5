/* finish.c: the end of a recording: what was recorded and what not, and the names of its stacks. */
#include "record/recording.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "record/checks.h"
#include "record/symbolize.h"
#include "format/rows.h"

static void note_capabilities(struct recording *r)
{
	char reason[512];

	if (!r->request->cpu_only || r->preload)
		rows_capability(r->writer, "injection", capability_state_on, NULL, r->library,
				r->request->cpu_only ? "--cpu-only" : NULL);
	else
		rows_capability(r->writer, "injection", capability_state_off, NULL, NULL,
				"--cpu-only");
	if (process_tree_is_complete(r->tree))
		rows_capability(r->writer, "processes", capability_state_on, NULL, NULL, NULL);
	else
		rows_capability(r->writer, "processes", capability_state_degraded, NULL,
				"the command only",
				checks_foreign_proc() ? "/proc is of another pid namespace"
				: access("/proc/self/stat", R_OK) < 0
					? "there is no /proc"
					: "the OS kernel does not list child processes "
					  "(CONFIG_PROC_CHILDREN)");
	if (r->request->cpu_only)
		rows_capability(r->writer, "gpu", capability_state_off, NULL, NULL, "--cpu-only");
	else if (checks_no_gpu_reason(reason, sizeof(reason)))
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
	err = recording_json_write(r->directory, &r->identity, &e);
	if (err == 0)
		return;
	record_say(r, RECORD_WARNING, "%s", e.text);
	row.reason =
		err == -ENOSPC || err == -EDQUOT ? loss_reason_disk_full : loss_reason_write_error;
	ROW_MISSING(&row, loss, detail);
	writer_append(r->writer, TABLE_loss, &row);
}

/* Daemons, and workers that nobody waited for. */
static void note_running(const struct recording *r)
{
	size_t count = process_tree_running(r->tree);
	const char *fate = !r->request->cpu_only ? "GPU work is still recorded"
			   : r->preload          ? "sampled only where a timer is inside"
						 : "no longer sampled";

	if (count)
		record_say(r, RECORD_NOTE, "%zu %s of the command %s still running: %s", count,
			   count == 1 ? "process" : "processes", count == 1 ? "is" : "are", fate);
}

static void close_recording(struct recording *r)
{
	struct writer_stats stats;
	struct error e = { 0 };
	int err;

	if (cpu_sampling_stop(&r->cpu, r->writer, &e) < 0)
		record_say(r, RECORD_WARNING, "CPU samples are incomplete: %s", e.text);
	e = (struct error){ 0 };
	note_capabilities(r);
	thread_names_write(&r->threads, r->directory, r->writer);
	finish_json(r);
	writer_flush(r->writer);
	writer_stats(r->writer, &stats);
	err = writer_close(&r->writer);
	if (err < 0 || stats.error)
		record_say(r, RECORD_WARNING,
			   "the list of processes is incomplete: cannot write to '%s': %s",
			   r->shown, strerror(stats.error ? stats.error : -err));
	note_running(r);
}

/* So that the stacks can be read on another machine. What fails can be tried again. */
static void name_stacks(struct recording *r)
{
	const struct symbolizer_options how = { .kept = &r->cpu.kept };
	struct symbolize_result result = { .addresses = 0 };
	struct error e = { 0 };

	if (!r->request->symbols || (r->request->stacks == RECORD_STACKS_NONE && !r->cpu.hz))
		return;
	if (symbolize_recording(r->directory, &how, &result, &e) < 0)
		record_say(r, RECORD_WARNING,
			   "call stacks have no names: %s; try: pitot symbolize %s", e.text,
			   r->shown);
	else
		symbolize_release(&result);
}

void record_finish(struct recording *r)
{
	close_recording(r);
	spawn_release(&r->spawn);
	name_stacks(r);
}
