#include "agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"

#define STATE "state.json"
#define LOCK "lock"
#define STATE_BYTES_MAX ((size_t)16 << 20)
#define DROPPED "dropped!"
#define REFUSED "refused!"
#define SENT "sent!"
#define SENT_S (7 * 24 * 3600)
#define WINDOW LAKE_WINDOWS "!"

static const char *const suffixes[] = {
	[SPOOL_LAKE] = ".parquet",
	[SPOOL_KAFKA] = ".jsonl",
	[SPOOL_PROFILES] = ".profile",
};
#define OBJECT_SINKS ARRAY_SIZE(suffixes)

static void release_object(struct spool_object *o)
{
	free(o->name);
}

/* --- opening --- */

static int lock_folder(struct spool *s, struct error *e)
{
	s->lock = folder_open_file(s->folder, LOCK, O_RDONLY, FOLDER_OWN);
	if (s->lock == -ENOENT)
		s->lock = folder_create_file(s->folder, LOCK);
	if (s->lock < 0)
		return error_set(e, s->lock, "cannot write '%s/" LOCK "': %s", s->path,
				 error_code_text(s->lock));
	if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return error_set(e, -errno,
			 "another agent uses the spool '%s': choose another folder with --spool",
			 s->path);
}

int spool_open(struct spool *s, const char *path, struct strbuf *state, struct error *e)
{
	int rc;

	s->path = path;
	s->folder = s->lock = -1;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(e, errno, "cannot make the spool '%s'", path);
	s->folder = folder_open(path, FOLDER_OWN);
	if (s->folder < 0)
		return error_set(e, s->folder, "cannot open the spool '%s': %s", path,
				 error_code_text(s->folder));
	rc = lock_folder(s, e);
	if (rc < 0)
		return rc;
	rc = folder_read_file(s->folder, STATE, STATE_BYTES_MAX, state);
	return rc < 0 && rc != -ENOENT ? error_set(e, rc, "cannot read '%s/" STATE "': %s", path,
						   error_code_text(rc))
				       : 0;
}

/* Reads a name of the spool. Returns false if it is none. */
static bool parse_name(const char *name, struct spool_object *o)
{
	*o = (struct spool_object){ .is_dropped = starts_with(name, DROPPED) ||
						  starts_with(name, REFUSED) };
	while (o->sink < OBJECT_SINKS && !has_suffix(name, suffixes[o->sink]))
		o->sink++;
	name += o->is_dropped ? strlen(DROPPED) : 0;
	return sscanf(name, "%" SCNu64 "!%" SCNu64 "!", &o->batch, &o->rows) == 2 &&
	       o->sink < OBJECT_SINKS;
}

ORDER(by_batch, struct spool_object, UP(batch) ?: strcmp(a->name, b->name))

static int add_object(struct spool *s, const char *name, const struct spool_object *parsed)
{
	struct spool_object o = *parsed;
	struct stat st;
	int rc = folder_stat(s->folder, name, &st);

	if (rc < 0)
		return rc;
	o.bytes = (uint64_t)st.st_size;
	o.name = strdup(name);
	if (!o.name || vec_push(&s->objects, o) < 0) {
		free(o.name);
		return -ENOMEM;
	}
	s->bytes += o.bytes;
	return 0;
}

/* A loss of a batch that the state names is in a row; of a later one, it is yet to be said. */
static int recover_name(struct spool *s, const char *name)
{
	struct spool_object o;

	if (!strcmp(name, STATE) || !strcmp(name, LOCK) || starts_with(name, WINDOW) ||
	    starts_with(name, SENT))
		return 0;
	if (!parse_name(name, &o) || (o.is_dropped ? o.batch <= s->batch : o.batch > s->batch)) {
		unlinkat(s->folder, name, 0);
		return 0;
	}
	if (starts_with(name, REFUSED))
		s->refused_rows += o.rows;
	else if (o.is_dropped)
		s->dropped_rows[o.sink] += o.rows;
	return add_object(s, name, &o);
}

int spool_recover(struct spool *s, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(s->folder);
	const char *name;
	int rc = list ? 0 : -errno;

	while (rc == 0 && (name = folder_next(list)))
		rc = recover_name(s, name);
	vec_sort(&s->objects, by_batch);
	return rc < 0 ? error_set(e, rc, "cannot read the spool '%s': %s", s->path,
				  error_code_text(rc))
		      : 0;
}

void spool_release(struct spool *s)
{
	for (size_t i = 0; i < s->objects.count; i++)
		release_object(&s->objects.data[i]);
	vec_release(&s->objects);
	fd_close(&s->lock);
	fd_close(&s->folder);
}

/* --- objects --- */

