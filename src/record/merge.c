#include "record/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/path.h"
#include "base/starts_with.h"
#include "format/reader.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "record/segment_ring.h"
#include "report/section.h"
#include "trace/trace.h"

#define INNER_FOLDERS 2u

struct merge {
	const struct merge_request *request;
	struct merge_result *result;
	int folder; /* of the new recording */
	int inner[INNER_FOLDERS]; /* in it; -1: not created yet */
	uid_t owner; /* of `folder` */
	struct map sessions; /* to the recording in which they are */
};

/* The recording whose files are being added. */
struct source {
	const char *path;
	size_t number;
	int folder;
	bool grows; /* or its recorder was killed */
	uint64_t readable; /* segments */
};

static int failed(const struct source *s, const char *name, int err, struct error *e)
{
	return error_set(e, err, "cannot merge '%s/%s': %s", s->path, name, error_code_text(err));
}

/*
 * Links a file, or copies it. A reader only trusts a file with several links if it belongs to the
 * owner of the folder, and a recorder only adds to one without. The name must still be that of the
 * open file.
 */
static int link_or_copy(struct merge *m, const struct source *s, int from, int file,
			const char *name, int to, const char *to_name, struct error *e)
{
	struct stat st, linked;
	int err = fstat(file, &st) < 0 ? -errno : 0;

	if (err == 0 && !s->grows && st.st_uid == m->owner &&
	    linkat(from, name, to, to_name, 0) == 0) {
		err = folder_stat(to, to_name, &linked);
		if (err == 0 && (linked.st_dev != st.st_dev || linked.st_ino != st.st_ino))
			err = E_FOREIGN;
		m->result->linked++;
	} else if (err == 0) {
		err = segment_copy(file, to, to_name, UINT64_MAX);
	}
	m->result->bytes += (uint64_t)st.st_size;
	return err < 0 ? failed(s, name, err, e) : 0;
}

/* A process in two recordings would have all its rows, or parts of them, twice. */
static int check_session(struct merge *m, struct source *s, int file, struct error *e)
{
	struct segment segment;
	char path[40];
	uint64_t *owner;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (segment_open(path, &segment, NULL) < 0) {
		m->result->unreadable++;
		return 0;
	}
	s->readable++;
	owner = map_at(&m->sessions, segment.header.session, s->number);
	if (!owner)
		rc = error_set(e, -ENOMEM, "out of memory");
	else if (*owner != s->number)
		rc = error_set(e, E_USAGE,
			       "process %u is in both '%s' and '%s'; name only one of them",
			       segment.header.pid, m->request->recordings[*owner], s->path);
	segment_release(&segment);
	return rc;
}

/*
 * The prefixes are those by which a reader finds the segments of `pitot record`, of symbols, and of
 * one process with its CPU sampler.
 */
static int new_name(const struct source *s, const char *name, char out[NAME_MAX + 1])
{
	static const struct {
		const char *prefix, *between;
	} kinds[] = { { "record.", "." }, { "symbols.", "." }, { "cpu-", "-" }, { "", "-" } };
	size_t k = 0, length;

	while (!starts_with(name, kinds[k].prefix))
		k++;
	length = strlen(kinds[k].prefix);
	return snprintf(out, NAME_MAX + 1, "%s%zu%s%s", kinds[k].prefix, s->number,
			kinds[k].between, name + length) > NAME_MAX
		       ? -ENAMETOOLONG
		       : 0;
}

static int add_segment(struct merge *m, struct source *s, const char *name, struct error *e)
{
	_cleanup_close_ int file = folder_open_file(s->folder, name, O_RDONLY, FOLDER_ANY);
	char to_name[NAME_MAX + 1];
	int err = file < 0 ? file : new_name(s, name, to_name);

	if (err < 0)
		return failed(s, name, err, e);
	err = check_session(m, s, file, e);
	m->result->segments++;
	return err < 0 ? err : link_or_copy(m, s, s->folder, file, name, m->folder, to_name, e);
}

static bool has_same_size(int folder, const char *name, int file)
{
	struct stat a, b;

	return folder_stat(folder, name, &a) == 0 && fstat(file, &b) == 0 && a.st_size == b.st_size;
}

/*
 * Files of device code are named by their checksum, and core files of GPUs by host, process and
 * time, so that equal names have equal contents.
 */
