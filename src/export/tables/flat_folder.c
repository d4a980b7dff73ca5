/* flat_folder.c: a folder with a file for each table, or for each table's part of a rank. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/map.h"
#include "base/path.h"
#include "export/tables/flat_table.h"

#define DEPTH_MAX 4u /* of folders: table, job, host, rank */

struct made_file {
	char *path;
	bool is_written;
};

struct folder {
	const char *path, *suffix;
	flat_write_table *write;
	struct export_result *result;
	VEC(struct made_file) made;
	/* With --partition: of each process, the number of its path, which is a text from 0. */
	size_t *partitions;
	struct interner paths;
	bool has_key[FLAT_RANK + 1]; /* some process has one: else it is no part of the paths */
};

static const char *const keys[] = {
	[FLAT_JOB] = "job", [FLAT_HOST] = "host", [FLAT_RANK] = "rank"
};

/* Engines that know Hive's folders undo the escapes, and know the name of a missing value. */
static void add_key(struct strbuf *out, const char *key, const char *value)
{
	strbuf_addf(out, "/%s=", key);
	if (!*value)
		value = "__HIVE_DEFAULT_PARTITION__";
	for (; *value; value++)
		if ((unsigned char)*value <= ' ' || strchr("\"#%'*/:=?\\{[]^\x7f", *value))
			strbuf_addf(out, "%%%02X", (unsigned char)*value);
		else
			strbuf_addc(out, *value);
}

/* The text of a key of a process, "" if it is unknown. */
static const char *key_of(struct trace *t, size_t process, enum flat_source key, char *room,
			  size_t size)
{
	const struct trace_process *p = trace_process(t, process);
	uint64_t row = trace_first_row(t, TABLE_process, process + 1), job;
	bool missing = row == trace_first_row(t, TABLE_process, process);

	*room = 0;
	if (key == FLAT_HOST)
		return p->host;
	if (key == FLAT_RANK && p->rank != TRACE_NO_RANK)
		snprintf(room, size, "%u", p->rank);
	if (key == FLAT_RANK || missing)
		return room;
	job = trace_value(t, TABLE_process, COLUMN_process_job, row - 1, &missing);
	return missing ? "" : trace_string(t, (uint32_t)job);
}

static int find_partitions(struct folder *d, struct trace *t, struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	size_t count = trace_process_count(t);
	int rc = trace_load(t, TABLE_process, COLUMN_BITS(process, rank, job), e);
	char room[16];
	int64_t item;

	d->partitions = calloc(count + 1, sizeof(*d->partitions));
	if (rc < 0 || !d->partitions)
		return rc < 0 ? rc : error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		for (enum flat_source k = FLAT_JOB; k <= FLAT_RANK; k++)
			d->has_key[k] |= *key_of(t, i, k, room, sizeof(room)) != 0;
	for (size_t i = 0; i < count; i++) {
		strbuf_clear(&path);
		for (enum flat_source k = FLAT_JOB; k <= FLAT_RANK; k++)
			if (d->has_key[k])
				add_key(&path, keys[k], key_of(t, i, k, room, sizeof(room)));
		item = interner_add(&d->paths, strbuf_text(&path), path.length, NULL);
		if (item < 0 || path.failed)
			return error_set(e, -ENOMEM, "out of memory");
		d->partitions[i] = (size_t)item;
	}
	return 0;
}

