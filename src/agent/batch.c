#include "agent/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/io.h"
#include "base/search.h"
#include "names/demangle.h"
#include "trace/events.h"

#define BATCH_BYTES_MAX ((uint64_t)4 << 20) /* of blocks, compressed */
#define OTHERS "(others)"

struct reading {
	struct fleet_rows *rows;
	struct source *source;
	const struct batch_profiles *profiles; /* NULL: there are none */
	struct trace *trace;
	int memory; /* what the trace is read from */
	int64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint64_t job, host, rank, missing; /* of all rows: as in struct fleet_step */
	VEC(struct step_work) work;
};

/* --- blocks --- */

struct selection {
	uint64_t first, end; /* numbers of blocks */
	bool has_stacks; /* calls are selected, and what stacks are made of */
	uint64_t calls_ns; /* calls since then (CLOCK_MONOTONIC) */
};

static bool is_event(uint32_t table)
{
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		if (schema_gpu_work[i]->id == table)
			return true;
	return table == TABLE_nvtx || table == TABLE_loss;
}

/* What rows of events refer to, and what says whose they are. */
static bool is_definition(uint32_t table)
{
	return table == TABLE_string || table == TABLE_process || table == TABLE_clock ||
	       table == TABLE_kernel_config;
}

static bool is_wanted(const struct selection *s, const struct block_ref *b)
{
	if (b->header.number >= s->end)
		return false;
	if (s->has_stacks && profile_needs(b->header.table))
		return b->header.table != TABLE_api_call || b->header.end_ns >= s->calls_ns;
	return is_definition(b->header.table) ||
	       (b->header.number >= s->first && is_event(b->header.table));
}

/* Fewer blocks if they have too many bytes. Returns whether some of them are events. */
static bool limit(const struct segment *segment, struct selection *s)
{
	uint64_t bytes = 0;
	bool has_events = false;

	for (size_t i = 0; i < segment->block_count; i++) {
		const struct block_header *h = &segment->blocks[i].header;

		if (h->number < s->first || !is_event(h->table))
			continue;
		if (has_events && bytes + h->payload_bytes > BATCH_BYTES_MAX) {
			s->end = h->number;
			break;
		}
		bytes += h->payload_bytes;
		has_events = true;
	}
	return has_events;
}

static int copy_bytes(const struct segment *s, uint64_t offset, size_t size, int to)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);

	if (!bytes)
		return -ENOMEM;
	return segment_read(s, offset, bytes, size) ? io_write_all(to, bytes, size) : -ESRCH;
}

/* With their numbers. One that its process is replacing is damaged for whoever reads the copy. */
static int copy_blocks(const struct segment *segment, const struct selection *s, int to)
{
	int rc = copy_bytes(segment, 0, sizeof(segment->header), to);

	for (size_t i = 0; i < segment->block_count && rc == 0; i++) {
		const struct block_ref *b = &segment->blocks[i];

		if (is_wanted(s, b))
			rc = copy_bytes(segment, b->offset,
					sizeof(b->header) + (size_t)b->header.payload_bytes, to);
	}
	return rc;
}

/* Work is shorter than the time before it in which its launch is looked for. */
static void find_calls(const struct segment *segment, struct selection *s)
{
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < segment->block_count; i++) {
		const struct block_header *h = &segment->blocks[i].header;

		if (h->number >= s->first && h->number < s->end && is_event(h->table) &&
		    h->start_ns)
			first_ns = MIN(first_ns, h->start_ns);
	}
	s->calls_ns = first_ns - MIN(first_ns, PROFILE_CALLS_NS);
}

static int load(struct trace *t, struct error *e)
{
	int rc = trace_load(t, TABLE_process, 0, e);

	if (rc >= 0)
		rc = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		rc = events_load(t, schema_gpu_work[i]->id,
				 ROLES_TIMES | 1u << ROLE_DEVICE | 1u << ROLE_LABEL, e);
	if (rc >= 0)
		rc = trace_load(
			t, TABLE_nvtx,
			COLUMN_BITS(nvtx, time_ns, kind, thread, domain, range, message, level), e);
	return rc < 0 ? rc : trace_load(t, TABLE_loss, 0, e);
}

static int open_blocks(struct reading *r, const struct segment *segment, const struct selection *s,
		       struct error *e)
{
	static const struct trace_options options = { .threads = 1 };
	char path[40];
	int rc;