/* Rows of one job and day. */
struct part {
	uint64_t job, day;
	bool has_job;
	VEC(uint64_t) values;
	uint64_t rows, from_ns, until_ns;
	const char *host;
};

static int add_row(struct part *p, const uint64_t *row, size_t words, uint64_t time_ns)
{
	if (vec_reserve(&p->values, words) < 0)
		return -ENOMEM;
	memcpy(p->values.data + p->values.count, row, words * sizeof(*row));
	p->values.count += words;
	p->from_ns = p->rows ? MIN(p->from_ns, time_ns) : time_ns;
	p->until_ns = MAX(p->until_ns, time_ns);
	p->rows++;
	return 0;
}

/* Several profiles of a process are in one batch, so objects of a batch are numbered. */
static void make_name(const struct spool *s, const struct spool_part *p, struct strbuf *name)
{
	uint64_t batch = s->batch + 1;
	size_t number = 0;

	for (size_t i = 0; i < s->objects.count; i++)
		number += s->objects.data[i].batch == batch;
	strbuf_addf(name, "%" PRIu64 "!%" PRIu64 "!%s!", batch, p->rows, p->table);
	lake_add_date(name, p->from_ns);
	strbuf_addc(name, '!');
	lake_add_name(name, p->job);
	strbuf_addc(name, '.');
	lake_add_name(name, p->host);
	strbuf_addc(name, '.');
	lake_add_time(name, p->from_ns);
	strbuf_addc(name, '-');
	lake_add_time(name, p->until_ns);
	strbuf_addf(name, ".%016" PRIx64 "-%" PRIu64, s->agent, batch);
	if (p->sink == SPOOL_PROFILES)
		strbuf_addf(name, "-%zu", number);
	strbuf_adds(name, suffixes[p->sink]);
}

static int write_text(struct spool *s, const char *name, const struct strbuf *text, struct error *e)
{
	int rc = text->failed ? -ENOMEM : folder_write_file(s->folder, name, text, true);

	return rc < 0 ? error_set(e, rc, "cannot write into the spool '%s': %s", s->path,
				  error_code_text(rc))
		      : 0;
}

static int write_file(struct spool *s, const struct fleet_rows *rows, enum fleet_table table,
		      const struct part *p, enum spool_sink sink, const char *name, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, path = STRBUF_INIT;

	if (sink == SPOOL_KAFKA) {
		fleet_add_json(table, p->values.data, p->rows, &rows->texts, &text);
		return write_text(s, name, &text, e);
	}
	strbuf_addf(&path, "/proc/self/fd/%d/%s", s->folder, name);
	if (path.failed)
		return error_set(e, -ENOMEM, "out of memory");
	return fleet_write(table, p->values.data, p->rows, &rows->texts, strbuf_text(&path), NULL,
			   e);
}

/* It is on the disk. */
static int append_object(struct spool *s, const struct spool_part *p, const char *name,
			 struct error *e)
{
	struct spool_object o = { .sink = p->sink, .batch = s->batch + 1, .rows = p->rows };
	int rc = add_object(s, name, &o);

	return rc < 0 ? error_set(e, rc, "cannot write into the spool '%s'", s->path) : 0;
}

