/*
 * gpufl_import.c: converts gpufl's logs, wire format 1 and older, to a recording (docs/gpufl.md).
 * The files of a group (a session's folder, or a prefix of the flat layout) are read one after the
 * other. Each session named in their lines becomes a process.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "gpufl/gpufl_folder.h"
#include "import/gpufl/import_input.h"
#include "import/gpufl/import_session.h"

#define DEPTH_MAX 3u /* nesting of folders */
#define SESSIONS_MAX 64u /* of a group */

/* Scopes come first, because kernels refer to them. */
static const char *const channels[GPUFL_LOG_CHANNELS] = { "scope", "device", "kernel", "system",
							  "sass" };

struct import {
	const struct import_options *options;
	const char *directory;
	struct import_result *result;
	struct error *error;
	int logs; /* folder with the path, of the logs */
	const char *path;
	struct gpufl_folder folder;
	uint64_t bytes; /* of its windows */
	struct record record;
	uint64_t read_bytes; /* of the files before the current one */
	VEC(struct import_session *) sessions; /* of the current group */
};

/* ---- sessions ---- */

/* Returns NULL if there are too many sessions, or with *error. */
static struct import_session *add_session(struct import *x, const char *id)
{
	struct import_session *s;

	if (x->sessions.count >= SESSIONS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s || vec_push(&x->sessions, s) < 0) {
		free(s);
		error_set(x->error, -ENOMEM, "out of memory");
		return NULL;
	}
	if (import_session_init(s, id, x->directory,
				(uint32_t)record_number(&x->record, "pid", UINT32_MAX), x->result,
				x->error) == 0)
		return s;
	error_prefix(x->error, "session '%s'", id);
	return NULL;
}

/* Returns the session that the record names, or the last one if it names none. */
static struct import_session *session_of(struct import *x)
{
	const char *id = record_text(&x->record, "session_id");
	size_t count = x->sessions.count;

	if (!id && count)
		return x->sessions.data[count - 1];
	for (size_t i = 0; i < count; i++)
		if (!strncmp(x->sessions.data[i]->id, id, IMPORT_ID_BYTES - 1))
			return x->sessions.data[i];
	return id ? add_session(x, id) : NULL;
}

static int end_sessions(struct import *x, int rc)
{
	for (size_t i = 0; i < x->sessions.count; i++) {
		if (rc >= 0)
			rc = import_session_end(x->sessions.data[i], x->error);
		import_session_release(x->sessions.data[i]);
		free(x->sessions.data[i]);
	}
	x->sessions.count = 0;
	return rc;
}

/* Counts a loss of the current files for their last session. */
static void add_loss(struct import *x, enum loss_reason reason, uint64_t count, const char *detail)
{
	if (x->sessions.count && count)
		import_add_loss(x->sessions.data[x->sessions.count - 1], reason, count, detail);
	else if (reason == loss_reason_damaged_file)
		x->result->damaged += count;
}

/* ---- files ---- */

static int read_line(struct import *x, const struct log_lines *l, const char *name)
{
	struct error e = { 0 };
	struct import_session *s;
	char detail[128];

	if (!l->length)
		return 0;
	if (record_read(&x->record, l->line, l->length, &e) < 0) {
		/* The last line of a log may be incomplete. */
		snprintf(detail, sizeof(detail), "lines of %s", name);
		add_loss(x, l->ended ? loss_reason_damaged_file : loss_reason_truncated_file, 1,
			 detail);
		return e.code == -ENOMEM ? error_set(x->error, e.code, "%s", e.text) : 0;
	}
	s = session_of(x);
	if (s)
		return import_record(s, &x->record, l->length, x->error);
	if (!x->error->code)
		add_loss(x, loss_reason_unknown_record, 1,
			 "records of too many sessions, or of none");
	return x->error->code;
}

static int report_progress(struct import *x, const struct log_lines *l)
{
	if (x->options->cancel && *x->options->cancel)
		return -ECANCELED;
	if (x->options->progress)
		x->options->progress(x->options->progress_user,
				     x->read_bytes + (uint64_t)MAX(gzoffset(l->file), 0), x->bytes);
	return 0;
}