	r->memory = memfd_create("pitot agent", MFD_CLOEXEC);
	rc = r->memory < 0 ? -errno : copy_blocks(segment, s, r->memory);
	if (rc < 0)
		return error_set(e, rc, "cannot copy blocks: %s", error_code_text(rc));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->memory);
	rc = trace_open(path, &options, &r->trace, e);
	return rc < 0 ? rc : load(r->trace, e);
}

/* --- who --- */

static int know_process(struct source *source, const struct trace *t)
{
	const struct trace_process *p = trace_process(t, 0);
	struct source_identity *id = &source->identity;
	char *job = strdup(p->job), *host = strdup(p->host);

	free(id->job);
	free(id->host);
	*id = (struct source_identity){ job, host, p->rank, trace_unix_ns(t, 0) };
	return job && host ? 0 : -ENOMEM;
}

static void prepare_rows(struct reading *r)
{
	const struct source_identity *id = &r->source->identity;

	r->offset_ns = id->offset_ns;
	r->host = fleet_text(r->rows, id->host);
	r->job = fleet_text(r->rows, id->job);
	r->rank = id->rank;
	r->missing = *id->job ? 0 : FLEET_BIT(step, job);
	r->missing |= id->rank == TRACE_NO_RANK ? FLEET_BIT(step, rank) : 0;
}

/* The first columns of a row: the same in all tables. */
#define ROW_OF(r)                                                                                  \
	.missing = (r)->missing, .job = (r)->job, .host = (r)->host, .rank = (r)->rank,            \
	.pid = (r)->source->pid, .session = (r)->source->session

/* --- sketches --- */

/* What rows of a sketch are equal in. There is no padding: it is a key. */
struct sketch_key {
	uint64_t time_ns, name;
	uint32_t kind; /* of schema_gpu_work */
	uint32_t device; /* UINT32_MAX: unknown */
};
_Static_assert(sizeof(struct sketch_key) == 24, "without padding");

struct sketch {
	struct sketch_key key;
	uint64_t count, untimed, total_ns, min_ns, max_ns, first_ns;
};

struct sketches {
	struct interner keys; /* a key's number is that of its item */
	VEC(struct sketch) items;
	struct map names; /* label of a row -> text */
};

static struct sketch *sketch_at(struct sketches *s, const struct sketch_key *key)
{
	int64_t item = interner_add(&s->keys, key, sizeof(*key), NULL);
	struct sketch new = { .key = *key, .min_ns = UINT64_MAX, .first_ns = UINT64_MAX };

	if (item < 0 || ((size_t)item == s->items.count && vec_push(&s->items, new) < 0))
		return NULL;
	return &s->items.data[item];
}

static void add_to_sketch(struct sketch *to, const struct sketch *from)
{
	to->count += from->count;
	to->untimed += from->untimed;
	to->total_ns += from->total_ns;
	to->min_ns = MIN(to->min_ns, from->min_ns);
	to->max_ns = MAX(to->max_ns, from->max_ns);
	to->first_ns = MIN(to->first_ns, from->first_ns);
}

/* The text of a row's label, a short name if it is a kernel's. */
static int name_of(struct reading *r, struct sketches *s, enum table_id table, uint64_t row,
		   uint64_t *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t *known = map_at(&s->names, event_label_key(r->trace, table, row), 0);

	if (!known)
		return -ENOMEM;
	if (!*known) {
		kernel_name_text(event_label(r->trace, table, row), false, &text);
		*known = 1 + fleet_text(r->rows, strbuf_text(&text));
	}
	*name = *known - 1;
	return r->rows->failed || text.failed ? -ENOMEM : 0;
}

static int add_work(struct reading *r, struct sketches *s, size_t kind,
		    const struct event_columns *c, uint64_t row)
{
	bool timed = event_is_timed(c, row), begun = column_has(c->start_valid, row);
	uint64_t start_ns = begun ? c->start_ns[row] : r->source->steps.newest_ns;
	uint64_t duration_ns = timed ? c->end_ns[row] - c->start_ns[row] : 0;
	struct sketch_key key = { .kind = (uint32_t)kind,
				  .device = c->device ? c->device[row] : UINT32_MAX };
	struct sketch one = { .count = 1,
			      .untimed = !timed,
			      .total_ns = duration_ns,
			      .min_ns = timed ? duration_ns : UINT64_MAX,
			      .max_ns = duration_ns,
			      .first_ns = begun ? start_ns : UINT64_MAX };
	struct step_work work = { start_ns, duration_ns };
	struct sketch *sketch;

	key.time_ns = start_ns + (uint64_t)r->offset_ns;
	key.time_ns -= key.time_ns % SKETCH_NS;
	if (name_of(r, s, c->table, row, &key.name) < 0)
		return -ENOMEM;
	sketch = sketch_at(s, &key);
	if (!sketch || (begun && vec_push(&r->work, work) < 0))
		return -ENOMEM;
	add_to_sketch(sketch, &one);
	r->source->work.count[kind]++;
	r->source->work.total_ns[kind] += duration_ns;
	return 0;
}

