#include "agent/lake_compact_s3.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "agent/lake_list.h"
#include "agent/lake_manifest.h"
#include "agent/lake_merge.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"

#define ALREADY SIZE_MAX

/* Dates are YYYY-MM-DD. */

struct object {
	char date[16];
	char *name;
	uint64_t bytes;
};

struct manifest {
	char date[16];
	uint32_t generation;
};

/* A manifest that is to be written. */
struct commit {
	enum fleet_table table;
	char date[16];
	uint32_t generation;
	bool is_done;
	struct lake_compaction result;
};

/* An object that is to be removed when a manifest has been written. */
struct removal {
	char *key;
	size_t commit; /* ALREADY: it has */
};

struct bucket {
	const struct lake *lake;
	const struct lake_compact_options *options;
	struct lake_temporary files;
	uint64_t run; /* random: no two runs make objects of the same names */
	enum fleet_table table;
	VEC(struct object) objects; /* of the table, by date and name */
	VEC(struct manifest) manifests; /* of the table */
	VEC(struct commit) commits;
	VEC(struct removal) removals;
};

static int out_of_memory(struct error *e)
{
	return error_set(e, -ENOMEM, "out of memory");
}

static int busy(const struct bucket *b, struct error *e)
{
	return error_set(e, -EBUSY,
			 "'%s' is being compacted by another: what that has written stays",
			 b->lake->path);
}

static int failed(const struct bucket *b, const char *what, const char *key, int rc,
		  struct error *e)
{
	if (rc < 0)
		error_prefix(e, "cannot %s '%s/%s'", what, b->lake->path, key);
	return rc;
}

static void add_key(const struct bucket *b, const char *date, const char *name, struct strbuf *out)
{
	strbuf_addf(out, "%s/" LAKE_DATE "%s/%s", fleet_schemas[b->table].name, date, name);
}

/* Puts a file of the temporary folder. Returns 0, 1 if there is an object of that key, or <0. */
static int put_file(const struct bucket *b, const char *name, const char *key, struct error *e)
{
	_cleanup_close_ int file = folder_open_file(b->files.folder, name, O_RDONLY, FOLDER_OWN);

	if (file < 0)
		return error_set(e, file, "cannot read '%s/%s': %s", b->files.path, name,
				 error_code_text(file));
	return failed(b, "write", key, s3_put(b->lake->s3, file, key, false, e), e);
}

static int remove_later(struct bucket *b, const char *date, const char *name, size_t commit,
			struct error *e)
{
	struct strbuf key = STRBUF_INIT;

	add_key(b, date, name, &key);
	if (!key.failed && vec_push(&b->removals, ((struct removal){ key.data, commit })) == 0)
		return 0;
	strbuf_release(&key);
	return out_of_memory(e);
}

static void report(const struct bucket *b, enum fleet_table table, const char *date,
		   struct lake_compaction *result)
{
	result->table = fleet_schemas[table].name;
	result->date = date;
	b->options->done(b->options->user, result);
}

/* --- what there is --- */

static int on_object(void *user, const char *key, uint64_t bytes)
{
	struct bucket *b = user;
	struct lake_key parts;
	struct object o = { .bytes = bytes };

	if (!lake_key_split(key, &parts) || *parts.file || !has_suffix(parts.name, ".parquet"))
		return 0;
	memcpy(o.date, parts.date, sizeof(o.date));
	o.name = strdup(parts.name);
	if (o.name && vec_push(&b->objects, o) == 0)
		return 0;
	free(o.name);
	return -ENOMEM;
}

static int on_manifest(void *user, const char *key, uint64_t bytes)
{
	struct bucket *b = user;
	struct manifest m;

	(void)bytes;
	return lake_manifest_parse(base_name(key), m.date, &m.generation)
		       ? vec_push(&b->manifests, m)
		       : 0;
}

ORDER(by_day, struct object, strcmp(a->date, b->date) ?: strcmp(a->name, b->name))

