#include "agent/lake_compact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/lake_compacted.h"
#include "agent/lake_merge.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"

#define WORK ".compact"
#define NEW ".new"
#define LOCK "lock"
#define PARTIAL ".partial"
#define ABANDONED_S 3600 /* age of an unfinished file whose agent was killed */

struct input {
	char *name;
	struct stat st;
};

struct day {
	const struct lake *lake;
	int work; /* the folder WORK */
	enum fleet_table table;
	char date[32];
	char name[80]; /* TABLE.DATE */
	int tables, live, made; /* folders: of the table, of the day, and the new one */
	struct stat st; /* of live */
	VEC(struct input) inputs;
	struct lake_compacted compacted;
	struct lake_merge merge;
	const struct input *first; /* whose rows are the first of it */
	uint64_t merged; /* objects of agents */
	struct lake_compaction result;
};

static int fail(const struct day *d, int code, const char *what, struct error *e)
{
	return error_set(e, code, "cannot %s '%s/%s/%s': %s", what, d->lake->path,
			 fleet_schemas[d->table].name, d->date, error_code_text(code));
}

/* Removes a folder below WORK, where nobody else can write. It may have been given away. */
static void remove_work(int work, const char *name)
{
	_cleanup_close_ int folder = folder_enter(work, name, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	const char *file;

	while (list && (file = folder_next(list)))
		unlinkat(folder, file, 0);
	unlinkat(work, name, AT_REMOVEDIR);
}

/* --- what a day has --- */

static int add_input(struct day *d, const char *name)
{
	struct input input = { .name = NULL };
	int err = folder_stat(d->live, name, &input.st);

	if (!strcmp(name, LAKE_COMPACTED) || (*name == '.' && has_suffix(name, PARTIAL)))
		return 0;
	if (err < 0)
		return err;
	input.name = strdup(name);
	if (!input.name || vec_push(&d->inputs, input) < 0) {
		free(input.name);
		return -ENOMEM;
	}
	if (!S_ISREG(input.st.st_mode) || !has_suffix(name, ".parquet"))
		d->result.foreign = input.name;
	d->result.objects_before++;
	d->result.bytes_before += (uint64_t)input.st.st_size;
	return 0;
}

ORDER(by_name, struct input, strcmp(a->name, b->name))

/* Returns whether there is something to do, or a negative code. */
static int list_inputs(struct day *d)
{
	_cleanup_list_ DIR *list = folder_list(d->live);
	const char *name;
	int rc = list ? 0 : -errno;
	bool is_due = false;

	while (rc == 0 && (name = folder_next(list)))
		rc = add_input(d, name);
	vec_sort(&d->inputs, by_name);
	for (size_t i = 0; i < d->inputs.count; i++)
		is_due |= !lake_is_made(d->inputs.data[i].name);
	return rc < 0 ? rc : is_due;
}

/* --- the new objects --- */

/* Gives a new file the permissions of an old one. Another user's stays one's own if it has to. */
static int like(int folder, const char *name, const struct stat *st, uint64_t *bytes)
{
	_cleanup_close_ int fd = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);
	struct stat now;

	if (fd < 0)
		return fd;
	(void)!fchown(fd, st->st_uid, st->st_gid);
	if (fchmod(fd, st->st_mode & 0777) < 0 || fsync(fd) < 0 || fstat(fd, &now) < 0)
		return -errno;
	*bytes += (uint64_t)now.st_size;
	return 0;
}

/* Writes an object of the rows that were read. */
static int flush(struct day *d, struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	size_t rows = lake_merge_rows(&d->merge);
	char tag[48];
	int rc;

	if (!rows)
		return 0;
	snprintf(tag, sizeof(tag), "%" PRIu64 "-%" PRIu64, d->compacted.generation,
		 d->result.objects_after);
	rc = lake_merge_write(&d->merge, d->made, tag, &name, e);
	if (rc < 0)
		return rc;
	rc = like(d->made, strbuf_text(&name), &d->first->st, &d->result.bytes_after);
	d->result.objects_after++;
	d->result.rows += rows;
	return rc < 0 ? fail(d, rc, "write", e) : 0;
}

