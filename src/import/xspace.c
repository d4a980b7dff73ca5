/*
 * xspace.c: converts XSpace files (*.xplane.pb), the protobuf messages of JAX, TensorFlow and
 * PyTorch/XLA. A space has planes: GPUs, TPUs and the threads of the host; a plane has lines with
 * events, and tables of the names of events and of their statistics, which come after the lines.
 * Therefore the file is read as a whole. Times are picoseconds, and are rounded to nanoseconds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/proto_read.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/event_words.h"

#define FILE_BYTES_MAX ((size_t)1 << 31) /* protobuf's own limit */
#define FLUSH_EVENTS 100000u
#define NAMES_MAX ((size_t)1 << 22) /* of events, and of statistics, of a plane */
#define SPARSE_CORE_SHIFT                                                                          \
	16u /* streams of a TPU's sparse cores: their number plus 1, and the line */

enum { SPACE_PLANE = 1, SPACE_HOST = 4 };
enum { PLANE_NAME = 2, PLANE_LINE, PLANE_EVENTS, PLANE_STATS, PLANE_STAT };
enum { LINE_ID = 1, LINE_NAME, LINE_TIME, LINE_EVENT };
enum { EVENT_NAME = 1, EVENT_OFFSET, EVENT_DURATION, EVENT_STAT };
enum { STAT_NAME = 1, STAT_UNSIGNED = 3, STAT_SIGNED, STAT_TEXT, STAT_BYTES, STAT_REFERENCE };
enum { ENTRY_KEY = 1, ENTRY_VALUE };
enum { NAME_TEXT = 2, NAME_SHOWN = 4 };

/* Statistics that are read: S(id, name). */
#define STATISTICS(S)                                                                              \
	S(CORRELATION, "correlation_id")                                                           \
	S(CONTEXT, "context_id")                                                                   \
	S(KERNEL, "kernel_details")                                                                \
	S(COPY, "memcpy_details")                                                                  \
	S(SET, "memset_details")                                                                   \
	S(VENDOR, "device_vendor")                                                                 \
	S(TYPE, "device_type_string")                                                              \
	S(MAJOR, "compute_cap_major")                                                              \
	S(MINOR, "compute_cap_minor")                                                              \
	S(CORES, "core_count")                                                                     \
	S(MEMORY, "memory_size")
#define STATISTIC(id, name) ON_##id,
enum statistic { STATISTICS(STATISTIC) STATISTICS_END };

struct text {
	const char *bytes;
	size_t length;
};

struct name {
	struct text text;
	uint32_t number; /* of the text in k->texts; 0: not asked for yet */
	uint32_t config, epoch; /* of a kernel without details */
};

struct stats {
	uint64_t numbers[STATISTICS_END];
	struct text texts[STATISTICS_END];
	uint64_t has; /* bits */
};

struct event {
	uint64_t start_ns, end_ns, name_id;
	struct stats stats;
};

enum plane_kind { PLANE_OTHER, PLANE_GPU, PLANE_TPU, PLANE_HOST };

struct plane {
	struct kineto *k;
	enum plane_kind kind;
	uint32_t device, core; /* core: of a TPU's sparse cores, from 1 */
	struct map event_names, stat_names; /* id -> index */
	VEC(struct name) names;
	VEC(struct name) stats;
	uint64_t since_flush;
};

struct line {
	uint64_t id, time_ns;
	struct text name;
	uint32_t stream, thread;
	struct event outer; /* TPU: the last event, until one shows whether it encloses others */
	bool has_outer;
};

static struct text text_of(const struct proto_field *f)
{
	return (struct text){ (const char *)f->bytes, f->wire == PROTO_READ_BYTES ? f->length : 0 };
}

static bool is(struct text t, const char *text)
{
	return t.length == strlen(text) && !memcmp(t.bytes, text, t.length);
}

static bool begins(struct text t, const char *text)
{
	return t.length >= strlen(text) && !memcmp(t.bytes, text, strlen(text));
}

/* Copies the text, shortened, so that it ends with a NUL. */
static void copy_text(struct text t, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)MIN(t.length, size - 1), t.bytes ? t.bytes : "");
}

/* ---- names ---- */