static void forget_table(struct bucket *b)
{
	for (size_t i = 0; i < b->objects.count; i++)
		free(b->objects.data[i].name);
	b->objects.count = b->manifests.count = 0;
}

/* Manifests come first: objects are only removed long after they are in one. */
static int list_table(struct bucket *b, struct error *e)
{
	char manifests[64];
	int rc;

	forget_table(b);
	snprintf(manifests, sizeof(manifests), LAKE_MANIFESTS "/%s", fleet_schemas[b->table].name);
	rc = lake_list(b->lake, manifests, on_manifest, b, e);
	rc = rc < 0 ? rc : lake_list(b->lake, fleet_schemas[b->table].name, on_object, b, e);
	vec_sort(&b->objects, by_day);
	return rc;
}

/* The newest generation of a day. A list that lacks one was made while others were written. */
static int generation_of(const struct bucket *b, const char *date, uint32_t *out, struct error *e)
{
	size_t count = 0;

	*out = 0;
	for (size_t i = 0; i < b->manifests.count; i++) {
		if (strcmp(b->manifests.data[i].date, date) != 0)
			continue;
		count++;
		*out = MAX(*out, b->manifests.data[i].generation);
	}
	return count == *out ? 0 : busy(b, e);
}

/* --- objects with the rows of others --- */

struct day {
	struct bucket *bucket;
	const char *date;
	struct lake_manifest manifest;
	struct lake_merge merge;
	VEC(const struct object *) merged; /* whose rows it has */
	size_t shipped; /* how many of these are of agents */
	struct fleet_rows rows; /* of the new manifest */
	struct lake_compaction result;
};

/* Adds an object of the rows that were read, and sets its name. */
static int add_object(struct day *d, struct strbuf *name, struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	struct bucket *b = d->bucket;
	struct stat st;
	char tag[64];
	int rc;

	snprintf(tag, sizeof(tag), "%" PRIu32 "-%016" PRIx64 "-%" PRIu64,
		 d->manifest.generation + 1, b->run, d->result.objects_after);
	rc = lake_merge_write(&d->merge, b->files.folder, tag, name, e);
	if (rc < 0)
		return rc;
	add_key(b, d->date, strbuf_text(name), &key);
	rc = key.failed ? out_of_memory(e) : put_file(b, strbuf_text(name), strbuf_text(&key), e);
	if (rc >= 0 && folder_stat(b->files.folder, strbuf_text(name), &st) == 0)
		d->result.bytes_after += (uint64_t)st.st_size;
	d->result.objects_after++;
	unlinkat(b->files.folder, strbuf_text(name), 0);
	return MIN(rc, 0);
}

static void leave(struct day *d, const struct object *o)
{
	d->result.objects_after++;
	d->result.bytes_after += o->bytes;
}

static void add_state(struct day *d, const char *name, enum lake_object_state state)
{
	struct fleet_compacted row = { .state = state };

	row.object = fleet_text(&d->rows, name);
	fleet_append(&d->rows, FLEET_compacted, &row);
}

/* Replaces a group of objects by one, which has no name if they have no rows. */
static int replace_group(struct day *d, struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	size_t rows = lake_merge_rows(&d->merge), commit = d->bucket->commits.count;
	int rc = rows ? add_object(d, &name, e) : 0;

	if (rc == 0 && rows)
		add_state(d, strbuf_text(&name), LAKE_OBJECT_LIVE);
	for (size_t i = 0; i < d->merged.count && rc == 0; i++) {
		add_state(d, d->merged.data[i]->name, LAKE_OBJECT_REPLACED);
		rc = remove_later(d->bucket, d->date, d->merged.data[i]->name, commit, e);
	}
	d->result.rows += rows;
	return rc < 0 ? rc : d->rows.failed ? out_of_memory(e) : 0;
}