/* Creates a folder in one, or finds it there; a link is not followed. Returns its descriptor. */
static int make_folder(int folder, const char *name)
{
	struct stat st;
	int made;

	if (folder >= 0 && mkdirat(folder, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	made = folder_enter(folder, name, FOLDER_ANY);
	return made < 0 && folder_stat(folder, name, &st) == 0 && S_ISLNK(st.st_mode) ? E_LINK
										      : made;
}

/* Creates the folders below `path` that lead to a file. */
static int make_parents(const char *path, char *file, struct error *e)
{
	int folder = folder_open(path, FOLDER_ANY);

	if (folder < 0)
		error_set(e, folder, "cannot open folder '%s': %s", path, error_code_text(folder));
	for (char *name = file + strlen(path) + 1, *end; (end = strchr(name, '/')) && folder >= 0;
	     name = end + 1) {
		int above = folder;

		*end = 0;
		folder = make_folder(above, name);
		close(above);
		if (folder < 0)
			error_set(e, folder, "cannot create folder '%s': %s", file,
				  error_code_text(folder));
		*end = '/';
	}
	if (folder >= 0)
		close(folder);
	return MIN(folder, 0);
}

/* Removes a file that was written, and the folders to it that are empty then. */
static void remove_made(const char *path, const struct made_file *made)
{
	char *file = made->path, *end;

	if (made->is_written)
		unlink(file);
	while ((end = strrchr(file, '/')) > file + strlen(path)) {
		*end = 0;
		rmdir(file);
	}
}

static int write_file(struct folder *d, struct flat_table *f, const char *partition,
		      struct error *e)
{
	struct strbuf file = STRBUF_INIT;
	const char *table = f->schema->name;
	struct output *output;
	uint64_t bytes = 0;
	int rc;

	if (*partition)
		strbuf_addf(&file, "%s/%s%s/%s%s", d->path, table, partition, table, d->suffix);
	else
		strbuf_addf(&file, "%s/%s%s", d->path, table, d->suffix);
	if (file.failed || vec_push(&d->made, ((struct made_file){ file.data, false })) < 0) {
		strbuf_release(&file);
		return error_set(e, -ENOMEM, "out of memory");
	}
	rc = make_parents(d->path, file.data, e);
	output = rc < 0 ? NULL : output_open(file.data, f->options->overwrite, e);
	rc = output ? d->write(f, output, e) : e->code;
	if (rc >= 0)
		rc = output_commit(&output, &bytes, e);
	output_abort(&output);
	if (rc < 0)
		return rc;
	d->made.data[d->made.count - 1].is_written = true;
	d->result->files++;
	d->result->bytes += bytes;
	d->result->written[f->schema->id] += f->rows;
	return 0;
}

/* The path has what these columns say. */
static void leave_out_keys(const struct folder *d, struct flat_table *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->columns.count; i++)
		if (f->columns.data[i].source > FLAT_RANK || !d->has_key[f->columns.data[i].source])
			f->columns.data[kept++] = f->columns.data[i];
	f->columns.count = kept;
}

static int write_table(struct folder *d, struct trace *t, const struct export_options *options,
		       enum table_id table, struct error *e)
{
	size_t count = d->partitions ? d->paths.count : 1;
	int rc = 0;

	for (size_t i = 0; i < count && rc >= 0; i++) {
		struct flat_table f;

		rc = flat_table_init(&f, t, options, d->result, table, e);
		if (rc > 0 && d->partitions) {
			leave_out_keys(d, &f);
			rc = flat_select(&f, d->partitions, i);
		}
		if (rc > 0)
			rc = write_file(d, &f, d->partitions ? d->paths.items[i].text : "", e);
		flat_table_release(&f);
	}
	return rc;
}

/* Counts the files of a format in a folder, but for those that others have linked to. */
static unsigned count_files(int folder, const char *suffix, unsigned depth)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	unsigned count = 0;
	const char *name;
	struct stat st;

	while (list && (name = folder_next(list))) {
		if (folder_stat(folder, name, &st) < 0)
			continue;
		count += S_ISREG(st.st_mode) && has_suffix(name, suffix);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
			_cleanup_close_ int below = folder_enter(folder, name, FOLDER_ANY);

			count += below < 0 ? 0 : count_files(below, suffix, depth + 1);
		}
	}
	return count;
}

int flat_write_folder(struct trace *t, const struct export_options *options, const char *path,
		      const char *suffix, flat_write_table *write, struct export_result *result,
		      struct error *e)
{
	struct folder d = { .path = path, .suffix = suffix, .write = write, .result = result };
	int rc = flat_check_options(options, suffix + 1, e);
	bool exists;

	*result = (struct export_result){ 0 };
	if (rc < 0)
		return rc;
	exists = mkdir(path, 0700) < 0;
	if (exists && (errno != EEXIST || !options->overwrite))
		return error_errno(e, errno, "cannot create folder '%s'%s", path,
				   errno == EEXIST ? ": choose another one with -o, or replace its "
						     "files with --force"
						   : "");
	interner_init(&d.paths);
	if (options->partition)
		rc = find_partitions(&d, t, e);
	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0; id++)
		rc = write_table(&d, t, options, (enum table_id)id, e);
	for (size_t i = 0; i < d.made.count; i++) {
		if (rc < 0)
			remove_made(path, &d.made.data[i]);
		free(d.made.data[i].path);
	}
	if (rc >= 0 && !export_result_events(result))
		rc = -ENODATA;
	if (rc >= 0 && exists) {
		_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
		unsigned count = folder < 0 ? 0 : count_files(folder, suffix, 0);

		result->left = count - MIN(count, result->files);
	}
	if (rc < 0 && !exists)
		rmdir(path);
	vec_release(&d.made);
	free(d.partitions);
	interner_release(&d.paths);
	return rc;
}