ORDER(by_size, struct sketch,
      UP(key.time_ns) ?: UP(key.kind) ?: DOWN(total_ns) ?: UP(key.name) ?: UP(key.device))

static void append_sketch(const struct reading *r, const struct sketch *s)
{
	struct fleet_kernel_sketch row = { ROW_OF(r),
					   .time_ns = s->key.time_ns,
					   .device = s->key.device,
					   .kind = fleet_text(r->rows,
							      schema_gpu_work[s->key.kind]->name),
					   .name = s->key.name,
					   .count = s->count,
					   .untimed = s->untimed,
					   .total_ns = s->total_ns,
					   .min_ns = s->min_ns,
					   .max_ns = s->max_ns,
					   .first_ns = s->first_ns + (uint64_t)r->offset_ns };

	if (s->key.device == UINT32_MAX)
		row.missing |= FLEET_BIT(kernel_sketch, device);
	if (s->min_ns == UINT64_MAX)
		row.missing |= FLEET_BIT(kernel_sketch, min_ns) | FLEET_BIT(kernel_sketch, max_ns);
	if (s->first_ns == UINT64_MAX)
		row.missing |= FLEET_BIT(kernel_sketch, first_ns);
	fleet_append(r->rows, FLEET_kernel_sketch, &row);
}

/* Of each span the names with most time are rows; the others are one for each kind and device. */
static void append_sketches(struct reading *r, struct sketches *s)
{
	struct sketches others = { .items = VEC_INIT };
	uint64_t name = fleet_text(r->rows, OTHERS), time_ns = 0;
	uint32_t kind = UINT32_MAX;
	size_t names = 0;

	interner_init(&others.keys);
	vec_sort(&s->items, by_size);
	for (size_t i = 0; i < s->items.count; i++) {
		const struct sketch *one = &s->items.data[i];
		struct sketch_key key = one->key;
		struct sketch *sum;

		names = key.time_ns == time_ns && key.kind == kind ? names + 1 : 0;
		time_ns = key.time_ns;
		kind = key.kind;
		key.name = name;
		sum = names < SKETCH_NAMES_MAX ? NULL : sketch_at(&others, &key);
		if (sum)
			add_to_sketch(sum, one);
		else
			append_sketch(r, one);
	}
	for (size_t i = 0; i < others.items.count; i++)
		append_sketch(r, &others.items.data[i]);
	interner_release(&others.keys);
	vec_release(&others.items);
}

static int read_work(struct reading *r)
{
	struct sketches s = { .names = MAP_INIT };
	int rc = 0;

	interner_init(&s.keys);
	for (size_t kind = 0; kind < GPU_WORK_KINDS; kind++) {
		struct event_columns c = events_of(r->trace, schema_gpu_work[kind]->id);

		map_clear(&s.names);
		for (uint64_t row = 0; row < c.rows && rc == 0; row++)
			rc = add_work(r, &s, kind, &c, row);
	}
	if (rc == 0)
		append_sketches(r, &s);
	interner_release(&s.keys);
	vec_release(&s.items);
	map_release(&s.names);
	return rc;
}

/* --- busy time, for metrics --- */

struct span {
	uint64_t start_ns, end_ns;
	uint32_t device;
};

ORDER(by_device, struct span, UP(device) ?: UP(start_ns))

static struct device_busy *busy_of(struct work_totals *w, uint32_t device)
{
	struct device_busy new = { .device = device };

	for (size_t i = 0; i < w->devices.count; i++)
		if (w->devices.data[i].device == device)
			return &w->devices.data[i];
	return vec_push(&w->devices, new) < 0 ? NULL : &w->devices.data[w->devices.count - 1];
}