/* Ends a group of objects. One in which all were made here stays as it is. */
static int flush(struct day *d, struct error *e)
{
	int rc = d->shipped ? replace_group(d, e) : 0;

	for (size_t i = 0; i < d->merged.count && !d->shipped; i++)
		leave(d, d->merged.data[i]);
	d->merged.count = d->shipped = 0;
	fleet_rows_clear(&d->merge.rows);
	return rc;
}

static int merge_object(struct day *d, const struct object *o, struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT, key = STRBUF_INIT;
	const struct bucket *b = d->bucket;
	bool is_made = lake_is_made(o->name);
	int rc = 0;

	if (is_made && o->bytes >= LAKE_LARGE_BYTES) {
		leave(d, o);
		return 0;
	}
	if (!lake_merge_fits(&d->merge, o->name))
		rc = flush(d, e);
	if (rc < 0)
		return rc;
	add_key(b, d->date, o->name, &key);
	if (key.failed)
		return out_of_memory(e);
	rc = s3_read(b->lake->s3, strbuf_text(&key), LAKE_OBJECT_BYTES_MAX, &bytes, e);
	if (rc == -ENOENT)
		return busy(b, e);
	if (rc < 0 && rc != E_LIMIT)
		return failed(b, "read", strbuf_text(&key), rc, e);
	rc = rc < 0 ? rc : lake_merge_add(&d->merge, o->name, &bytes, e);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		*e = (struct error){ 0 };
		d->result.unreadable++;
		leave(d, o);
		return 0;
	}
	d->shipped += !is_made;
	return vec_push(&d->merged, o) < 0 ? out_of_memory(e) : 0;
}

static void name_commit(const struct commit *c, char out[96])
{
	snprintf(out, 96, "%s.%s.parquet", fleet_schemas[c->table].name, c->date);
}

/* Writes the manifest into the temporary folder. */
static int prepare_commit(struct day *d, struct error *e)
{
	struct bucket *b = d->bucket;
	struct commit c = { .table = b->table, .generation = d->manifest.generation + 1 };
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	char name[96];
	int rc;

	snprintf(c.date, sizeof(c.date), "%s", d->date);
	name_commit(&c, name);
	strbuf_addf(&path, "%s/%s", b->files.path, name);
	c.result = d->result;
	rc = path.failed ? out_of_memory(e)
			 : fleet_write(FLEET_compacted, d->rows.values[FLEET_compacted].data,
				       fleet_row_count(&d->rows, FLEET_compacted), &d->rows.texts,
				       strbuf_text(&path), NULL, e);
	if (rc == 0 && vec_push(&b->commits, c) < 0)
		rc = out_of_memory(e);
	return rc;
}

/* The generation for which an object was made. */
static uint32_t generation_made(const char *name)
{
	return (uint32_t)strtoul(strstr(name, LAKE_MADE) + strlen(LAKE_MADE), NULL, 10);
}

/* What a run has left that was killed, or was too late. */
static int remove_left(struct day *d, const struct object *o, bool commits, struct error *e)
{
	uint32_t made = generation_made(o->name);

	if (made <= d->manifest.generation)
		return remove_later(d->bucket, d->date, o->name, ALREADY, e);
	if (commits && made == d->manifest.generation + 1)
		return remove_later(d->bucket, d->date, o->name, d->bucket->commits.count, e);
	return 0;
}

/* Objects of one day, [from, to). Whether it has any of agents that are to be merged. */
static bool is_due(const struct day *d, const struct object *from, const struct object *to)
{
	bool is = false;

	for (; from < to; from++)
		is |= !lake_is_made(from->name) &&
		      lake_manifest_state(&d->manifest, from->name) == LAKE_OBJECT_LIVE;
	return is;
}

static int visit_objects(struct day *d, const struct object *from, const struct object *to,
			 struct error *e)
{
	bool due = is_due(d, from, to);
	int rc = 0;

