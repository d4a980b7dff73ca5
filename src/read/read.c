#include "pitot/read.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "export/exporter.h"
#include "read/read_report.h"
#include "read/read_sql.h"
#include "read/read_table.h"

/* The interface has the error codes of struct error. */
#define SAME_CODE(name) _Static_assert((int)PITOT_READ_##name == (int)E_##name, #name)
SAME_CODE(FORMAT);
SAME_CODE(VERSION);
SAME_CODE(UNSUPPORTED);
SAME_CODE(USAGE);
SAME_CODE(LIMIT);

struct pitot_recording {
	atomic_uint references; /* the user's, and one per array */
	pthread_mutex_t lock; /* held while columns are loaded; loaded columns do not change */
	struct trace *trace;
	char *path;
	/*
	 * For statements, with a trace of its own, because arrays of the other one live on; made
	 * when it is first needed.
	 */
	struct sql *sql;
	struct trace *sql_trace;
	enum table_id followed; /* table of which only the new rows are loaded; 0: none */
};

int read_finish(int result, const struct error *e, struct pitot_read_error *out)
{
	if (result >= 0 || !out)
		return result;
	out->code = result;
	snprintf(out->text, sizeof(out->text), "%s", *e->text ? e->text : error_code_text(result));
	return result;
}

/* Copies the members that exist in the caller's version of the struct. */
#define COPY_OPTIONS(to, from) memcpy(&(to), (from), MIN((from)->size, sizeof(to)))

void recording_ref(struct pitot_recording *r)
{
	atomic_fetch_add(&r->references, 1);
}

void pitot_read_close(struct pitot_recording *r)
{
	if (!r || atomic_fetch_sub(&r->references, 1) > 1)
		return;
	sql_free(r->sql);
	trace_free(r->sql_trace);
	trace_free(r->trace);
	pthread_mutex_destroy(&r->lock);
	free(r->path);
	free(r);
}

const char *pitot_read_version(void)
{
	return PITOT_VERSION;
}

int pitot_read_open(const char *path, struct pitot_recording **out, struct pitot_read_error *error)
{
	struct pitot_recording *r = calloc(1, sizeof(*r));
	struct error e = { 0 };
	int result = -ENOMEM;

	if (!r)
		return read_finish(-ENOMEM, &e, error);
	r->references = 1;
	pthread_mutex_init(&r->lock, NULL);
	/* The process may change its folder. Why there is no path is for trace_open() to say. */
	r->path = realpath(path, NULL);
	if (!r->path)
		r->path = strdup(path);
	if (r->path)
		result = trace_open(path, NULL, &r->trace, &e);
	if (result < 0)
		pitot_read_close(r);
	else
		*out = r;
	return read_finish(result, &e, error);
}

static int check_followed(const struct table_schema *table, const char *name, struct error *e)
{
	if (!table)
		return read_table_unknown(name, e);
	if (table->time_column < 0 || table->repeated)
		return error_set(e, E_USAGE,
				 "table '%s' cannot be followed: its rows are not events", name);
	return 0;
}

int pitot_read_follow(const struct pitot_recording *before, const char *table,
		      struct pitot_recording **out, struct pitot_read_error *error)
{
	const struct table_schema *schema = table ? schema_table_by_name(table) : NULL;
	struct pitot_recording *r;
	struct error e = { 0 };
	int result = check_followed(schema, table, &e);

	if (result < 0)
		return read_finish(result, &e, error);
	result = pitot_read_open(before->path, &r, error);
	if (result < 0)
		return result;
	r->followed = (enum table_id)schema->id;
	result = trace_only_new(r->trace, r->followed, before->trace);
	if (result < 0)
		pitot_read_close(r);
	else
		*out = r;
	return read_finish(result, &e, error);
}

void pitot_read_span(const struct pitot_recording *r, struct pitot_read_span *out)
{
	trace_span(r->trace, &out->start_ns, &out->end_ns);
	out->unix_offset_ns = trace_unix_ns(r->trace, 0);
}