static void add_busy(struct reading *r)
{
	VEC(struct span) spans = VEC_INIT;
	struct device_busy *busy = NULL;
	bool is_sorted = true; /* mostly: rows of one GPU's kernels are */

	for (size_t kind = 0; kind < GPU_WORK_KINDS; kind++) {
		struct event_columns c = events_of(r->trace, schema_gpu_work[kind]->id);

		for (uint64_t row = 0; row < c.rows; row++) {
			struct span span;

			if (!c.device || !event_is_timed(&c, row))
				continue;
			span = (struct span){ c.start_ns[row], c.end_ns[row], c.device[row] };
			is_sorted =
				is_sorted && (!spans.count ||
					      by_device(&spans.data[spans.count - 1], &span) <= 0);
			(void)!vec_push(&spans, span);
		}
	}
	if (!is_sorted)
		vec_sort(&spans, by_device);
	for (size_t i = 0; i < spans.count; i++) {
		const struct span *span = &spans.data[i];

		if (!busy || busy->device != span->device)
			busy = busy_of(&r->source->work, span->device);
		if (!busy || span->end_ns <= busy->until_ns)
			continue;
		busy->busy_ns += span->end_ns - MAX(span->start_ns, busy->until_ns);
		busy->until_ns = span->end_ns;
	}
	vec_release(&spans);
}

/* --- steps --- */

static void range_event(struct reading *r, const struct nvtx_columns *c, uint64_t row)
{
	uint64_t kind = c->kind[row];
	struct step_range range = { .start_ns = c->time_ns[row],
				    .end_ns = c->time_ns[row],
				    .thread = c->thread[row],
				    .domain = c->domain[row] };
	bool has_id = column_has(c->valid.range, row), nests;

	nests = kind == nvtx_kind_push || kind == nvtx_kind_pop;
	if (nests ? !column_has(c->valid.level, row) : !has_id)
		return;
	range.key = nests ? (uint64_t)c->level[row] | STEP_LEVEL : c->range[row];
	if (kind == nvtx_kind_pop || kind == nvtx_kind_end)
		step_ranges_close(&r->source->steps, &range);
	/* A push with an id continues a scope of another thread. */
	if ((kind == nvtx_kind_push && !has_id) || kind == nvtx_kind_start)
		if (column_has(c->valid.message, row) &&
		    step_name_read(trace_string(r->trace, c->message[row]), range.name))
			step_ranges_open(&r->source->steps, &range);
}

#define MS NS_PER_MS
#define S NS_PER_S
const uint64_t step_buckets_ns[STEP_BUCKETS] = { 1 * MS,   5 * MS,   10 * MS,  25 * MS, 50 * MS,
						 100 * MS, 250 * MS, 500 * MS, 1 * S,   2500 * MS,
						 5 * S,    10 * S,   60 * S };

static void count_step(struct work_totals *w, uint64_t duration_ns)
{
	w->step_buckets[sorted_prefix(STEP_BUCKETS, i, step_buckets_ns[i] < duration_ns)]++;
	w->steps_ns += duration_ns;
}

static void append_step(const struct reading *r, const struct step_range *s)
{
	struct fleet_step row = { ROW_OF(r),
				  .start_ns = s->start_ns + (uint64_t)r->offset_ns,
				  .duration_ns = s->end_ns - s->start_ns,
				  .name = fleet_text(r->rows, s->name),
				  .thread = s->thread,
				  .work = s->work,
				  .work_ns = s->work_ns };

	fleet_append(r->rows, FLEET_step, &row);
	count_step(&r->source->work, row.duration_ns);
}

static void read_ranges(struct reading *r)
{
	const struct nvtx_columns *c = nvtx_columns(r->trace);

	for (uint64_t row = 0; row < trace_rows(r->trace, TABLE_nvtx); row++)
		range_event(r, c, row);
	step_ranges_add_work(&r->source->steps, r->work.data, r->work.count);
}

static void append_steps(struct reading *r)
{
	struct step_range step;

	while (step_ranges_take(&r->source->steps, &step))
		append_step(r, &step);
	step_ranges_end_batch(&r->source->steps);
}

/* --- losses --- */

static void append_loss(const struct reading *r, uint64_t time_ns, const char *lost_by,
			const char *reason, uint64_t count, const char *detail)
{
	struct fleet_rows *rows = r->rows;
	struct fleet_loss row = { ROW_OF(r),
				  .time_ns = time_ns + (uint64_t)r->offset_ns,
				  .lost_by = fleet_text(rows, lost_by),
				  .reason = fleet_text(rows, reason),
				  .count = count,
				  .detail = fleet_text(rows, detail) };

	if (!*detail)
		row.missing |= FLEET_BIT(loss, detail);
	fleet_append(rows, FLEET_loss, &row);
}