static const struct inner_folder {
	const char *name, *suffix;
} inner_folders[INNER_FOLDERS] = {
	{ RECORDING_CUBINS, RECORDING_CUBIN_SUFFIX },
	{ RECORDING_GPU_CORES, RECORDING_GPU_CORE_SUFFIX },
};

static int add_inner(struct merge *m, const struct source *s, size_t number, struct error *e)
{
	const struct inner_folder *inner = &inner_folders[number];
	_cleanup_close_ int folder = folder_enter(s->folder, inner->name, FOLDER_ANY);
	_cleanup_list_ DIR *list = NULL;
	int *to = &m->inner[number], err = 0;
	const char *name;
	struct stat st;

	if (folder == -ENOENT)
		return 0;
	list = folder_list(folder);
	if (!list)
		return failed(s, inner->name, folder < 0 ? folder : -errno, e);
	if (*to < 0 && mkdirat(m->folder, inner->name, 0700) < 0)
		return failed(s, inner->name, -errno, e);
	if (*to < 0)
		*to = folder_enter(m->folder, inner->name, FOLDER_ANY);
	while (err >= 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = -1;

		if (!has_suffix(name, inner->suffix))
			continue;
		file = folder_open_file(folder, name, O_RDONLY, FOLDER_ANY);
		if (file < 0 || *to < 0)
			err = failed(s, name, MIN(file, *to), e);
		else if (folder_stat(*to, name, &st) == 0)
			m->result->other_cubins += !has_same_size(*to, name, file);
		else
			err = link_or_copy(m, s, folder, file, name, *to, name, e);
	}
	return err;
}

static int add_segments(struct merge *m, struct source *s, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(s->folder);
	uint64_t before = m->result->segments;
	const char *name;
	int err = 0;

	if (!list)
		return error_errno(e, errno, "cannot open recording '%s'", s->path);
	while (err >= 0 && (name = folder_next(list))) {
		if (*m->request->stop)
			err = error_set(e, -ECANCELED, "interrupted");
		else if (has_suffix(name, SEGMENT_SUFFIX))
			err = add_segment(m, s, name, e);
	}
	if (err >= 0 && !s->readable)
		err = error_set(e, E_FORMAT,
				m->result->segments == before
					? "'%s' is not a recording: no " SEGMENT_SUFFIX
					  " segment in it; name a folder that `pitot record` has "
					  "made"
					: "cannot read recording '%s': none of its segments can be "
					  "read",
				s->path);
	return err;
}

static int add_recording(struct merge *m, size_t number, struct error *e)
{
	struct source s = { .path = m->request->recordings[number],
			    .number = number,
			    .grows = recording_json_is_recording(m->request->recordings[number]) };
	int err;

	s.folder = folder_open(s.path, FOLDER_ANY);
	if (s.folder < 0)
		return error_set(e, s.folder, "cannot open recording '%s': %s", s.path,
				 error_code_text(s.folder));
	err = add_segments(m, &s, e);
	for (size_t i = 0; i < INNER_FOLDERS && err >= 0; i++)
		err = add_inner(m, &s, i, e);
	close(s.folder);
	return err;
}

static int add_all(struct merge *m, struct error *e)
{
	const struct merge_request *r = m->request;
	int err = 0;

	for (size_t i = 0; i < r->count && err >= 0; i++) {
		err = add_recording(m, i, e);
		if (r->progress)
			r->progress(r->progress_user, i + 1, r->count);
	}
	return err;
}

static int count_processes(const struct trace *t, struct merge_result *result)
{
	struct map hosts = MAP_INIT, ranks = MAP_INIT;
	int err = 0;

	result->processes = 0;
	for (size_t i = 0; i < trace_process_count(t) && err >= 0; i++) {
		const struct trace_process *p = trace_process(t, i);

		result->processes += p->subject == i;
		if (p->boot_id)
			err = map_add(&hosts, p->boot_id);
		if (err >= 0 && p->rank != TRACE_NO_RANK && p->inside && !p->sampler)
			err = map_add(&ranks, p->rank);
	}
	result->hosts = hosts.count;
	result->ranks = ranks.count;
	map_release(&hosts);
	map_release(&ranks);
	report_absent_ranks(t, &result->remarks);
	report_unaligned_hosts(t, &result->remarks);
	return err < 0 || result->remarks.failed ? -ENOMEM : 0;
}

