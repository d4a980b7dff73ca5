#include "agent/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "export/flame/flame_formats.h"
#include "trace/events.h"

#define BYTES_MAX ((size_t)16 << 20)
#define SCRATCH "profile"

#define P(id, name, path, type, suffix) [PROFILE_##id] = { name, path, type, suffix },
const struct profile_server profile_servers[] = { PROFILE_KINDS(P) };
#undef P
#define P(id, name, path, type, suffix) [PROFILE_##id] = name,
const char *const profile_names[] = { PROFILE_KINDS(P) NULL };
#undef P

bool profile_needs(uint32_t table)
{
	const struct table_schema *schema = schema_table(table);

	return table == TABLE_api_call || table == TABLE_symbol ||
	       (schema && schema->repeated != REPEAT_NEVER);
}

/* Sets when the work of a batch began and ended. Returns whether some has times. */
static bool find_span(const struct trace *t, uint64_t *from_ns, uint64_t *until_ns)
{
	*from_ns = UINT64_MAX;
	*until_ns = 0;
	for (size_t kind = 0; kind < GPU_WORK_KINDS; kind++) {
		struct event_columns c = events_of(t, schema_gpu_work[kind]->id);

		for (uint64_t row = 0; row < c.rows; row++) {
			if (!event_is_timed(&c, row))
				continue;
			*from_ns = MIN(*from_ns, c.start_ns[row]);
			*until_ns = MAX(*until_ns, c.end_ns[row]);
		}
	}
	return *until_ns;
}

/* --- whose it is --- */

#define LABELS_MAX 7u
struct labels {
	struct flame_attribute items[LABELS_MAX];
	size_t count;
	char rank[16], pid[16], session[24];
};

static void add_label(struct labels *l, const char *name, const char *value)
{
	l->items[l->count++] = (struct flame_attribute){ name, value };
}

/* Names are those of the lake's tables, or of OpenTelemetry's conventions. */
static void label(struct labels *l, enum profile_kind kind, const struct trace *t,
		  const struct source *s)
{
	const bool is_otlp = kind == PROFILE_otlp;
	const struct source_identity *id = &s->identity;
	const char *program = base_name(trace_process(t, 0)->executable);

	l->count = 0;
	snprintf(l->rank, sizeof(l->rank), "%" PRIu32, id->rank);
	snprintf(l->pid, sizeof(l->pid), "%" PRIu32, s->pid);
	snprintf(l->session, sizeof(l->session), "%016" PRIx64, s->session);
	if (!is_otlp)
		add_label(l, "__name__", "pitot");
	add_label(l, is_otlp ? "service.name" : "service_name", *program ? program : "unknown");
	if (*id->job)
		add_label(l, is_otlp ? "pitot.job" : "job", id->job);
	add_label(l, is_otlp ? "host.name" : "host", id->host);
	if (id->rank != TRACE_NO_RANK)
		add_label(l, is_otlp ? "pitot.rank" : "rank", l->rank);
	add_label(l, is_otlp ? "process.pid" : "pid", l->pid);
	add_label(l, is_otlp ? "pitot.session" : "session", l->session);
}

/* --- requests --- */

static void add_labels(struct json *j, const struct labels *l)
{
	for (size_t i = 0; i < l->count; i++) {
		json_object(j);
		json_key_string(j, "name", l->items[i].name);
		json_key_string(j, "value", l->items[i].value);
		json_end(j);
	}
}

/* The id is random, and the same when the request is sent again. */
static int add_id(struct json *j)
{
	char text[40];
	uint16_t r[8];

	if (getrandom(r, sizeof(r), 0) != sizeof(r))
		return -errno;
	r[3] = (uint16_t)((r[3] & 0xfffu) | 0x4000u); /* version 4 */
	r[4] = (uint16_t)((r[4] & 0x3fffu) | 0x8000u);
	snprintf(text, sizeof(text), "%04x%04x-%04x-%04x-%04x-%04x%04x%04x", r[0], r[1], r[2], r[3],
		 r[4], r[5], r[6], r[7]);
	json_key_string(j, "ID", text);
	return 0;
}