/* Parts of a segment were copied, so what is missing before and after them is none. */
static bool is_of_copy(enum loss_reason reason)
{
	return reason == loss_reason_truncated_file || reason == loss_reason_missing_segment;
}

static int read_losses(struct reading *r)
{
	const struct column_schema *reason = &schema_table(TABLE_loss)->columns[COLUMN_loss_reason];
	const struct trace_loss *losses;
	size_t count;
	int rc = trace_losses(r->trace, &losses, &count, NULL);

	for (size_t i = 0; rc >= 0 && i < count; i++) {
		const char *name = schema_value_name(reason, losses[i].reason);

		if (is_of_copy(losses[i].reason))
			continue;
		append_loss(r, losses[i].end_ns ? losses[i].end_ns : r->source->steps.newest_ns,
			    losses[i].reason == loss_reason_damaged_file ? "agent" : "recorder",
			    name ? name : "unknown", losses[i].count, losses[i].detail);
	}
	return rc < 0 ? rc : 0;
}

static void append_own_losses(struct reading *r, uint64_t now_ns)
{
	struct source *s = r->source;

	now_ns = MAX(now_ns, s->steps.newest_ns);
	if (s->lost_segments)
		append_loss(r, now_ns, "agent", "missing_segment", s->lost_segments,
			    "segments were gone before they were read");
	if (s->unreadable)
		append_loss(r, now_ns, "agent", "damaged_file", s->unreadable,
			    "blocks could not be read");
	if (s->steps.forgotten)
		append_loss(r, now_ns, "agent", "steps", s->steps.forgotten,
			    "ranges of steps without an end");
	s->lost_segments = s->unreadable = s->steps.forgotten = 0;
}

/* --- a batch --- */

/* A batch is read once, so what cannot become a profile is a loss. */
static void add_profile(const struct reading *r)
{
	struct error e = { 0 };

	if (r->profiles &&
	    profile_add(r->profiles->spool, r->profiles->kind, r->trace, r->source, &e) < 0)
		append_loss(r, r->source->steps.newest_ns, "agent", "profile", 0, e.text);
}

static int read_rows(struct reading *r, const struct segment *segment)
{
	int rc = know_process(r->source, r->trace);

	if (rc == 0) {
		prepare_rows(r);
		rc = read_work(r);
	}
	if (rc < 0)
		return rc;
	add_busy(r);
	read_ranges(r);
	append_steps(r);
	add_profile(r);
	rc = read_losses(r);
	append_own_losses(r, segment->header.start_monotonic_ns);
	return rc;
}

static int read_blocks(struct reading *r, const struct segment *segment,
		       struct selection *selection, struct error *e)
{
	int rc, code;

	if (r->profiles) {
		selection->has_stacks = true;
		find_calls(segment, selection);
	}
	code = open_blocks(r, segment, selection, e);
	rc = code == 0 && trace_process_count(r->trace) ? read_rows(r, segment) : 0;
	trace_free(r->trace);
	fd_close(&r->memory);
	vec_release(&r->work);
	if (code < 0)
		return code;
	return rc < 0 || r->rows->failed ? error_set(e, -ENOMEM, "out of memory") : 0;
}

int batch_read(struct fleet_rows *rows, const struct sources *sources, struct source *source,
	       const struct batch_profiles *profiles, struct error *e)
{
	struct reading r = { .rows = rows, .source = source, .profiles = profiles, .memory = -1 };
	struct selection selection = { .first = source->block };
	const struct segment *segment = source_next(sources, source, &selection.end);
	int rc = 0;

	if (!segment)
		return 0;
	selection.first = source->block;
	if (limit(segment, &selection))
		rc = read_blocks(&r, segment, &selection, e);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) /* a copy of damaged bytes is no segment: they are lost */
		source->unreadable += selection.end - selection.first;
	source->block = selection.end;
	return 1;
}

void batch_end_steps(struct fleet_rows *rows, struct source *source)
{
	struct reading r = { .rows = rows, .source = source };

	if (!source->steps.items.count || !source->identity.host)
		return;
	prepare_rows(&r);
	append_steps(&r);
}