int spool_add(struct spool *s, const struct spool_part *part, const struct strbuf *text,
	      struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	int rc;

	make_name(s, part, &name);
	if (name.failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = write_text(s, strbuf_text(&name), text, e);
	return rc < 0 ? rc : append_object(s, part, strbuf_text(&name), e);
}

static int write_part(struct spool *s, const struct fleet_rows *rows, enum fleet_table table,
		      const struct part *p, enum spool_sink sink, struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	const struct spool_part part = { .table = fleet_schemas[table].name,
					 .sink = sink,
					 .rows = p->rows,
					 .from_ns = p->from_ns,
					 .until_ns = p->until_ns,
					 .job = p->has_job ? rows->texts.items[p->job].text : "",
					 .host = p->host };
	int rc;

	make_name(s, &part, &name);
	if (name.failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = write_file(s, rows, table, p, sink, strbuf_text(&name), e);
	if (rc < 0)
		return rc;
	fd = folder_open_file(s->folder, strbuf_text(&name), O_RDONLY, FOLDER_OWN);
	if (fd < 0 || fsync(fd) < 0)
		return error_set(e, fd < 0 ? fd : -errno, "cannot write into the spool '%s'",
				 s->path);
	return append_object(s, &part, strbuf_text(&name), e);
}

/* Finds or adds the part of a row. */
static struct part *part_of(struct part **parts, size_t *count, const struct part *key)
{
	struct part *grown;

	for (size_t i = 0; i < *count; i++) {
		struct part *p = &(*parts)[i];

		if (p->day == key->day && p->has_job == key->has_job &&
		    (!p->has_job || p->job == key->job))
			return p;
	}
	grown = realloc(*parts, (*count + 1) * sizeof(**parts));
	if (!grown)
		return NULL;
	*parts = grown;
	grown[*count] = *key;
	return &grown[(*count)++];
}

static int split(const struct fleet_rows *rows, enum fleet_table table, struct part **parts,
		 size_t *count)
{
	const struct fleet_schema *schema = &fleet_schemas[table];
	size_t words = 1 + schema->column_count;
	const uint64_t *values = rows->values[table].data;

	for (size_t i = 0; i < rows->values[table].count; i += words) {
		const uint64_t *row = values + i;
		uint64_t time_ns = row[1 + schema->time_column];
		struct part key = { .day = time_ns / (86400 * NS_PER_S),
				    .has_job = !(row[0] >> schema->job_column & 1),
				    .job = row[1 + schema->job_column],
				    .host = rows->texts.items[row[1 + schema->host_column]].text };
		struct part *p = part_of(parts, count, &key);

		if (!p || add_row(p, row, words, time_ns) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void remove_object(struct spool *s, size_t i)
{
	struct spool_object *o = &s->objects.data[i];

	if (o->name)
		unlinkat(s->folder, o->name, 0);
	s->bytes -= o->bytes;
	release_object(o);
	s->objects.count--;
	memmove(o, o + 1, (s->objects.count - i) * sizeof(*o));
}

/* Removes the objects of the batch that is not committed, but for those that are made once. */
static void undo(struct spool *s)
{
	for (size_t i = s->objects.count; i-- > 0;) {
		const struct spool_object *o = &s->objects.data[i];

		if (o->batch > s->batch && !o->is_dropped && o->sink != SPOOL_PROFILES)
			remove_object(s, i);
	}
}

static int write_table(struct spool *s, const struct fleet_rows *rows, enum fleet_table table,
		       struct error *e)
{
	_cleanup_free_ struct part *parts = NULL;
	size_t count = 0;
	int rc = split(rows, table, &parts, &count);

	if (rc < 0)
		error_set(e, rc, "out of memory");
	for (size_t i = 0; i < count; i++) {
		for (enum spool_sink sink = 0; sink < OBJECT_SINKS && rc == 0; sink++)
			if (sink == SPOOL_LAKE || (sink == SPOOL_KAFKA && s->has_kafka))
				rc = write_part(s, rows, table, &parts[i], sink, e);
		vec_release(&parts[i].values);
	}
	return rc;
}

int spool_write(struct spool *s, const struct fleet_rows *rows, struct error *e)
{
	int rc = 0;

	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++)
		rc = write_table(s, rows, t, e);
	if (rc == 0)
		rc = folder_sync(s->folder);
	if (rc < 0)
		undo(s);
	return rc;
}

/* --- a batch becomes part of the lake's future --- */

static void empty(const struct spool *s, const char *name)
{
	_cleanup_close_ int fd = folder_open_file(s->folder, name, O_WRONLY, FOLDER_OWN);

	if (fd >= 0)
		(void)!ftruncate(fd, 0);
}

/* Its loss is that of the next batch, also if this process ends before. */
static int drop_object(struct spool *s, struct spool_object *o, const char *as)
{
	char name[80];
	int rc;

	snprintf(name, sizeof(name), "%s%" PRIu64 "!%" PRIu64 "!%016" PRIx64 "%s", as, s->batch + 1,
		 o->rows, hash_bytes(o->name, strlen(o->name)), suffixes[o->sink]);
	rc = folder_rename_new(s->folder, o->name, s->folder, name);
	if (rc < 0)
		return rc;
	empty(s, name);
	s->bytes -= o->bytes;
	release_object(o);
	*o = (struct spool_object){ strdup(name), o->sink, s->batch + 1, o->rows, 0, true };
	return 0;
}

/* The oldest objects make room. */
static void drop(struct spool *s)
{
	for (size_t i = 0; i < s->objects.count && s->bytes > s->bytes_max; i++) {
		struct spool_object *o = &s->objects.data[i];

		if (o->is_dropped)
			continue;
		if (drop_object(s, o, DROPPED) < 0)
			return;
		s->dropped_rows[o->sink] += o->rows;
	}
}

int spool_commit(struct spool *s, const struct strbuf *state, struct error *e)
{
	int rc = folder_write_file(s->folder, STATE, state, true);

	if (rc == 0)
		rc = folder_sync(s->folder);
	if (rc < 0) {
		undo(s);
		return error_set(e, rc, "cannot write '%s/" STATE "': %s", s->path,
				 error_code_text(rc));
	}
	s->batch++;
	memset(s->dropped_rows, 0, sizeof(s->dropped_rows));
	for (size_t i = s->objects.count; i-- > 0;)
		if (s->objects.data[i].is_dropped)
			remove_object(s, i);
	drop(s);
	return 0;
}

/* --- shipping --- */

/* The key in the lake is a part of a name. False: it is too long. */
static bool make_key(const char *name, char key[LAKE_KEY_MAX])
{
	if ((size_t)snprintf(key, LAKE_KEY_MAX, "%s", name) >= LAKE_KEY_MAX)
		return false;
	for (char *c = key; *c; c++)
		*c = *c == '!' ? '/' : *c;
	return true;
}

static int ship(struct spool *s, const struct spool_object *o, spool_put *put, void *user,
		struct error *e)
{
	_cleanup_close_ int file = -1;
	const char *batch = strchr(o->name, '!'), *at = batch ? strchr(batch + 1, '!') : NULL;
	char key[LAKE_KEY_MAX], table[32];

	if (!at || !make_key(at + 1, key))
		return error_set(e, -EINVAL, "'%s' is no object", o->name);
	snprintf(table, sizeof(table), "%.*s", (int)strcspn(key, "/"), key);
	file = folder_open_file(s->folder, o->name, O_RDONLY, FOLDER_OWN);
	if (file < 0)
		return error_set(e, file, "cannot read '%s/%s': %s", s->path, o->name,
				 error_code_text(file));
	return put(user, file, table, key, base_name(key), e);
}

int spool_ship(struct spool *s, enum spool_sink sink, spool_put *put, void *user, uint64_t until_ns,
	       struct spool_shipped *out, struct error *e)
{
	for (size_t i = 0; i < s->objects.count;) {
		struct spool_object *o = &s->objects.data[i];
		int rc = 1;

		if (o->is_dropped || o->batch > s->batch || o->sink != sink) {
			i++;
			continue;
		}
		if (clock_monotonic_ns() < until_ns)
			rc = ship(s, o, put, user, e);
		if (rc == SPOOL_REFUSED) {
			rc = drop_object(s, o, REFUSED);
			s->refused_rows += rc == 0 ? o->rows : 0;
			if (rc == 0)
				continue;
		}
		if (rc < 0)
			return rc;
		if (rc == 0) {
			remove_object(s, i);
			out->objects++;
		}
		out->is_waiting |= rc > 0;
		i += rc > 0;
	}
	return 0;
}

/* --- windows --- */

static void name_sent(char out[48], const char *window, enum spool_sink sink)
{
	snprintf(out, 48, SENT "%d!%016" PRIx64, (int)sink, hash_bytes(window, strlen(window)));
}

static bool is_sent(const struct spool *s, const char *window, enum spool_sink sink)
{
	struct stat st;
	char name[48];

	name_sent(name, window, sink);
	return folder_stat(s->folder, name, &st) == 0;
}

/*
 * Removes the window if all have it. What says so stays: after a restart a rule may hold again, and
 * make the window again.
 */
static int set_sent(const struct spool *s, const char *window, enum spool_sink sink)
{
	static const struct strbuf empty = STRBUF_INIT;
	bool all = true;
	char name[48];
	int rc = 0;

	name_sent(name, window, sink);
	if (s->window_sinks != 1u << SPOOL_LAKE) /* a lake knows what it has */
		rc = folder_write_file(s->folder, name, &empty, true);
	for (enum spool_sink i = 0; i < SPOOL_SINKS; i++)
		all &= !(s->window_sinks & 1u << i) || i == sink || is_sent(s, window, i);
	if (rc == 0 && all)
		lake_remove_folder(s->folder, window);
	return rc;
}

static void expire_sent(const struct spool *s, const char *name)
{
	struct stat st;

	if (folder_stat(s->folder, name, &st) == 0 &&
	    st.st_mtim.tv_sec + SENT_S < (time_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_S))
		unlinkat(s->folder, name, 0);
}

int spool_ship_windows(struct spool *s, enum spool_sink sink, spool_put_window *put, void *user,
		       uint64_t until_ns, struct spool_shipped *out, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(s->folder);
	char key[LAKE_KEY_MAX];
	const char *name;

	while (list && (name = folder_next(list))) {
		bool sent;
		int rc;

		if (starts_with(name, SENT))
			expire_sent(s, name);
		if (!starts_with(name, WINDOW) || !make_key(name, key))
			continue;
		sent = is_sent(s, name, sink);
		if (!sent && clock_monotonic_ns() >= until_ns) {
			out->is_waiting = true;
			break;
		}
		rc = sent ? 0 : put(user, name, key, e);
		if (rc < 0)
			return rc;
		rc = set_sent(s, name, sink);
		if (rc < 0)
			return error_set(e, rc, "cannot write into the spool '%s': %s", s->path,
					 error_code_text(rc));
		out->objects += !sent;
	}
	return 0;
}