/* Reads the new recording, and writes its recording.json. */
static int describe(const struct merge_request *r, const char *path, const struct folder_id *id,
		    struct merge_result *result, struct error *e)
{
	struct recording_identity identity = {
		.folder = *id, .name = "merge", .recorded_by = "pitot merge", .command = r->command
	};
	struct trace *t;
	int err = trace_open(path, NULL, &t, e);

	if (err < 0)
		return err;
	if (count_processes(t, result) < 0)
		err = error_set(e, -ENOMEM, "out of memory");
	trace_span(t, &identity.start_monotonic_ns, &identity.end_monotonic_ns);
	identity.end_monotonic_ns = MAX(identity.end_monotonic_ns, 1);
	identity.start_realtime_ns = (uint64_t)trace_unix_ns(t, identity.start_monotonic_ns);
	trace_free(t);
	return err < 0 ? err : recording_json_write(path, &identity, e);
}

static int fill(const struct merge_request *r, const char *path, const struct folder_id *id,
		struct merge_result *result, struct error *e)
{
	struct merge m = { .request = r, .result = result, .inner = { -1, -1 } };
	struct stat st;
	int err;

	m.folder = folder_open_known(path, id);
	err = m.folder < 0 ? m.folder : fstat(m.folder, &st) < 0 ? -errno : 0;
	if (err < 0)
		err = error_set(e, err, "cannot write '%s': %s", path, error_code_text(err));
	m.owner = err < 0 ? 0 : st.st_uid;
	if (err == 0)
		err = add_all(&m, e);
	for (size_t i = 0; i < INNER_FOLDERS; i++)
		fd_close(&m.inner[i]);
	fd_close(&m.folder);
	map_release(&m.sessions);
	return err < 0 ? err : describe(r, path, id, result, e);
}

/* The folder at the output, if there is one, is removed only when the new one is complete. */
static int put_in_place(const char *from, const char *to, bool replace, struct error *e)
{
	int err = replace ? recording_dir_remove(to, &(struct folder_id){ 0 }, e) : 0;

	if (err >= 0 && rename(from, to) < 0)
		err = error_errno(e, errno, "cannot create '%s'", to);
	return err;
}

/*
 * Whether there is something at the output: 1 or 0. It may not be an input, which would be gone if
 * the merge could not be put in its place.
 */
static int find_output(const struct merge_request *r, const char *output, struct error *e)
{
	_cleanup_close_ int folder = folder_open(output, FOLDER_ANY);
	struct folder_id id, input;
	int rc = folder == -ENOENT ? 0 : 1;

	if (rc && !r->force)
		return error_set(
			e, -EEXIST,
			"'%s' exists; choose another folder with -o, or replace it with --force",
			output);
	for (size_t i = 0; i < r->count && folder_identify(folder, &id) == 0; i++) {
		_cleanup_close_ int other = folder_open(r->recordings[i], FOLDER_ANY);

		if (folder_identify(other, &input) == 0 && input.device == id.device &&
		    input.inode == id.inode)
			return error_set(e, E_USAGE,
					 "'%s' is one of the recordings to merge; choose another "
					 "folder with -o",
					 output);
	}
	return rc;
}

int merge_recordings(const struct merge_request *r, struct merge_result *result, struct error *e)
{
	_cleanup_strbuf_ struct strbuf output = STRBUF_INIT, part = STRBUF_INIT;
	struct folder_id id;
	char *path;
	int err, exists;

	*result = (struct merge_result){ 0 };
	strbuf_adds(&output, r->output);
	while (output.length > 1 && output.data[output.length - 1] == '/')
		output.data[--output.length] = '\0';
	strbuf_addf(&part, "%s.merging-%d", strbuf_text(&output), (int)getpid());
	if (output.failed || part.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (!*r->output)
		return error_set(e, E_USAGE, "-o takes the name of a folder, not ''");
	exists = find_output(r, output.data, e);
	path = exists < 0 ? NULL : recording_dir_create(part.data, NULL, true, &id, e);
	if (!path)
		return exists < 0 ? exists : -EIO;
	err = fill(r, path, &id, result, e);
	if (err >= 0 && *r->stop)
		err = error_set(e, -ECANCELED, "interrupted");
	if (err >= 0)
		err = put_in_place(path, output.data, exists, e);
	if (err < 0)
		recording_dir_remove(path, &id, NULL);
	free(path);
	return err;
}