/* Adds an entry of a map from ids to names. */
static int add_name(struct kineto *k, struct map *ids, void *names_vec,
		    const struct proto_field *entry)
{
	VEC(struct name) *names = names_vec;
	struct cursor c = proto_message(entry), value = { 0 };
	struct name name = { .number = 0 };
	struct text shown = { NULL, 0 };
	struct proto_field f;
	uint64_t id = 0;

	while (proto_next(&c, &f)) {
		if (f.number == ENTRY_KEY)
			id = f.value;
		if (f.number == ENTRY_VALUE)
			value = proto_message(&f);
	}
	while (proto_next(&value, &f)) {
		if (f.number == NAME_TEXT)
			name.text = text_of(&f);
		if (f.number == NAME_SHOWN)
			shown = text_of(&f);
	}
	if (shown.length)
		name.text = shown;
	if (names->count >= NAMES_MAX) {
		kineto_count(k, KINETO_NO_ROOM_COUNT);
		return 0;
	}
	return map_put(ids, id, names->count) < 0 ? -ENOMEM : vec_push(names, name);
}

/* Returns the number of the event's name in k->texts, from 1; 0 if there is no room. */
static uint32_t number_of(struct plane *p, uint64_t id)
{
	uint64_t index;
	struct name *name;

	if (!map_get(&p->event_names, id, &index))
		return kineto_intern(p->k, "unknown", strlen("unknown"));
	name = &p->names.data[index];
	if (!name->number)
		name->number = kineto_intern(p->k, name->text.bytes ? name->text.bytes : "",
					     name->text.length);
	return name->number;
}

static void read_stat(const struct plane *p, const struct proto_field *field, struct stats *s)
{
#define STATISTIC_NAME(id, name) name,
	static const char *const known[] = { STATISTICS(STATISTIC_NAME) };
	struct cursor c = proto_message(field);
	struct text text = { NULL, 0 }, name;
	struct proto_field f;
	uint64_t number = 0, index = UINT64_MAX;

	while (proto_next(&c, &f)) {
		if (f.number == STAT_NAME && !map_get(&p->stat_names, f.value, &index))
			return;
		if (f.number == STAT_UNSIGNED || f.number == STAT_SIGNED)
			number = f.value;
		if (f.number == STAT_TEXT)
			text = text_of(&f);
		if (f.number == STAT_REFERENCE && map_get(&p->stat_names, f.value, &number))
			text = p->stats.data[number].text;
	}
	if (index == UINT64_MAX)
		return;
	name = p->stats.data[index].text;
	for (unsigned i = 0; i < STATISTICS_END; i++)
		if (is(name, known[i])) {
			s->has |= UINT64_C(1) << i;
			s->numbers[i] = number;
			s->texts[i] = text;
		}
}

/* ---- GPU work ---- */

/* Returns the number after a word such as "size:" in details. */
static bool number_after(struct text details, const char *word, uint64_t *value)
{
	char text[256];
	const char *found;
	unsigned long long number;

	copy_text(details, text, sizeof(text));
	found = strstr(text, word);
	if (!found || sscanf(found + strlen(word), "%llu", &number) != 1)
		return false;
	*value = number;
	return true;
}

static uint32_t config_of(struct plane *p, const struct event *v)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	struct writer *w = p->k->writer;
	bool plain = !(v->stats.has >> ON_KERNEL & 1);
	struct name *name = NULL;
	uint64_t index;
	char details[256];

	if (map_get(&p->event_names, v->name_id, &index))
		name = &p->names.data[index];
	if (plain && name && name->epoch == writer_epoch(w))
		return name->config;
	c.name = name ? writer_string(w, name->text.bytes, name->text.length)
		      : rows_text(w, "unknown");
	copy_text(v->stats.texts[ON_KERNEL], details, sizeof(details));
	kineto_read_details(details, &c);
	p->k->has_sizes |= !plain;
	if (!plain || !name)
		return writer_kernel_config(w, &c);
	name->epoch = writer_epoch(w);
	return name->config = writer_kernel_config(w, &c);
}