	for (const struct object *o = from; o < to && rc == 0; o++) {
		if (lake_manifest_state(&d->manifest, o->name) == LAKE_OBJECT_REPLACED) {
			rc = remove_later(d->bucket, d->date, o->name, ALREADY, e);
		} else if (due && lake_manifest_state(&d->manifest, o->name) == LAKE_OBJECT_LIVE) {
			d->result.objects_before++;
			d->result.bytes_before += o->bytes;
			rc = merge_object(d, o, e);
		}
	}
	rc = rc < 0 ? rc : flush(d, e);
	due = fleet_row_count(&d->rows, FLEET_compacted) > 0;
	for (const struct object *o = from; o < to && rc == 0; o++)
		if (lake_manifest_state(&d->manifest, o->name) == LAKE_OBJECT_PENDING)
			rc = remove_left(d, o, due, e);
	return rc < 0 ? rc : due ? prepare_commit(d, e) : 0;
}

static int compact_day(struct bucket *b, const struct object *from, const struct object *to,
		       struct error *e)
{
	struct day d = { .bucket = b, .date = from->date };
	uint32_t generation;
	int rc = generation_of(b, d.date, &generation, e);

	if (rc < 0)
		return rc;
	lake_merge_init(&d.merge, b->table);
	fleet_rows_init(&d.rows);
	rc = lake_manifest_read(b->lake, b->table, d.date, generation, &d.manifest, e);
	rc = rc < 0 ? rc : visit_objects(&d, from, to, e);
	if (rc == 0 && d.result.unreadable && !fleet_row_count(&d.rows, FLEET_compacted))
		report(b, b->table, from->date, &d.result);
	fleet_rows_release(&d.rows);
	lake_merge_release(&d.merge);
	lake_manifest_release(&d.manifest);
	vec_release(&d.merged);
	return rc;
}

/*
 * A server that ignores conditions would let two manifests of one generation be written. The object
 * that `pitot lake init` has made, which says that engines know of manifests, is put again.
 */
static int check_table(const struct bucket *b, enum fleet_table table, struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	_cleanup_close_ int file = -1;
	char key[96];
	int rc;

	snprintf(key, sizeof(key), LAKE_MANIFESTS "/%s/" LAKE_SCHEMA, fleet_schemas[table].name);
	rc = s3_read(b->lake->s3, key, LAKE_OBJECT_BYTES_MAX, &bytes, e);
	if (rc == -ENOENT)
		return error_set(e, rc,
				 "the statements of '%s' know nothing of compaction and would "
				 "count rows twice: pitot lake init %s writes new ones, which "
				 "engines have to load",
				 b->lake->path, b->lake->path);
	if (rc == 0)
		rc = file = lake_text_file(&bytes);
	if (rc >= 0)
		rc = s3_put(b->lake->s3, file, key, false, e);
	if (rc == 0)
		return error_set(e, E_UNSUPPORTED,
				 "the server of '%s' ignores If-None-Match, without which two that "
				 "compact at once would count rows twice",
				 b->lake->path);
	return rc < 0 ? failed(b, "use", key, rc, e) : 0;
}

static int compact_table(struct bucket *b, const char *today, struct error *e)
{
	int rc = list_table(b, e);
	size_t from = 0;

	for (size_t i = 1; i <= b->objects.count && rc == 0; i++) {
		const struct object *first = b->objects.data + from;

		if (i < b->objects.count && !strcmp(first->date, b->objects.data[i].date))
			continue;
		if (lake_is_past_day(first->date, today))
			rc = compact_day(b, first, b->objects.data + i, e);
		from = i;
	}
	return rc;
}

/* --- manifests, and what they replace --- */

static void wait_for_readers(const struct bucket *b)
{
	uint64_t until_ns = clock_monotonic_ns() + b->options->wait_ns, now_ns;

	b->options->waits(b->options->user, b->options->wait_ns);
	while ((now_ns = clock_monotonic_ns()) < until_ns)
		nanosleep(&(struct timespec){ .tv_sec = (time_t)((until_ns - now_ns) / NS_PER_S),
					      .tv_nsec = (long)((until_ns - now_ns) % NS_PER_S) },
			  NULL);
}