/* Both servers have a list of series with labels and samples. */
static int render(enum profile_kind kind, const struct labels *labels, const struct strbuf *profile,
		  struct strbuf *body)
{
	struct json j = JSON_INIT(body);
	int rc = 0;

	json_object(&j);
	json_key_array(&j, "series");
	json_object(&j);
	if (kind == PROFILE_parca)
		json_key_object(&j, "labels");
	json_key_array(&j, "labels");
	add_labels(&j, labels);
	json_end(&j);
	if (kind == PROFILE_parca)
		json_end(&j);
	json_key_array(&j, "samples");
	json_object(&j);
	if (kind == PROFILE_pyroscope)
		rc = add_id(&j);
	json_key_string(&j, "rawProfile", "");
	body->length--; /* the quote at the end */
	strbuf_add_base64(body, profile->data, profile->length);
	strbuf_addc(body, '"');
	json_finish(&j);
	return rc < 0 ? rc : body->failed ? -ENOMEM : 0;
}

/* --- profiles --- */

static int write_profile(struct spool *s, const struct flame *f, const struct profile_server *to,
			 const struct flame_write *w, struct strbuf *out, struct error *e)
{
	char path[64], name[32];
	int rc;

	snprintf(name, sizeof(name), SCRATCH "%s", to->suffix);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", s->folder, name);
	rc = flame_write(f, flame_format_by_path(name), w, path, true, NULL, e);
	if (rc < 0)
		return rc;
	rc = folder_read_file(s->folder, name, BYTES_MAX, out);
	unlinkat(s->folder, name, 0);
	return rc < 0 ? error_set(e, rc, "cannot read '%s/%s': %s", s->path, name,
				  error_code_text(rc))
		      : 0;
}

static int add(struct spool *s, enum profile_kind kind, const struct flame *f,
	       const struct source *source, struct flame_write *w, struct error *e)
{
	_cleanup_strbuf_ struct strbuf profile = STRBUF_INIT, body = STRBUF_INIT;
	const struct source_identity *id = &source->identity;
	struct spool_part part = { .table = "profile",
				   .sink = SPOOL_PROFILES,
				   .rows = f->sections[FLAME_GPU].count,
				   .from_ns = w->from_ns + (uint64_t)id->offset_ns,
				   .until_ns = w->until_ns + (uint64_t)id->offset_ns,
				   .job = id->job,
				   .host = id->host };
	struct labels labels;
	int rc;

	label(&labels, kind, f->stacks.trace, source);
	w->attributes = labels.items;
	w->attribute_count = labels.count;
	rc = write_profile(s, f, &profile_servers[kind], w, &profile, e);
	if (rc < 0 || kind == PROFILE_otlp)
		return rc < 0 ? rc : spool_add(s, &part, &profile, e);
	rc = render(kind, &labels, &profile, &body);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : spool_add(s, &part, &body, e);
}

int profile_add(struct spool *s, enum profile_kind kind, struct trace *t,
		const struct source *source, struct error *e)
{
	struct flame_options options = { .kinds = 1 << FLAME_GPU,
					 .levels = 1 << FLAME_BY_DEVICE,
					 .detail = STACK_ADDRESSES,
					 .until_ns = UINT64_MAX };
	struct flame_write w = { .title = trace_process(t, 0)->command, .notes = "" };
	struct flame f;
	int rc;

	if (!find_span(t, &w.from_ns, &w.until_ns))
		return 0;
	rc = flame_init(&f, t, &options, e);
	if (rc < 0)
		return rc;
	rc = flame_finish(&f, false);
	rc = rc < 0 ? error_set(e, rc, "out of memory") : add(s, kind, &f, source, &w, e);
	flame_release(&f);
	return rc;
}