#define PLACE(row, table)                                                                          \
	do {                                                                                       \
		(row)->missing = schema_missing(TABLE_##table);                                    \
		(row)->start_ns = v->start_ns;                                                     \
		(row)->end_ns = v->end_ns;                                                         \
		(row)->device = p->device;                                                         \
		(row)->context = (uint32_t)v->stats.numbers[ON_CONTEXT];                           \
		(row)->stream = l->stream;                                                         \
		(row)->correlation = v->stats.numbers[ON_CORRELATION];                             \
		PRESENT(row, table, start_ns, 1);                                                  \
		PRESENT(row, table, end_ns, 1);                                                    \
	} while (0)

static void add_kernel(struct plane *p, const struct line *l, const struct event *v)
{
	struct row_kernel row = { 0 };

	PLACE(&row, kernel);
	row.config = config_of(p, v);
	kineto_append(p->k, TABLE_kernel, &row);
}

static void add_memcpy(struct plane *p, const struct line *l, const struct event *v,
		       struct text name)
{
	struct row_memcpy row = { 0 };
	uint64_t async;
	char text[64];

	PLACE(&row, memcpy);
	copy_text(name, text, sizeof(text));
	row.kind = copy_kind_in(text);
	PRESENT(&row, memcpy, bytes, number_after(v->stats.texts[ON_COPY], "size:", &row.bytes));
	PRESENT(&row, memcpy, async, number_after(v->stats.texts[ON_COPY], "async:", &async));
	row.async = row_has(&row, COLUMN_memcpy_async) && async;
	kineto_append(p->k, TABLE_memcpy, &row);
}

static void add_memset(struct plane *p, const struct line *l, const struct event *v)
{
	struct row_memset row = { 0 };

	PLACE(&row, memset);
	PRESENT(&row, memset, bytes, number_after(v->stats.texts[ON_SET], "size:", &row.bytes));
	kineto_append(p->k, TABLE_memset, &row);
}

static void add_work(struct plane *p, const struct line *l, const struct event *v)
{
	struct kineto *k = p->k;
	struct text name = { "", 0 };
	uint64_t index;

	if (map_get(&p->event_names, v->name_id, &index))
		name = p->names.data[index].text;
	k->used_gpus |= UINT64_C(1) << p->device;
	k->lacks_context |= !(v->stats.has >> ON_CONTEXT & 1);
	if (v->stats.has >> ON_COPY & 1 || begins(name, "Memcpy"))
		add_memcpy(p, l, v, name);
	else if (v->stats.has >> ON_SET & 1 || begins(name, "Memset"))
		add_memset(p, l, v);
	else
		add_kernel(p, l, v);
	kineto_await_call(k, v->stats.numbers[ON_CORRELATION], 0, v->start_ns);
}

/* Of a TPU's operations, those that enclose others (while, call) only repeat their times. */
static void add_operation(struct plane *p, struct line *l, const struct event *v)
{
	bool encloses = l->has_outer && v && v->start_ns >= l->outer.start_ns &&
			v->start_ns < l->outer.end_ns && v->end_ns <= l->outer.end_ns;

	if (encloses)
		kineto_count(p->k, KINETO_DERIVED_COUNT);
	else if (l->has_outer)
		add_work(p, l, &l->outer);
	l->has_outer = v != NULL;
	if (v)
		l->outer = *v;
}

/* ---- threads ---- */

/* A call of CUDA or HIP, by its name or because it causes work. */
static bool is_call(struct text name, const struct stats *s)
{
	return s->has >> ON_CORRELATION & 1 || begins(name, "cuda") || begins(name, "hip") ||
	       (begins(name, "cu") && name.length > 2 && name.bytes[2] >= 'A' &&
		name.bytes[2] <= 'Z');
}

static void add_span(struct plane *p, const struct line *l, const struct event *v)
{
	struct kineto_span span = { .start_ns = v->start_ns,
				    .end_ns = v->end_ns,
				    .name = number_of(p, v->name_id),
				    .kind = KINETO_RANGE };
	struct text name = { NULL, 0 };
	uint64_t index;

	if (map_get(&p->event_names, v->name_id, &index))
		name = p->names.data[index].text;
	if (begins(name, "$")) {
		span.kind = KINETO_PYTHON;
	} else if (is_call(name, &v->stats)) {
		span.kind = KINETO_CALL;
		span.id = v->stats.numbers[ON_CORRELATION];
		kineto_count(p->k, KINETO_CALLS_COUNT);
		if (span.name)
			kineto_add_function(p->k, span.name, begins(name, "cuda") ? 2 : 1, 0);
	}
	if (span.name)
		kineto_add_span(p->k, l->thread, &span);
}

/* ---- lines ---- */

/* Reads the times; false if they cannot be. */
static bool read_event(struct plane *p, const struct line *l, const struct proto_field *field,
		       struct event *v)
{
	struct cursor c = proto_message(field);
	uint64_t offset = 0, duration = 0;
	struct proto_field f;

	v->stats.has = 0;
	v->stats.numbers[ON_CORRELATION] = v->stats.numbers[ON_CONTEXT] = 0;
	v->stats.texts[ON_KERNEL] = v->stats.texts[ON_COPY] = v->stats.texts[ON_SET] =
		(struct text){ NULL, 0 };
	v->name_id = 0;
	while (proto_next(&c, &f)) {
		if (f.number == EVENT_NAME)
			v->name_id = f.value;
		else if (f.number == EVENT_OFFSET)
			offset = f.value;
		else if (f.number == EVENT_DURATION)
			duration = f.value;
		else if (f.number == EVENT_STAT)
			read_stat(p, &f, &v->stats);
	}
	if (c.failed || offset > INT64_MAX || duration > INT64_MAX || l->time_ns > INT64_MAX)
		return false;
	v->start_ns = l->time_ns + (offset + 500) / 1000;
	v->end_ns = v->start_ns + (duration + 500) / 1000;
	return v->start_ns && v->end_ns <= INT64_MAX;
}

/* Other lines of a GPU repeat its work by module, by step and by scope. */
static bool is_work(const struct plane *p, const struct line *l)
{
	if (p->kind == PLANE_GPU)
		return begins(l->name, "Stream #");
	return is(l->name, "XLA Ops") || is(l->name, "Async XLA Ops") ||
	       is(l->name, "Sparse Core Ops");
}

static uint32_t thread_of(struct kineto *k, const struct line *l)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)l->id);

	return l->id <= UINT32_MAX ? (uint32_t)l->id
				   : UINT32_MAX - kineto_intern(k, text, (size_t)length);
}