/* What need not be read, or cannot be, is in both folders. */
static int keep(struct day *d, const struct input *input, struct error *e)
{
	if (linkat(d->live, input->name, d->made, input->name, 0) < 0)
		return fail(d, -errno, "link an object of", e);
	d->result.objects_after++;
	d->result.bytes_after += (uint64_t)input->st.st_size;
	return 0;
}

static int merge_input(struct day *d, const struct input *input, struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	bool is_made = lake_is_made(input->name);
	int rc = 0;

	if (is_made && (uint64_t)input->st.st_size >= LAKE_LARGE_BYTES)
		return keep(d, input, e);
	if (!lake_merge_fits(&d->merge, input->name))
		rc = flush(d, e);
	if (rc < 0)
		return rc;
	if (!lake_merge_rows(&d->merge))
		d->first = input;
	rc = folder_read_file(d->live, input->name, LAKE_OBJECT_BYTES_MAX, &bytes);
	if (rc == 0)
		rc = lake_merge_add(&d->merge, input->name, &bytes, e);
	else
		error_set(e, rc, "%s", error_code_text(rc));
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		*e = (struct error){ 0 };
		d->result.unreadable++;
		return keep(d, input, e);
	}
	if (!is_made && lake_compacted_add(&d->compacted, input->name) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	d->merged += !is_made;
	return 0;
}

static int make_folder(struct day *d, struct error *e)
{
	char name[sizeof(d->name) + sizeof(NEW)];

	snprintf(name, sizeof(name), "%s" NEW, d->name);
	remove_work(d->work, name);
	if (mkdirat(d->work, name, 0700) < 0)
		return fail(d, -errno, "make a folder for", e);
	d->made = folder_enter(d->work, name, FOLDER_OWN);
	return d->made < 0 ? fail(d, d->made, "make a folder for", e) : 0;
}