/* Reads a file that consists of one object. */
static int read_marker(struct import *x, const struct gpufl_window *f)
{
	struct log_lines l;
	int rc = log_lines_open(&l, gpufl_window_open(x->logs, x->path, f), f->path, x->error);
	const char *reason = NULL;

	if (rc >= 0 && (rc = log_lines_next(&l)) > 0 &&
	    record_read(&x->record, l.line, l.length, NULL) == 0)
		reason = record_text(&x->record, "reason");
	add_loss(x, loss_reason_missing_segment, 1, reason);
	log_lines_close(&l);
	return MIN(rc, 0);
}

static int read_file(struct import *x, const struct gpufl_window *f)
{
	const char *name = f->path + f->group;
	struct log_lines l;
	uint64_t count = 0;
	int rc = log_lines_open(&l, gpufl_window_open(x->logs, x->path, f), f->path, x->error);

	while (rc >= 0 && (rc = log_lines_next(&l)) > 0) {
		rc = read_line(x, &l, name);
		if (rc >= 0 && count++ % 256 == 0)
			rc = report_progress(x, &l);
	}
	if (rc == -ENOMEM)
		error_set(x->error, rc, "out of memory");
	add_loss(x, loss_reason_damaged_file, l.too_long, "lines longer than 64 MiB");
	if (l.truncated)
		add_loss(x, loss_reason_truncated_file, 1, name);
	log_lines_close(&l);
	x->read_bytes += f->bytes;
	x->result->files++;
	x->result->bytes += f->bytes;
	return rc;
}

static bool is_one_group(const struct gpufl_window *a, const struct gpufl_window *b)
{
	return a->group == b->group && !memcmp(a->path, b->path, a->group);
}

static int read_files(struct import *x)
{
	const struct gpufl_window *f = x->folder.windows.data, *end = f + x->folder.windows.count;
	uint64_t next = 1; /* expected window of the channel */
	int rc = 0;

	for (; f < end && rc >= 0; f++) {
		bool starts = f == x->folder.windows.data || !is_one_group(f, f - 1);

		if (starts)
			rc = end_sessions(x, rc);
		if (starts || f->channel != f[-1].channel)
			next = 1;
		if (rc >= 0)
			rc = f->channel == GPUFL_LOSS_MARKER ? read_marker(x, f) : read_file(x, f);
		if (f->channel == GPUFL_LOSS_MARKER || f->number == UINT64_MAX)
			continue;
		if (f->number > next)
			add_loss(x, loss_reason_missing_segment, f->number - next,
				 "windows of a channel");
		next = f->number + 1;
	}
	return end_sessions(x, rc);
}

int gpufl_read(const char *path, const struct import_options *options, const char *directory,
	       struct import_result *result, struct error *e)
{
	struct error none = { 0 };
	struct import x = { .options = options,
			    .directory = directory,
			    .result = result,
			    .error = e ? e : &none,
			    .logs = folder_open(path, FOLDER_ANY),
			    .path = path };
	int rc = gpufl_folder_list(x.logs, path, DEPTH_MAX, channels, &x.folder);

	*result = (struct import_result){ 0 };
	if (rc < 0)
		error_errno(x.error, -rc, "cannot read '%s'", path);
	for (size_t i = 0; i < x.folder.windows.count; i++)
		x.bytes += x.folder.windows.data[i].bytes;
	if (rc >= 0 && !x.folder.windows.count)
		rc = error_set(x.error, -ENODATA,
			       "no gpufl logs in '%s': give a folder that contains files such as "
			       "device.log or device.1.log.gz, or one folder per session",
			       path);
	if (rc >= 0)
		rc = read_files(&x);
	if (rc >= 0 && !result->sessions)
		rc = error_set(x.error, -ENODATA,
			       "'%s' contains no readable gpufl record in %llu files", path,
			       (unsigned long long)result->files);
	record_release(&x.record);
	vec_release(&x.sessions);
	gpufl_folder_release(&x.folder);
	if (x.logs >= 0)
		close(x.logs);
	return rc;
}