static void begin_line(struct plane *p, const struct proto_field *field, struct line *l)
{
	struct cursor c = proto_message(field);
	struct proto_field f;

	*l = (struct line){ .id = 0 };
	while (proto_next(&c, &f)) {
		if (f.number == LINE_ID)
			l->id = f.value;
		else if (f.number == LINE_NAME)
			l->name = text_of(&f);
		else if (f.number == LINE_TIME)
			l->time_ns = f.value;
	}
	l->stream = (uint32_t)l->id | p->core << SPARSE_CORE_SHIFT;
	if (p->kind == PLANE_HOST) {
		struct row_thread row = { .time_ns = l->time_ns };

		row.tid = l->thread = thread_of(p->k, l);
		row.name = writer_string(p->k->writer, l->name.bytes, l->name.length);
		if (row.name)
			kineto_append(p->k, TABLE_thread, &row);
	}
}

static void add_event(struct plane *p, struct line *l, const struct event *v, bool work)
{
	kineto_extend(p->k, v->start_ns, v->end_ns);
	if (p->kind == PLANE_HOST)
		add_span(p, l, v);
	else if (!work)
		kineto_count(p->k, KINETO_DERIVED_COUNT);
	else if (p->kind == PLANE_TPU)
		add_operation(p, l, v);
	else
		add_work(p, l, v);
}

static int read_line(struct plane *p, const struct proto_field *field)
{
	struct cursor c = proto_message(field);
	struct kineto *k = p->k;
	struct proto_field f;
	struct event v;
	struct line l;
	bool work;
	int rc = 0;

	begin_line(p, field, &l);
	work = is_work(p, &l);
	while (rc == 0 && proto_next(&c, &f)) {
		if (f.number != LINE_EVENT)
			continue;
		kineto_count(k, KINETO_EVENTS_COUNT);
		if (p->kind == PLANE_OTHER)
			kineto_count(k, KINETO_UNKNOWN_COUNT);
		else if (!read_event(p, &l, &f, &v))
			kineto_count(k, KINETO_UNTIMED_COUNT);
		else
			add_event(p, &l, &v, work);
		if (++p->since_flush == FLUSH_EVENTS) {
			p->since_flush = 0;
			rc = k->options->cancel && *k->options->cancel ? -ECANCELED
								       : kineto_flush(k);
		}
	}
	k->counts[KINETO_DAMAGED_COUNT] += c.failed;
	if (p->kind == PLANE_TPU)
		add_operation(p, &l, NULL);
	return rc;
}

/* ---- planes ---- */

/* "/device:GPU:0", "/device:TPU:1 SparseCore 2", "/host:CPU" */
static void classify(struct plane *p, struct text name)
{
	char text[128];
	unsigned device = 0, core = 0;

	copy_text(name, text, sizeof(text));
	if (sscanf(text, "/device:GPU:%u", &device) == 1)
		p->kind = PLANE_GPU;
	else if (sscanf(text, "/device:TPU:%u SparseCore %u", &device, &core) >= 1)
		p->kind = PLANE_TPU;
	else if (starts_with(text, "/host:"))
		p->kind = PLANE_HOST;
	if (device >= KINETO_DEVICES)
		p->kind = PLANE_OTHER;
	p->device = device;
	p->core = strstr(text, "SparseCore") ? MIN(core, 1000u) + 1 : 0;
}