int pitot_read_info(struct pitot_recording *r, size_t index, struct pitot_read_info *out,
		    struct pitot_read_error *error)
{
	struct error e = { 0 };
	int result;

	if (index >= TABLE_MAX)
		return 0;
	pthread_mutex_lock(&r->lock);
	result = trace_load_repeated(r->trace, &e);
	if (result >= 0)
		*out = (struct pitot_read_info){
			.name = schema_table((uint32_t)index + 1)->name,
			.meaning = schema_table((uint32_t)index + 1)->meaning,
			.rows = trace_rows(r->trace, (enum table_id)(index + 1)),
		};
	pthread_mutex_unlock(&r->lock);
	return result < 0 ? read_finish(result, &e, error) : 1;
}

struct stream {
	struct ArrowSchema schema;
	struct ArrowArray array; /* NULL release after it has been returned */
};

/* All known consumers request the schema once; a second request fails instead of copying it. */
static int stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
	struct stream *stream = s->private_data;

	if (!stream->schema.release)
		return EINVAL;
	*out = stream->schema;
	stream->schema.release = NULL;
	return 0;
}

static int stream_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
	struct stream *stream = s->private_data;

	*out = stream->array;
	stream->array.release = NULL;
	return 0;
}

static const char *stream_error(struct ArrowArrayStream *s)
{
	(void)s;
	return "the schema has already been returned";
}

static void stream_release(struct ArrowArrayStream *s)
{
	struct stream *stream = s->private_data;

	if (stream->schema.release)
		stream->schema.release(&stream->schema);
	if (stream->array.release)
		stream->array.release(&stream->array);
	free(stream);
	s->release = NULL;
}

static struct ArrowArrayStream stream_of(struct stream *stream)
{
	return (struct ArrowArrayStream){ .get_schema = stream_schema,
					  .get_next = stream_next,
					  .get_last_error = stream_error,
					  .release = stream_release,
					  .private_data = stream };
}

/* Returns only the schema if `array` is NULL. */
static int read_query(struct pitot_recording *r, const struct pitot_read_query *query,
		      struct ArrowSchema *schema, struct ArrowArray *array, struct error *e)
{
	struct pitot_read_query own = { 0 };
	struct read_table table = { .without_scopes = r->followed == TABLE_nvtx };
	int result;

	COPY_OPTIONS(own, query);
	pthread_mutex_lock(&r->lock);
	result = read_table_init(&table, r->trace, &own, e);
	if (result >= 0)
		result = read_table_schema(&table, schema);
	if (result >= 0 && array) {
		result = read_table_array(&table, r, array, e);
		if (result < 0)
			schema->release(schema);
	}
	read_table_release(&table);
	pthread_mutex_unlock(&r->lock);
	return result;
}

int pitot_read_schema(struct pitot_recording *r, const struct pitot_read_query *query,
		      struct ArrowSchema *out, struct pitot_read_error *error)
{
	struct error e = { 0 };

	return read_finish(read_query(r, query, out, NULL, &e), &e, error);
}

int pitot_read_table(struct pitot_recording *r, const struct pitot_read_query *query,
		     struct ArrowArrayStream *out, struct pitot_read_error *error)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct error e = { 0 };
	int result = stream ? read_query(r, query, &stream->schema, &stream->array, &e) : -ENOMEM;

	if (result < 0) {
		free(stream);
		return read_finish(result, &e, error);
	}
	*out = stream_of(stream);
	return 0;
}

static int open_sql(struct pitot_recording *r, struct error *e)
{
	struct sql_options options = { .timeout_name = "timeout", .memory_name = "memory_limit" };
	struct sql_recording recording = { .path = r->path };
	const char *slash = strrchr(r->path, '/');
	int result = r->sql_trace ? 0 : trace_open(r->path, NULL, &r->sql_trace, e);

	recording.name = slash && slash[1] ? slash + 1 : r->path;
	recording.trace = r->sql_trace;
	return result < 0 || r->sql ? result : sql_open(&recording, 1, &options, &r->sql, e);
}

