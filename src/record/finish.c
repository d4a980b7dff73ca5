/* finish.c: completes a recording: losses, recording.json, names of stacks, gpufl's logs. */
#include "record/recording.h"

#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "record/symbolize.h"
#include "recover/recover.h"
#include "format/loss_tally.h"
#include "base/folder.h"
#include "format/rows.h"
#include "gpufl/gpufl_folder.h"

void record_write_loss(struct recording *r, int err)
{
	struct row_loss row = { .start_ns = r->spawn.start_ns, .end_ns = r->spawn.end_ns };

	row.reason = loss_of_error(err);
	ROW_MISSING(&row, loss, detail);
	writer_append(r->writer, TABLE_loss, &row);
}

static void emit_recovered(const struct recording *r, const struct recovered *found)
{
	uint64_t rows = found->rows + found->calls + found->ranges + found->records;

	record_emit(r, RECORD_DETAIL,
		    "process %u ended without closing its recording; its memory had %llu more %s",
		    found->pid, (unsigned long long)rows, plural_of(rows, "row", "rows"));
}

void record_recover(struct recording *r, bool last)
{
	int memory;

	while ((memory = segment_server_take_memory(&r->segments, last)) >= 0) {
		struct error e = { 0 };
		struct recovered found;
		int rc = recover_area(memory, r->directory, &r->identity.folder, &found, &e);

		close(memory);
		if (rc < 0)
			record_emit(r, RECORD_WARNING,
				    "the last moments of a process are missing: %s", e.text);
		else if (rc)
			emit_recovered(r, &found);
	}
}

/* Says which processes have no segment, and writes it into `pitot record`'s own. */
static void finish_segments(struct recording *r)
{
	struct segment_server *s = &r->segments;
	size_t stored;

	do
		segment_server_answer(s);
	while (record_serve_ring(r));
	gpu_cores_read(r, true);
	triggers_finish(r);
	if (!recorded_steps_finish(r)) {
		record_finish_ring(r);
		record_recover(r, true);
	}
	stored = MIN(s->refused_count, ARRAY_SIZE(s->refused));
	for (size_t i = 0; i < stored; i++) {
		const struct segment_refusal *p = &s->refused[i];
		char text[200];

		snprintf(text, sizeof(text), "process %d of user %u could not begin a segment: %s",
			 (int)p->pid, (unsigned)p->uid, error_code_text(p->error));
		rows_loss(r->writer, loss_reason_refused_segment,
			  i + 1 < stored ? 1 : s->refused_count - i, r->spawn.start_ns,
			  r->spawn.end_ns, text);
		record_emit(r, RECORD_WARNING, "%s: its data is missing", text);
	}
	if (s->refused_count > stored)
		record_emit(r, RECORD_WARNING, "%zu more %s could not begin a segment",
			    s->refused_count - stored,
			    plural_of(s->refused_count - stored, "process", "processes"));
	segment_server_close(s);
	r->spawn.watched = 0;
}

static int finish_json(struct recording *r)
{
	struct error e = { 0 };
	int err;

	r->identity.end_monotonic_ns = r->spawn.end_ns;
	r->identity.exit_status = r->spawn.status;
	err = recording_json_write(r->directory, &r->identity, &e);
	if (err < 0)
		record_emit(r, RECORD_WARNING, "%s", e.text);
	return err;
}

/* Notes that processes, such as daemons, are still running after the command has ended. */
static void emit_running(const struct recording *r)
{
	size_t count = process_tree_running(r->tree);
	const char *fate = !r->request->cpu_only ? "GPU work is still recorded"
			   : r->preload          ? "sampled only where a timer is inside"
						 : "no longer sampled";

	if (count && !r->request->pid_count)
		record_emit(r, RECORD_NOTE, "%zu %s of the command %s still running: %s", count,
			    plural_of(count, "process", "processes"), plural_of(count, "is", "are"),
			    fate);
}

static void close_recording(struct recording *r)
{
	struct writer_stats stats;
	struct error e = { 0 };
	_cleanup_strbuf_ struct strbuf no_allocator = STRBUF_INIT;
	int sampling = cpu_sampling_stop(&r->cpu, r->writer, &no_allocator, &e), json, err;

	finish_segments(r);
	if (no_allocator.length)
		record_emit(r, RECORD_WARNING, "an allocator of PyTorch is not recorded: %s",
			    strbuf_text(&no_allocator));
	if (sampling < 0)
		record_emit(r, RECORD_WARNING, "CPU samples are incomplete: %s", e.text);
	record_write_clock(r->writer);
	json = finish_json(r);
	if (sampling < 0 || json < 0)
		record_write_loss(r, sampling < 0 ? sampling : json);
	writer_flush(r->writer);
	writer_stats(r->writer, &stats);
	err = writer_close(&r->writer);
	if (err < 0 || stats.error)
		record_emit(r, RECORD_WARNING,
			    "the list of processes is incomplete: cannot write to '%s': %s",
			    r->shown, strerror(stats.error ? stats.error : -err));
	emit_running(r);
}

/*
 * Resolves the stacks, so that they can be read on another machine. If this fails, `pitot
 * symbolize` can repeat it.
 */
static void symbolize_stacks(struct recording *r)
{
	const struct symbolizer_options how = { .file_copies = &r->cpu.kept };
	struct symbolize_result result = { .addresses = 0 };
	struct error e = { 0 };

	if (!r->request->symbols ||
	    (r->request->settings.stacks == SETTING_STACKS_NONE && !r->cpu.hz))
		return;
	if (symbolize_recording(r->directory, &r->identity.folder, &how, &result, &e) < 0)
		record_emit(r, RECORD_WARNING,
			    "call stacks have no names: %s; try: pitot symbolize %s", e.text,
			    r->shown);
	else
		symbolize_release(&result);
}

/* Warns of logs whose writing has ended early, since the start of the command. */
static void warn_of_lost_logs(const struct recording *r)
{
	_cleanup_close_ int logs = folder_open(r->log_path, FOLDER_ANY);
	struct gpufl_folder folder;
	const char *marker = NULL;

	(void)!gpufl_folder_list(logs, r->log_path, 1, gpufl_channel_names, &folder);
	for (size_t i = 0; i < folder.windows.count; i++)
		if (folder.windows.data[i].channel == GPUFL_LOSS_MARKER &&
		    folder.windows.data[i].modified_ns >= r->identity.start_realtime_ns)
			marker = folder.windows.data[i].path;
	if (marker)
		record_emit(r, RECORD_WARNING, "gpufl's logs are incomplete; '%s' says why",
			    marker);
	gpufl_folder_release(&folder);
}

/* Publishes the windows of gpufl's logs that killed processes have left. */
static void finish_log(const struct recording *r)
{
	unsigned dead = r->log_path ? gpufl_files_salvage(r->log_path) : 0;

	if (!r->log_path)
		return;
	record_emit(r, RECORD_DETAIL, "gpufl's logs are in '%s'", r->log_path);
	warn_of_lost_logs(r);
	if (dead)
		record_emit(
			r, RECORD_NOTE,
			"gpufl's logs of %u %s that did not end in order are complete up to the "
			"last quarter of a second",
			dead, plural_of(dead, "process", "processes"));
}

void record_finish(struct recording *r)
{
	record_detach(r);
	if (r->writer)
		close_recording(r);
	spawn_release(&r->spawn);
	finish_log(r);
	if (r->directory)
		symbolize_stacks(r);
	triggers_end(r);
}
