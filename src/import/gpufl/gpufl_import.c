/*
 * gpufl_import.c: converts gpufl's logs, wire format 1 and older, to a recording (docs/gpufl.md).
 * The files of a group (a session's folder, or a prefix of the flat layout) are read one after the
 * other, twice: first the names, because a record can refer to a dictionary that comes later, in
 * another window or channel. Each session named in their lines becomes a process.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_pull.h"
#include "base/plural.h"
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
	struct import_source *source;
	struct gpufl_folder folder;
	uint64_t bytes; /* of its windows, each of which is read twice */
	struct record record;
	uint64_t read_bytes; /* of the files before the current one */
	/* Of the current group, or of one before it until this one has a session. */
	VEC(struct import_session *) sessions;
	bool between; /* no record of the current group has been read */
	struct import_session *last; /* session of the last record; NULL: none yet */
	struct import_losses losses; /* found before any session */
};

/* ---- sessions ---- */

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

/* Returns NULL if there are too many sessions, or with *error. */
static struct import_session *add_session(struct import *x, const char *id)
{
	struct import_session *s;

	if (x->between && end_sessions(x, 0) < 0)
		return NULL;
	x->between = false;
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

/* Returns the session that the record names, or that of the last record if it names none. */
static struct import_session *session_of(struct import *x)
{
	const char *id = record_text(&x->record, "session_id");

	if (!id)
		return x->last;
	for (size_t i = 0; i < x->sessions.count && !x->between; i++)
		if (!strncmp(x->sessions.data[i]->id, id, IMPORT_ID_BYTES - 1))
			return x->sessions.data[i];
	return add_session(x, id);
}

static void move_losses(struct import *x, struct import_session *s)
{
	for (size_t i = 0; i < x->losses.count; i++) {
		const struct import_loss *l = &x->losses.items[i];

		import_add_loss(s, l->reason, l->count, l->detail);
	}
	x->losses.count = 0;
}

/* Counts a loss of the current files for the session of the last record, or of the next one. */
static void add_loss(struct import *x, enum loss_reason reason, uint64_t count, const char *detail)
{
	if (x->last && count)
		import_add_loss(x->last, reason, count, detail);
	else if (count)
		import_losses_add(&x->losses, reason, count, detail);
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
	if (s && s != x->last) {
		x->last = s;
		move_losses(x, s);
	}
	if (s)
		return import_record(s, &x->record, l->length, x->error);
	if (!x->error->code)
		add_loss(x, loss_reason_unknown_record, 1,
			 "records of too many sessions, or of none");
	return x->error->code;
}

static int report_progress(struct import *x, const struct input *in)
{
	uint64_t done = x->read_bytes + in->raw_bytes;

	if (x->options->cancel && *x->options->cancel)
		return -ECANCELED;
	if (x->options->progress)
		x->options->progress(x->options->progress_user, done, MAX(x->bytes, done));
	return 0;
}

static int open_window(struct import *x, const struct gpufl_window *f, struct input *in)
{
	return input_open(in, gpufl_window_open(x->source->folder, x->source->path, f), f->path,
			  x->options->cancel, x->error);
}

/* Reads a file that consists of one object. */
static int read_marker(struct import *x, const struct gpufl_window *f)
{
	struct input in;
	_cleanup_(log_lines_release) struct log_lines l = { .in = &in };
	int rc = open_window(x, f, &in);
	const char *reason = NULL;

	if (rc >= 0 && (rc = log_lines_next(&l)) > 0 &&
	    record_read(&x->record, l.line, l.length, NULL) == 0)
		reason = record_text(&x->record, "reason");
	add_loss(x, loss_reason_missing_segment, 1, reason);
	input_close(&in);
	return MIN(rc, 0);
}

/*
 * Reads what a line that begins or ends a session or names something is needed for early. Types
 * consist of letters and '_', which only \u can escape.
 */
static int read_names(struct import *x, const struct log_lines *l)
{
	static const char *const types[] = { "\"dictionary_update\"", "\"job_start\"", "\"init\"",
					     "\"shutdown\"", "\\u" };
	struct import_session *s;
	const char *type = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(types) && !type; i++)
		type = memmem(l->line, l->length, types[i], strlen(types[i]));
	if (!type || record_read(&x->record, l->line, l->length, NULL) < 0)
		return 0;
	s = session_of(x);
	type = record_text(&x->record, "type");
	if (s && type && !strcmp(type, "dictionary_update"))
		import_names(s, &x->record);
	if (s && type && !strcmp(type, "shutdown"))
		import_end(s, &x->record);
	return s ? 0 : x->error->code;
}

/* names: reads only what is needed early. `name` is for losses. */
static int read_lines(struct import *x, struct input *in, const char *name, bool names)
{
	_cleanup_(log_lines_release) struct log_lines l = { .in = in };
	uint64_t count = 0;
	int rc;

	while ((rc = log_lines_next(&l)) > 0) {
		rc = names ? read_names(x, &l) : read_line(x, &l, name);
		if (rc >= 0 && count++ % 256 == 0)
			rc = report_progress(x, in);
		if (rc < 0)
			break;
	}
	if (rc == -ENOMEM)
		error_set(x->error, rc, "out of memory");
	if (!names)
		add_loss(x, loss_reason_damaged_file, l.too_long, "lines longer than 64 MiB");
	if (in->is_truncated && !names)
		add_loss(x, loss_reason_truncated_file, 1, name);
	x->result->files += !names;
	x->result->bytes += names ? 0 : in->raw_bytes;
	return rc;
}