/* The main plane of a GPU or TPU describes it. */
static void add_device(struct plane *p, const struct stats *s)
{
	struct row_device row = { .missing = schema_missing(TABLE_device), .id = p->device };
	struct text name = s->texts[ON_TYPE].length ? s->texts[ON_TYPE] : s->texts[ON_VENDOR];
	char text[128], *end = text;
	bool nvidia = is(s->texts[ON_VENDOR], "Nvidia");

	if ((p->kind != PLANE_GPU && p->kind != PLANE_TPU) || p->core)
		return;
	copy_text(name, text, sizeof(text) - 5);
	end = text + strlen(text);
	snprintf(end, 5, "%s", p->kind == PLANE_TPU ? (*text ? "" : "TPU") : " GPU");
	row.name =
		kineto_intern(p->k, *text == ' ' ? text + 1 : text, strlen(text) - (*text == ' '));
	row.compute_major = nvidia ? (uint32_t)s->numbers[ON_MAJOR] : 0;
	row.compute_minor = nvidia ? (uint32_t)s->numbers[ON_MINOR] : 0;
	row.multiprocessors = (uint32_t)s->numbers[ON_CORES];
	PRESENT(&row, device, multiprocessors, s->has >> ON_CORES & 1);
	row.memory_bytes = s->numbers[ON_MEMORY];
	p->k->gpus[p->device] = row;
	p->k->known_gpus |= UINT64_C(1) << p->device;
}

/* Reads the plane three times: the names of statistics, the other tables, the lines. */
static int read_plane(struct kineto *k, const struct proto_field *field)
{
	struct plane p = { .k = k };
	struct stats stats = { .has = 0 };
	struct cursor c = proto_message(field);
	struct proto_field f;
	int rc = 0;

	while (rc == 0 && proto_next(&c, &f)) {
		if (f.number == PLANE_NAME)
			classify(&p, text_of(&f));
		else if (f.number == PLANE_EVENTS)
			rc = add_name(k, &p.event_names, &p.names, &f);
		else if (f.number == PLANE_STATS)
			rc = add_name(k, &p.stat_names, &p.stats, &f);
	}
	for (c = proto_message(field); rc == 0 && proto_next(&c, &f);)
		if (f.number == PLANE_STAT)
			read_stat(&p, &f, &stats);
	add_device(&p, &stats);
	for (c = proto_message(field); rc == 0 && proto_next(&c, &f);)
		if (f.number == PLANE_LINE)
			rc = read_line(&p, &f);
	k->counts[KINETO_DAMAGED_COUNT] += c.failed;
	map_release(&p.event_names);
	map_release(&p.stat_names);
	vec_release(&p.names);
	vec_release(&p.stats);
	return rc == -ENOMEM ? error_set(k->error, rc, "out of memory") : rc;
}

static int read_space(struct kineto *k)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	int rc = import_read_all(k->files, k->input, k->path, FILE_BYTES_MAX, &bytes, k->error);
	struct cursor c = cursor_of(bytes.data, bytes.length);
	const char *name = base_name(k->path);
	struct proto_field f;

	snprintf(k->host, sizeof(k->host), "%.*s", (int)strcspn(name, "."), name);
	snprintf(k->name, sizeof(k->name), "%.127s", k->host);
	while (rc == 0 && proto_next(&c, &f)) {
		if (f.number == SPACE_HOST)
			copy_text(text_of(&f), k->host, sizeof(k->host));
		if (f.number == SPACE_PLANE)
			rc = read_plane(k, &f);
	}
	if (c.failed || k->input->is_truncated)
		snprintf(k->broken, sizeof(k->broken), "%s",
			 "the file ends within a plane, which was not read");
	k->at_end = true;
	return rc;
}

/* ---- files ---- */

/*
 * A first field that is a plane, which begins with its number and its name. It precedes the JSON
 * that JAX writes beside it, which has less.
 */
static int sniff_head(const struct input *in)
{
	struct cursor c = cursor_of(in->head, in->head_length);
	uint64_t tag = cursor_left(&c) > 4 ? cursor_varint(&c) : 0, length = cursor_varint(&c);
	struct proto_field f;
	struct text name = { NULL, 0 };

	if (tag != (SPACE_PLANE << 3 | PROTO_READ_BYTES) || length < 2)
		return 0;
	if (proto_next(&c, &f) && f.number == 1 && f.wire == PROTO_READ_VARINT &&
	    !proto_next(&c, &f))
		return 0;
	if (!c.failed && f.number == PLANE_NAME)
		name = text_of(&f);
	return begins(name, "/host:") || begins(name, "/device:")          ? 95
	       : begins(name, "Task Environment") || begins(name, "#Chip") ? 60
									   : 0;
}

KINETO_IMPORTER(xspace, "XSpace", ".xplane.pb", sniff_head, read_space)