/* Gives the folder the owner and the permissions of the old one: agents write into it. */
static int finish_folder(struct day *d, struct error *e)
{
	char name[sizeof(d->name) + sizeof(NEW)];
	int rc = lake_compacted_write(d->made, &d->compacted);

	snprintf(name, sizeof(name), "%s" NEW, d->name);
	if (rc == 0 &&
	    (fchownat(d->work, name, d->st.st_uid, d->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	     fchmodat(d->work, name, d->st.st_mode & 07777, 0) < 0))
		return error_set(e, -errno,
				 "the objects of '%s/%s/%s' are another user's: compact them as "
				 "that user, or as root",
				 d->lake->path, fleet_schemas[d->table].name, d->date);
	rc = rc < 0 ? rc : folder_sync(d->made);
	rc = rc < 0 ? rc : folder_rename_new(d->work, name, d->work, d->name);
	rc = rc < 0 ? rc : folder_sync(d->work);
	return rc < 0 ? fail(d, rc, "write the objects of", e) : 0;
}

static int exchange(struct day *d, struct error *e)
{
	int rc = folder_exchange(d->work, d->name, d->tables, d->date);

	if (rc == -EINVAL || rc == -ENOSYS)
		return error_set(e, E_UNSUPPORTED,
				 "the file system of the lake '%s' cannot exchange folders: copy "
				 "it to one that can (ext4, XFS, Btrfs, tmpfs)",
				 d->lake->path);
	rc = rc < 0 ? rc : folder_sync(d->tables);
	rc = rc < 0 ? rc : folder_sync(d->work);
	return rc < 0 ? fail(d, rc, "replace", e) : 0;
}

/* --- the folder that is no longer one of the lake --- */

/* What an agent has added after the list was made is an object like any other. */
static int move_late(int from, const char *name, int to)
{
	struct stat st, found;
	int rc = folder_rename_new(from, name, to, name);

	if (rc != -EEXIST || folder_stat(from, name, &st) < 0 || folder_stat(to, name, &found) < 0)
		return rc;
	if (st.st_size == found.st_size) /* it was shipped twice, or is linked */
		return unlinkat(from, name, 0) < 0 ? -errno : 0;
	return rc;
}

static int retire_name(int from, const char *name, int to, const struct lake_compacted *c)
{
	bool is_partial = *name == '.' && has_suffix(name, PARTIAL);
	struct stat st;
	int rc = folder_stat(from, name, &st);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (is_partial &&
	    clock_read_ns(CLOCK_REALTIME) / NS_PER_S < (uint64_t)st.st_mtime + ABANDONED_S)
		return -EBUSY; /* an agent writes it: the next run finishes */
	if (is_partial || lake_is_made(name) || lake_compacted_has(c, name))
		return unlinkat(from, name, 0) < 0 ? -errno : 0;
	return move_late(from, name, to);
}

/*
 * Empties and removes a folder that was exchanged. An agent may still have it open, and rename an
 * object into it: then it is not empty, and is listed again; once it is removed, the agent's rename
 * fails, and the agent ships the object again.
 */
static int retire(int work, const char *name, int live, const struct lake_compacted *c)
{
	_cleanup_close_ int from = folder_enter(work, name, FOLDER_ANY);
	int rc = from < 0 ? from : 0;
	bool is_busy = false;

	for (unsigned round = 0; rc == 0 && !is_busy && round < 100; round++) {
		_cleanup_list_ DIR *list = folder_list(from);
		const char *file;

		while (list && rc == 0 && (file = folder_next(list))) {
			rc = strcmp(file, LAKE_COMPACTED) ? retire_name(from, file, live, c) : 0;
			is_busy |= rc == -EBUSY;
			rc = rc == -EBUSY ? 0 : rc;
		}
		rc = rc < 0 ? rc : folder_sync(live);
		if (rc < 0 || is_busy)
			break;
		unlinkat(from, LAKE_COMPACTED, 0);
		if (unlinkat(work, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			rc = -errno;
	}
	return rc;
}

/* What a run has left that was killed. `name` is TABLE.DATE, or that with NEW. */
static int recover(const struct lake *lake, int work, const char *name)
{
	_cleanup_close_ int left = folder_enter(work, name, FOLDER_ANY), table = -1, live = -1;
	struct lake_compacted of_left = { .generation = 0 }, of_live = { .generation = 0 };
	size_t length = strcspn(name, ".");
	char table_name[32];
	int rc;

	snprintf(table_name, sizeof(table_name), "%.*s", (int)length, name);
	table = folder_enter(lake->folder, table_name, FOLDER_ANY);
	live = name[length] ? folder_enter(table, name + length + 1, FOLDER_ANY) : -ENOENT;
	if (has_suffix(name, NEW) || live == -ENOENT) { /* somebody has removed the day */
		remove_work(work, name);
		return 0;
	}
	rc = left < 0 ? left : live < 0 ? live : lake_compacted_read(left, &of_left);
	rc = rc < 0 ? rc : lake_compacted_read(live, &of_live);
	if (rc == 0 && of_left.generation > of_live.generation)
		remove_work(work, name);
	else if (rc == 0)
		rc = retire(work, name, live, &of_live);
	lake_compacted_release(&of_left);
	lake_compacted_release(&of_live);
	return rc;
}

static int recover_all(const struct lake *lake, int work, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(work);
	const char *name;
	int rc = list ? 0 : -errno;

	while (rc == 0 && (name = folder_next(list)))
		if (strcmp(name, LOCK) != 0)
			rc = recover(lake, work, name);
	return rc < 0 ? error_set(e, rc, "cannot finish '%s/" WORK "': %s", lake->path,
				  error_code_text(rc))
		      : 0;
}

/* --- days --- */

static int write_day(struct day *d, struct error *e)
{
	int rc = make_folder(d, e);

	d->compacted.generation++;
	for (size_t i = 0; i < d->inputs.count && rc == 0; i++)
		rc = merge_input(d, &d->inputs.data[i], e);
	rc = rc < 0 ? rc : flush(d, e);
	if (rc < 0 || !d->merged) /* the next run removes what there is of it */
		return rc;
	rc = finish_folder(d, e);
	rc = rc < 0 ? rc : exchange(d, e);
	if (rc < 0)
		return rc;
	rc = retire(d->work, d->name, d->made, &d->compacted);
	return rc < 0 ? fail(d, rc, "remove the old objects of", e) : 0;
}

static void release(struct day *d)
{
	for (size_t i = 0; i < d->inputs.count; i++)
		free(d->inputs.data[i].name);
	vec_release(&d->inputs);
	lake_compacted_release(&d->compacted);
	lake_merge_release(&d->merge);
	fd_close(&d->live);
	fd_close(&d->made);
}

static int compact_day(struct day *d, const struct lake_compact_options *options, struct error *e)
{
	int rc;

	d->made = -1;
	d->live = folder_enter(d->tables, d->date, FOLDER_ANY);
	lake_merge_init(&d->merge, d->table);
	snprintf(d->name, sizeof(d->name), "%s.%s", fleet_schemas[d->table].name, d->date);
	d->result = (struct lake_compaction){ .table = fleet_schemas[d->table].name,
					      .date = d->date + strlen(LAKE_DATE) };
	rc = d->live < 0 ? d->live : folder_stat(d->tables, d->date, &d->st);
	rc = rc < 0 ? rc : lake_compacted_read(d->live, &d->compacted);
	rc = rc < 0 ? rc : list_inputs(d);
	if (rc > 0 && folder_stat(d->work, d->name, &(struct stat){ 0 }) == 0)
		rc = 0; /* an agent still writes into the old folder */
	else if (rc < 0)
		fail(d, rc, "read", e);
	else if (d->result.foreign)
		rc = 1;
	else if (rc > 0 && write_day(d, e) < 0)
		rc = e->code;
	if (rc > 0)
		options->done(options->user, &d->result);
	release(d);
	return rc < 0 ? rc : 0;
}

bool lake_is_past_day(const char *date, const char *today)
{
	return strlen(date) == strlen(today) && strcmp(date, "1970-01-01") != 0 &&
	       strcmp(date, today) < 0;
}

ORDER(compare_dates, char *, strcmp(*a, *b))

static int compact_table(const struct lake *lake, int work, enum fleet_table table,
			 const char *today, const struct lake_compact_options *options,
			 struct error *e)
{
	_cleanup_close_ int folder =
		folder_enter(lake->folder, fleet_schemas[table].name, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	VEC(char *) dates = VEC_INIT;
	const char *name;
	int rc = 0;

	while (list && rc == 0 && (name = folder_next(list))) {
		bool is_day = starts_with(name, LAKE_DATE) &&
			      lake_is_past_day(name + strlen(LAKE_DATE), today);
		char *date = is_day ? strdup(name) : NULL;

		if (date && vec_push(&dates, date) < 0)
			rc = error_set(e, -ENOMEM, "out of memory");
	}
	vec_sort(&dates, compare_dates);
	for (size_t i = 0; i < dates.count; i++) {
		struct day d = { .lake = lake, .work = work, .table = table, .tables = folder };

		snprintf(d.date, sizeof(d.date), "%s", dates.data[i]);
		rc = rc < 0 ? rc : compact_day(&d, options, e);
		free(dates.data[i]);
	}
	vec_release(&dates);
	return rc;
}

static int open_work(const struct lake *lake, int *lock, struct error *e)
{
	int work;

	if (mkdirat(lake->folder, WORK, 0700) < 0 && errno != EEXIST)
		return error_errno(e, errno, "cannot write into the lake '%s'", lake->path);
	work = folder_enter(lake->folder, WORK, FOLDER_OWN);
	if (work < 0)
		return error_set(e, work, "cannot use '%s/" WORK "': %s", lake->path,
				 error_code_text(work));
	*lock = folder_create_file(work, LOCK);
	if (*lock == -EEXIST)
		*lock = folder_open_file(work, LOCK, O_RDONLY, FOLDER_OWN);
	if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0)
		return work;
	error_set(e, -EBUSY, "the lake '%s' is being compacted: wait until that has ended",
		  lake->path);
	close(work);
	return -EBUSY;
}

int lake_compact_folder(const struct lake *lake, const struct lake_compact_options *options,
			struct error *e)
{
	_cleanup_close_ int work = -1, lock = -1;
	_cleanup_strbuf_ struct strbuf today = STRBUF_INIT;
	int rc = 0;

	lake_add_date(&today, options->now_ns);
	work = open_work(lake, &lock, e);
	if (work < 0)
		return work;
	rc = today.failed ? error_set(e, -ENOMEM, "out of memory") : recover_all(lake, work, e);
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++)
		rc = compact_table(lake, work, t, strbuf_text(&today) + strlen(LAKE_DATE), options,
				   e);
	return rc;
}