static int read_file(struct import *x, const struct gpufl_window *f, bool names)
{
	struct input in;
	int rc = open_window(x, f, &in);

	if (rc >= 0)
		rc = read_lines(x, &in, f->path + f->group, names);
	input_close(&in);
	x->read_bytes += f->bytes;
	return rc;
}

static bool is_one_group(const struct gpufl_window *a, const struct gpufl_window *b)
{
	return a->group == b->group && !memcmp(a->path, b->path, a->group);
}

static int read_group(struct import *x, const struct gpufl_window *first,
		      const struct gpufl_window *end)
{
	uint64_t next = 1; /* expected window of the channel */
	int rc = 0;

	x->between = true;
	x->last = NULL;
	for (const struct gpufl_window *f = first; f < end && rc >= 0; f++)
		if (f->channel != GPUFL_LOSS_MARKER)
			rc = read_file(x, f, true);
	for (const struct gpufl_window *f = first; f < end && rc >= 0; f++) {
		if (f == first || f->channel != f[-1].channel)
			next = 1;
		rc = f->channel == GPUFL_LOSS_MARKER ? read_marker(x, f) : read_file(x, f, false);
		if (f->channel == GPUFL_LOSS_MARKER || f->number == UINT64_MAX)
			continue;
		if (f->number > next)
			add_loss(x, loss_reason_missing_segment, f->number - next,
				 "windows of a channel");
		next = f->number + 1;
	}
	return rc;
}

static int read_files(struct import *x)
{
	const struct gpufl_window *f = x->folder.windows.data, *end = f + x->folder.windows.count;
	int rc = 0;

	while (f < end && rc >= 0) {
		const struct gpufl_window *first = f++;

		while (f < end && is_one_group(f, first))
			f++;
		rc = read_group(x, first, f);
	}
	if (x->sessions.count) /* losses of files without any record */
		move_losses(x, x->sessions.data[x->sessions.count - 1]);
	return end_sessions(x, rc);
}

static int list_windows(struct import *x)
{
	const char *path = x->source->path;
	int rc = gpufl_folder_list(x->source->folder, path, DEPTH_MAX, channels, &x->folder);

	if (rc < 0)
		return error_errno(x->error, -rc, "cannot read '%s'", path);
	for (size_t i = 0; i < x->folder.windows.count; i++)
		x->bytes += 2 * x->folder.windows.data[i].bytes;
	return x->folder.windows.count
		       ? 0
		       : error_set(x->error, -ENODATA,
				   "no gpufl logs in '%s': give a folder that contains files such "
				   "as device.log or device.1.log.gz, or one folder per session",
				   path);
}

/* A file or a pipe is read once: what its names are for comes after them. */
static int read_input(struct import *x)
{
	int rc;

	x->between = true;
	rc = read_lines(x, &x->source->input, x->source->path, false);
	return end_sessions(x, rc);
}

int gpufl_run(struct import_source *source, const struct import_options *options,
	      const char *directory, struct import_result *result, struct error *e)
{
	struct error none = { 0 };
	struct import x = { .options = options,
			    .directory = directory,
			    .result = result,
			    .error = e ? e : &none,
			    .source = source };
	uint64_t sessions = result->sessions, files = result->files;
	int rc;

	if (source->folder < 0)
		rc = read_input(&x);
	else if ((rc = list_windows(&x)) >= 0)
		rc = read_files(&x);
	if (rc >= 0 && result->sessions == sessions)
		rc = error_set(x.error, -ENODATA,
			       "'%s' contains no readable gpufl record in %llu file%s",
			       source->path, (unsigned long long)(result->files - files),
			       plural(result->files - files));
	record_release(&x.record);
	vec_release(&x.sessions);
	gpufl_folder_release(&x.folder);
	return rc;
}

/* Reads from the head of an input, which it leaves as it is. */
struct head {
	const struct input *in;
	size_t at;
};

static ssize_t read_head(void *user, void *bytes, size_t size)
{
	struct head *h = user;

	size = MIN(size, h->in->head_length - h->at);
	memcpy(bytes, h->in->head + h->at, size);
	h->at += size;
	return (ssize_t)size;
}

/* A line of the logs is an object with a type and, except in the first releases, a session. */
static int sniff_line(const struct input *in)
{
	struct head head = { .in = in };
	_cleanup_(json_pull_release) struct json_pull p = { .read = read_head, .user = &head };
	int rc, score = 0;

	while ((rc = json_pull_next(&p, NULL)) == JSON_PULL_VALUE) {
		bool is_text = p.depth == 1 && p.kind == JSON_STRING;

		score += is_text && !strcmp(strbuf_text(&p.key), "type") ? 40 : 0;
		score += is_text && !strcmp(strbuf_text(&p.key), "session_id") ? 50 : 0;
		if (p.depth && json_pull_skip(&p, NULL) < 0)
			break;
	}
	return MIN(score, 90);
}

int gpufl_sniff(const struct import_source *source)
{
	struct gpufl_folder folder = { 0 };
	int score;

	if (source->folder < 0)
		return sniff_line(&source->input);
	if (gpufl_folder_list(source->folder, source->path, DEPTH_MAX, channels, &folder) < 0)
		return 0;
	score = folder.windows.count ? 90 : 0;
	gpufl_folder_release(&folder);
	return score;
}