/* Whether the manifest that is there is this one, and the answer to it was lost. */
static int is_ours(const struct bucket *b, const char *key, const char *name, struct error *e)
{
	_cleanup_strbuf_ struct strbuf ours = STRBUF_INIT, found = STRBUF_INIT;
	int rc = folder_read_file(b->files.folder, name, LAKE_OBJECT_BYTES_MAX, &ours);

	if (rc < 0)
		return error_set(e, rc, "cannot read '%s/%s': %s", b->files.path, name,
				 error_code_text(rc));
	rc = s3_read(b->lake->s3, key, LAKE_OBJECT_BYTES_MAX, &found, e);
	if (rc < 0)
		return failed(b, "read", key, rc, e);
	return ours.length == found.length && !memcmp(ours.data, found.data, found.length);
}

static int commit(struct bucket *b, struct commit *c, struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	char name[96];
	int rc;

	name_commit(c, name);
	lake_manifest_add_key(&key, c->table, c->date, c->generation);
	rc = key.failed ? out_of_memory(e) : put_file(b, name, strbuf_text(&key), e);
	if (rc > 0) {
		rc = is_ours(b, strbuf_text(&key), name, e);
		rc = rc < 0 ? rc : rc ? 0 : busy(b, e);
	}
	c->is_done = rc == 0;
	unlinkat(b->files.folder, name, 0);
	return rc;
}

/* Writes all manifests. One that another has written first is no reason not to write the others. */
static int commit_all(struct bucket *b, struct error *e)
{
	bool is_late = false;
	int rc = 0;

	for (size_t i = 0; i < b->commits.count && rc == 0; i++) {
		struct commit *c = &b->commits.data[i];

		rc = commit(b, c, e);
		if (rc == 0)
			report(b, c->table, c->date, &c->result);
		is_late |= rc == -EBUSY;
		if (rc == -EBUSY)
			*e = (struct error){ .code = rc = 0 };
	}
	return rc < 0 ? rc : is_late;
}

static int remove_all(const struct bucket *b, struct error *e)
{
	int rc = 0;

	for (size_t i = 0; i < b->removals.count && rc == 0; i++) {
		const struct removal *r = &b->removals.data[i];

		if (r->commit == ALREADY || b->commits.data[r->commit].is_done)
			rc = failed(b, "remove", r->key, s3_remove(b->lake->s3, r->key, e), e);
	}
	return rc;
}

static int finish(struct bucket *b, struct error *e)
{
	int late = 0, rc;

	if (b->commits.count) {
		wait_for_readers(b);
		late = commit_all(b, e);
	}
	if (late < 0 || !b->removals.count)
		return late;
	wait_for_readers(b);
	rc = remove_all(b, e);
	return rc < 0 ? rc : late ? busy(b, e) : 0;
}

static void release(struct bucket *b)
{
	forget_table(b);
	vec_release(&b->objects);
	vec_release(&b->manifests);
	vec_release(&b->commits);
	for (size_t i = 0; i < b->removals.count; i++)
		free(b->removals.data[i].key);
	vec_release(&b->removals);
	lake_temporary_remove(&b->files);
}

int lake_compact_bucket(const struct lake *lake, const struct lake_compact_options *options,
			struct error *e)
{
	struct bucket b = { .lake = lake, .options = options };
	_cleanup_strbuf_ struct strbuf today = STRBUF_INIT;
	int rc = lake_temporary_make(&b.files, e);

	lake_add_date(&today, options->now_ns);
	if (rc == 0 && getrandom(&b.run, sizeof(b.run), 0) < 0)
		rc = error_errno(e, errno, "cannot get a random number");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++)
		rc = check_table(&b, t, e);
	for (; b.table < FLEET_TABLE_COUNT && rc == 0; b.table++)
		rc = today.failed ? out_of_memory(e)
				  : compact_table(&b, strbuf_text(&today) + strlen(LAKE_DATE), e);
	rc = rc < 0 ? rc : finish(&b, e);
	release(&b);
	return rc;
}