int pitot_read_sql(struct pitot_recording *r, const char *statement,
		   const struct pitot_read_limits *limits, struct ArrowArrayStream *out,
		   struct pitot_read_error *error)
{
	struct pitot_read_limits l = { .memory_bytes = SQL_MEMORY_BYTES };
	struct stream *stream = calloc(1, sizeof(*stream));
	struct error e = { 0 };
	int result = -ENOMEM;

	if (limits)
		COPY_OPTIONS(l, limits);
	if (stream) {
		pthread_mutex_lock(&r->lock);
		result = open_sql(r, &e);
		if (result >= 0)
			result = read_sql(r->sql, statement, &l, &stream->schema,
					  out ? &stream->array : NULL, &e);
		pthread_mutex_unlock(&r->lock);
	}
	if (result >= 0 && out)
		*out = stream_of(stream);
	else
		free(stream);
	return read_finish(result, &e, error);
}

/*
 * Converts times relative to the recording's start to CLOCK_MONOTONIC. E_USAGE if the window is
 * empty.
 */
static int find_window(const struct trace *t, uint64_t *since_ns, uint64_t *until_ns,
		       struct error *e)
{
	uint64_t start_ns, end_ns, until = *until_ns;

	trace_span(t, &start_ns, &end_ns);
	if (*since_ns && __builtin_add_overflow(start_ns, *since_ns, since_ns))
		*since_ns = UINT64_MAX;
	if (!until || __builtin_add_overflow(start_ns, until, until_ns))
		*until_ns = UINT64_MAX;
	return *since_ns < *until_ns ? 0 : error_set(e, E_USAGE, "since must be before until");
}

int pitot_read_report(const struct pitot_recording *r, const struct pitot_read_report *options,
		      char **json, struct pitot_read_error *error)
{
	struct pitot_read_report own = PITOT_READ_REPORT_INIT;
	struct error e = { 0 };
	struct trace *t;
	int result;

	COPY_OPTIONS(own, options);
	result = trace_open(r->path, NULL, &t, &e);
	if (result < 0)
		return read_finish(result, &e, error);
	result = find_window(t, &own.since_ns, &own.until_ns, &e);
	if (result >= 0)
		result = read_report(t, r->path, &own, json, &e);
	trace_free(t);
	return read_finish(result, &e, error);
}

static const struct exporter *find_exporter(const char *path, const char *format, struct error *e)
{
	_cleanup_strbuf_ struct strbuf known = STRBUF_INIT;
	const struct exporter *found = format ? exporters : exporter_by_path(path);

	while (format && found->file.name && strcmp(found->file.name, format))
		found++;
	if (found && found->file.name)
		return found;
	file_formats_list(exporters, sizeof(*exporters), &known);
	if (format)
		error_set(e, E_USAGE, "unknown format '%s': choose one of %s", format,
			  strbuf_text(&known));
	else
		error_set(e, E_USAGE, "no format matches '%s': give one of %s", path,
			  strbuf_text(&known));
	return NULL;
}

int pitot_read_export(const struct pitot_recording *r, const char *path,
		      const struct pitot_read_export *options, uint64_t *events,
		      struct pitot_read_error *error)
{
	struct pitot_read_export own = { 0 };
	struct export_options x = EXPORT_ALL;
	struct export_result written;
	const struct exporter *exporter;
	struct error e = { 0 };
	struct trace *t;
	int result;

	COPY_OPTIONS(own, options);
	exporter = find_exporter(path, own.format, &e);
	result = exporter ? trace_open(r->path, NULL, &t, &e) : E_USAGE;
	if (result < 0)
		return read_finish(result, &e, error);
	result = find_window(t, &own.since_ns, &own.until_ns, &e);
	x.since_ns = own.since_ns;
	x.until_ns = own.until_ns;
	x.kernel = own.kernel;
	x.overwrite = own.overwrite;
	if (result >= 0)
		result = exporter->write(t, &x, path, &written, &e);
	if (result == -ENODATA)
		error_set(&e, result,
			  "nothing to export: no event of the recording matches the conditions");
	if (result >= 0)
		*events = export_result_events(&written);
	trace_free(t);
	return read_finish(result, &e, error);
}
