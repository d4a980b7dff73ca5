#include "analysis/rank_pieces.h"

#include <errno.h>
#include <string.h>

#include "analysis/cpu_moments.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "base/search.h"
#include "names/demangle.h"

/* Work or a collective, which call launched it, and what it is. */
struct operation {
	uint64_t start_ns, end_ns;
	uint32_t call, row;
	uint8_t work; /* enum gpu_work */
	uint8_t state; /* enum rank_state */
};

/* How often the program was sampled at a line before launches of one caller. */
struct sampled_line {
	uint32_t line; /* a caller */
	uint32_t samples;
};

struct finding {
	struct rank_pieces *out;
	const struct report *report;
	const struct job_rank *rank;
	VEC(struct operation) work, collectives; /* by start; those of a list do not overlap */
	VEC(uint64_t) boundaries; /* starts and ends of the process's ranges */
	/* times that CPU samples stand for, and times off the CPU, by thread and start */
	VEC(struct cpu_moment) moments;
	GROUPS(struct sampled_line) lines; /* key: launch_key, and the line */
	struct map usual_lines; /* launch_key -> item of `lines` with most samples */
};

/* A sample is of the program's work for a launch if this is among so many of the next calls. */
#define NEXT_CALLS 16

/* A walk over times in their order, divided by the ranges of a thread. */
struct range_walk {
	size_t boundary; /* the next one */
	struct nvtx_cursor cursor;
};

#define FINDING_INIT(pieces, of_rank)                                                              \
	{                                                                                          \
		.out = (pieces), .report = (pieces)->report, .rank = (of_rank),                    \
		.lines = GROUPS_INIT, .usual_lines = MAP_INIT                                      \
	}
#define RANGE_WALK_INIT(pieces)                                                                    \
	{                                                                                          \
		.cursor = {.ranges = &(pieces)->ranges, .last = MAP_INIT }                         \
	}

static int find_nccl_domains(struct rank_pieces *p)
{
	const struct trace *t = p->report->trace;
	const struct nvtx_domain_columns *c = nvtx_domain_columns(t);

	for (struct row_walk w = all_rows(t, TABLE_nvtx_domain); row_walk_next(&w);)
		if (!strcmp(trace_string(t, c->name[w.row]), "NCCL") &&
		    map_put(&p->nccl_domains, (uint64_t)w.process << 32 | c->id[w.row], 1) < 0)
			return -ENOMEM;
	return 0;
}

int rank_pieces_init(struct rank_pieces *p, struct report *r, struct interner *texts)
{
	*p = (struct rank_pieces){
		.report = r, .texts = texts, .known = MAP_INIT, .nccl_domains = MAP_INIT
	};
	if (nvtx_ranges_pair(&p->ranges, r->trace, SCOPES_ALL, true) < 0)
		return -ENOMEM;
	return find_nccl_domains(p);
}

void rank_pieces_release(struct rank_pieces *p)
{
	nvtx_ranges_release(&p->ranges);
	map_release(&p->known);
	map_release(&p->nccl_domains);
	vec_release(&p->pieces);
	vec_release(&p->host);
}

/* Appends a text in which each number is N: steps have equal names. */
static void add_without_numbers(const char *text, struct strbuf *out)
{
	for (const char *c = text; *c; c++) {
		bool digit = *c >= '0' && *c <= '9';

		if (!digit)
			strbuf_addc(out, *c);
		else if (c[1] < '0' || c[1] > '9')
			strbuf_addc(out, 'N');
	}
}

int rank_pieces_place(struct rank_pieces *p, struct rank_place *place, enum place_kind kind,
		      uint32_t id)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t key = (uint64_t)kind << 32 | id, known;
	int64_t item;

	if (!map_get(&p->known, key, &known)) {
		if (kind == PLACE_LINE)
			caller_text(&p->report->callers, id, CALLER_NONE, &text);
		else if (kind == PLACE_RANGE)
			add_without_numbers(trace_string(p->report->trace, id), &text);
		else
			kernel_name_short(trace_string(p->report->trace, id), &text);
		item = interner_add(p->texts, strbuf_text(&text), text.length, NULL);
		if (text.failed || item < 0 || map_put(&p->known, key, (uint64_t)item) < 0)
			return -ENOMEM;
		known = (uint64_t)item;
	}
	place->kind = (uint8_t)kind;
	place->text = (uint32_t)known;
	return 0;
}

/* The place of a range, or of the one around it if NCCL pushed it. */
static int place_of_range(struct rank_pieces *p, uint32_t range, struct rank_place *place)
{
	uint64_t nccl;

	while (range != NVTX_NO_RANGE && map_get(&p->nccl_domains,
						 (uint64_t)p->ranges.items[range].process << 32 |
							 p->ranges.items[range].domain,
						 &nccl))
		range = p->ranges.items[range].outer;
	if (range == NVTX_NO_RANGE || !p->ranges.items[range].message)
		return 0;
	return rank_pieces_place(p, place, PLACE_RANGE, p->ranges.items[range].message);
}

int rank_pieces_call(struct rank_pieces *p, uint32_t process, uint32_t call,
		     struct rank_place *place)
{
	uint32_t caller = callers_of_call(&p->report->callers, process, call);

	return caller != CALLER_NONE ? rank_pieces_place(p, place, PLACE_LINE, caller)
				     : place_of_range(p, p->ranges.of_call[call], place);
}

/* The place that launched an operation. */
static int place_of_launch(struct finding *x, const struct operation *o, struct rank_place *place)
{
	*place = (struct rank_place){ .state = o->state };
	if (o->call != TRACE_NO_ROW &&
	    rank_pieces_call(x->out, x->rank->process, o->call, place) < 0)
		return -ENOMEM;
	if (place->kind == PLACE_UNKNOWN && o->work == GPU_WORK_kernel) {
		uint32_t config = kernel_columns(x->report->trace)->config[o->row];

		if (config != TRACE_NO_ROW)
			return rank_pieces_place(
				x->out, place, PLACE_KERNEL,
				kernel_config_columns(x->report->trace)->name[config]);
	}
	return 0;
}

static int add(struct finding *x, uint64_t start_ns, uint64_t end_ns, struct rank_place place)
{
	struct rank_piece piece = { start_ns, end_ns, place };
	struct rank_piece *last =
		x->out->pieces.count ? &x->out->pieces.data[x->out->pieces.count - 1] : NULL;

	if (end_ns <= start_ns)
		return 0;
	if (last && last->end_ns == start_ns && last->place.text == place.text &&
	    last->place.kind == place.kind && last->place.state == place.state) {
		last->end_ns = end_ns;
		return 0;
	}
	return vec_push(&x->out->pieces, piece);
}

ORDER(compare_moments, struct cpu_moment, UP(thread) ?: UP(start_ns))

/*
 * Limits a sample's time to that since the thread's last call began or returned, and finds the
 * launch that follows: TRACE_NO_ROW if the sample is in a call, or no launch follows soon.
 */
static uint32_t limit_sample(const struct finding *x, struct cpu_moment *m)
{
	const struct calls *c = &x->report->calls;
	const struct trace *t = x->report->trace;
	size_t first = trace_first_row(t, TABLE_api_call, x->rank->process);
	size_t count = trace_first_row(t, TABLE_api_call, x->rank->process + 1) - first;
	size_t next = first + sorted_prefix(count, i, c->start_ns[first + i] <= m->end_ns);

	for (size_t i = next; i-- > first && c->start_ns[i] >= m->start_ns;) {
		if (c->threads[i] != m->thread)
			continue;
		m->start_ns = c->end_ns[i] < m->end_ns ? c->end_ns[i] : c->start_ns[i];
		if (c->end_ns[i] >= m->end_ns)
			return TRACE_NO_ROW;
		break;
	}
	for (size_t i = next; i < MIN(next + NEXT_CALLS, first + count); i++) {
		enum api_kind kind = calls_kind(c, i);

		if (c->threads[i] == m->thread &&
		    (kind == api_kind_launch || kind == api_kind_graph_launch))
			return (uint32_t)i;
	}
	return TRACE_NO_ROW;
}

static uint64_t launch_key(const struct finding *x, uint32_t launch, struct rank_place range)
{
	return hash_u64((uint64_t)callers_of_call(&x->report->callers, x->rank->process, launch)
			<< 32) ^
	       hash_u64((uint64_t)range.text << 8 | range.kind);
}

/* Counts a sample for its line, by the launch that follows it and its range. */
static int count_line(struct finding *x, const struct cpu_moment *m, struct nvtx_cursor *cursor,
		      uint32_t launch)
{
	struct rank_place range = { 0 };
	struct sampled_line *line;
	struct caller_place place;
	uint64_t key, *usual;
	uint32_t at;

	if (nvtx_cursor_at(cursor, x->rank->process, m->thread, m->end_ns, &at) < 0 ||
	    place_of_range(x->out, at, &range) < 0)
		return -ENOMEM;
	key = launch_key(x, launch, range);
	if (callers_place(&x->out->report->callers, m->process, m->stack, &place) < 0)
		return -ENOMEM;
	if (place.caller == CALLER_NONE)
		return 0;
	line = groups_at(&x->lines, hash_u64(key ^ place.caller), .line = place.caller);
	usual = map_at(&x->usual_lines, key, UINT64_MAX);
	if (!line || !usual)
		return -ENOMEM;
	line->samples++;
	if (*usual == UINT64_MAX || line->samples > x->lines.items.data[*usual].samples)
		*usual = (uint64_t)(line - x->lines.items.data);
	return 0;
}

/* Lists the samples of the process, also those of a sampler outside, as times. */
static int collect_moments(struct finding *x, enum table_id table)
{
	const struct trace *t = x->report->trace;
	struct nvtx_cursor cursor = { .ranges = &x->out->ranges, .last = MAP_INIT };
	int rc = 0;

	for (struct row_walk w = all_rows(t, table); rc >= 0 && row_walk_next(&w);) {
		uint32_t launch = TRACE_NO_ROW;
		struct cpu_moment m;

		if (trace_process(t, w.process)->subject != x->rank->process)
			continue;
		m = cpu_moment_of(t, table, w.process, w.row);
		if (!m.end_ns) { /* the time since the sample before */
			m.end_ns = m.start_ns;
			m.start_ns -= MIN(m.start_ns, m.weight_ns);
			launch = limit_sample(x, &m);
		}
		if (!m.stack)
			continue;
		rc = vec_push(&x->moments, m);
		if (launch != TRACE_NO_ROW && rc >= 0)
			rc = count_line(x, &m, &cursor, launch);
	}
	map_release(&cursor.last);
	return rc;
}

/* Finds the line of the thread's sample that stands for a time, and until when. */
static int line_at(struct finding *x, uint32_t thread, uint64_t time_ns, uint64_t *until_ns,
		   struct rank_place *place)
{
	const struct cpu_moment *m = x->moments.data;
	size_t next = sorted_prefix(x->moments.count, i,
				    m[i].thread < thread ||
					    (m[i].thread == thread && m[i].start_ns <= time_ns));
	struct caller_place line;

	if (next < x->moments.count && m[next].thread == thread)
		*until_ns = MIN(*until_ns, m[next].start_ns);
	if (!next || m[next - 1].thread != thread || m[next - 1].end_ns <= time_ns)
		return 0;
	*until_ns = MIN(*until_ns, m[next - 1].end_ns);
	if (callers_place(&x->out->report->callers, m[next - 1].process, m[next - 1].stack, &line) <
	    0)
		return -ENOMEM;
	return line.caller == CALLER_NONE
		       ? 0
		       : rank_pieces_place(x->out, place, PLACE_LINE, line.caller);
}

/*
 * Finds where the thread that launched `next` was at a time, and until when, at most *until_ns: the
 * line of a sample; else that of most samples in the same range before launches of the same caller,
 * for samples are rarer than gaps; else its innermost range; else where it launches.
 */
static int place_at(struct finding *x, struct range_walk *walk, const struct operation *next,
		    uint64_t time_ns, uint64_t *until_ns, struct rank_place *place)
{
	uint32_t range, thread = x->report->calls.threads[next->call];
	uint64_t line;

	while (walk->boundary < x->boundaries.count &&
	       x->boundaries.data[walk->boundary] <= time_ns)
		walk->boundary++;
	if (walk->boundary < x->boundaries.count)
		*until_ns = MIN(*until_ns, x->boundaries.data[walk->boundary]);
	*place = (struct rank_place){ .state = RANK_HOST };
	if (line_at(x, thread, time_ns, until_ns, place) < 0)
		return -ENOMEM;
	if (place->kind != PLACE_UNKNOWN)
		return 0;
	if (nvtx_cursor_at(&walk->cursor, x->rank->process, thread, time_ns, &range) < 0 ||
	    place_of_range(x->out, range, place) < 0)
		return -ENOMEM;
	if (x->lines.items.count &&
	    map_get(&x->usual_lines, launch_key(x, next->call, *place), &line))
		return rank_pieces_place(x->out, place, PLACE_LINE, x->lines.items.data[line].line);
	if (place->kind != PLACE_UNKNOWN)
		return 0;
	if (place_of_launch(x, next, place) < 0)
		return -ENOMEM;
	place->state = RANK_HOST;
	return 0;
}

/* Adds a gap, divided by the ranges of the thread that launched the next operation. */
static int add_gap(struct finding *x, struct range_walk *walk, uint64_t start_ns, uint64_t end_ns,
		   const struct operation *next)
{
	uint64_t until_ns;

	if (next->call == TRACE_NO_ROW)
		return add(x, start_ns, end_ns, (struct rank_place){ .state = RANK_HOST });
	for (; start_ns < end_ns; start_ns = until_ns) {
		struct rank_place place;

		until_ns = end_ns;
		if (place_at(x, walk, next, start_ns, &until_ns, &place) < 0 ||
		    add(x, start_ns, until_ns, place) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Adds the host's time from one launch to the next, up to end_ns. */
static int add_host(struct finding *x, struct range_walk *walk, uint64_t start_ns, uint64_t end_ns,
		    const struct operation *next)
{
	uint64_t until_ns;

	for (; start_ns < end_ns; start_ns = until_ns) {
		struct rank_piece piece = { .start_ns = start_ns };

		until_ns = end_ns;
		if (place_at(x, walk, next, start_ns, &until_ns, &piece.place) < 0)
			return -ENOMEM;
		piece.end_ns = until_ns;
		if (vec_push(&x->out->host, piece) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Lists what the host did between the launches of the collectives. */
static int find_host(struct finding *x)
{
	const struct calls *c = &x->report->calls;
	struct range_walk walk = RANGE_WALK_INIT(x->out);
	const struct operation *o = x->collectives.data;
	size_t count = x->collectives.count;
	uint64_t now_ns = 0;
	uint32_t call = TRACE_NO_ROW;
	int rc = 0;

	x->out->host.count = 0;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		if (o[i].call == TRACE_NO_ROW || (call != TRACE_NO_ROW && o[i].call <= call))
			continue;
		for (; call != TRACE_NO_ROW && call < o[i].call && rc >= 0; call++) {
			if (calls_kind(c, call) != api_kind_synchronize ||
			    c->end_ns[call] <= now_ns)
				continue;
			rc = add_host(x, &walk, now_ns,
				      MIN(c->start_ns[call], c->start_ns[o[i].call]), &o[i]);
			now_ns = MAX(now_ns, c->end_ns[call]);
		}
		if (call != TRACE_NO_ROW && rc >= 0)
			rc = add_host(x, &walk, now_ns, c->start_ns[o[i].call], &o[i]);
		call = o[i].call;
		now_ns = MAX(now_ns, c->start_ns[call]);
	}
	map_release(&walk.cursor.last);
	return rc;
}

ORDER(compare_operations, struct operation, UP(start_ns) ?: UP(end_ns))

/* Cuts an operation that began before the one before it ended; false: nothing is left. */
static bool cut(struct operation *o, uint64_t *until_ns)
{
	o->start_ns = MAX(o->start_ns, *until_ns);
	*until_ns = MAX(*until_ns, o->end_ns);
	return o->end_ns > o->start_ns;
}

static int collect_table(struct finding *x, enum gpu_work work, const struct map *collectives)
{
	const struct trace *t = x->report->trace;
	struct event_columns c = events_of(t, schema_gpu_work[work]->id);
	uint64_t known;

	for (struct row_walk w = process_rows(t, schema_gpu_work[work]->id, x->rank->process);
	     row_walk_next(&w);) {
		struct operation o = { .call = calls_launch(&x->report->calls, work, w.row),
				       .row = (uint32_t)w.row,
				       .work = (uint8_t)work,
				       .state = work == GPU_WORK_memcpy || work == GPU_WORK_memset
							? RANK_COPY
							: RANK_COMPUTE };

		if (c.device[w.row] != x->rank->device || !event_is_timed(&c, w.row) ||
		    (work == GPU_WORK_kernel && map_get(collectives, w.row, &known)))
			continue;
		o.start_ns = c.start_ns[w.row];
		o.end_ns = c.end_ns[w.row];
		o.call = calls_timed(&x->report->calls, o.call);
		if (vec_push(&x->work, o) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Lists the work, and removes overlaps. */
static int collect_work(struct finding *x, const struct collective_part *parts, size_t count)
{
	struct map collectives = MAP_INIT;
	uint64_t until_ns = 0;
	size_t kept = 0;
	int rc = 0;

	for (size_t i = 0; i < count && rc >= 0; i++)
		rc = map_put(&collectives, parts[i].kernel, 1);
	for (unsigned work = 0; work < GPU_WORK_KINDS && rc >= 0; work++)
		rc = collect_table(x, (enum gpu_work)work, &collectives);
	map_release(&collectives);
	for (size_t i = 1; i < x->work.count; i++) {
		if (compare_operations(&x->work.data[i - 1], &x->work.data[i]) <= 0)
			continue;
		vec_sort(&x->work, compare_operations); /* several tables */
		break;
	}
	for (size_t i = 0; i < x->work.count; i++)
		if (cut(&x->work.data[i], &until_ns))
			x->work.data[kept++] = x->work.data[i];
	x->work.count = kept;
	return rc;
}

static int collect_collectives(struct finding *x, const struct collective_part *parts,
			       const uint64_t *last_ns, size_t count)
{
	uint64_t until_ns = 0;

	for (size_t i = 0; i < count; i++) {
		struct operation o = {
			.start_ns = parts[i].start_ns,
			.end_ns = MIN(last_ns[i], parts[i].end_ns),
			.row = parts[i].kernel,
			.call = calls_timed(
				&x->report->calls,
				calls_launch(&x->report->calls, GPU_WORK_kernel, parts[i].kernel)),
			.work = GPU_WORK_kernel,
			.state = RANK_WAIT,
		};

		if (cut(&o, &until_ns) && vec_push(&x->collectives, o) < 0)
			return -ENOMEM;
		o.start_ns = o.end_ns;
		o.end_ns = parts[i].end_ns;
		o.state = RANK_TRANSFER;
		if (cut(&o, &until_ns) && vec_push(&x->collectives, o) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int collect_boundaries(struct finding *x)
{
	const struct nvtx_ranges *ranges = &x->out->ranges;

	for (size_t i = 0; i < ranges->count; i++)
		if (ranges->items[i].process == x->rank->process && ranges->items[i].pushed &&
		    (vec_push(&x->boundaries, ranges->items[i].start_ns) < 0 ||
		     vec_push(&x->boundaries, ranges->items[i].end_ns) < 0))
			return -ENOMEM;
	vec_sort(&x->boundaries, order_u64);
	return 0;
}

/* Adds the piece after *now_ns, and the gap before it. */
static int add_next(struct finding *x, struct range_walk *walk, size_t *w, size_t *c,
		    uint64_t *now_ns)
{
	const struct operation *work = &x->work.data[*w], *collective = &x->collectives.data[*c];
	bool more_work = *w < x->work.count, more = *c < x->collectives.count;
	uint64_t work_ns = more_work ? work->start_ns : UINT64_MAX;
	uint64_t collective_ns = more ? collective->start_ns : UINT64_MAX;
	const struct operation *o = work_ns <= MAX(collective_ns, *now_ns) ? work : collective;
	struct rank_place place;
	uint64_t end_ns;

	if (more && collective->end_ns <= *now_ns) {
		++*c;
		return 0;
	}
	if (o->start_ns > *now_ns) {
		if (*now_ns && add_gap(x, walk, *now_ns, o->start_ns, o) < 0)
			return -ENOMEM;
		*now_ns = o->start_ns;
	}
	if (place_of_launch(x, o, &place) < 0)
		return -ENOMEM;
	end_ns = o == work ? o->end_ns : MIN(o->end_ns, MAX(work_ns, *now_ns));
	if (o == work)
		++*w;
	if (add(x, *now_ns, end_ns, place) < 0)
		return -ENOMEM;
	*now_ns = end_ns;
	return 0;
}

/* Lists what is known of where threads were. */
static int collect_places(struct finding *x)
{
	int rc = collect_boundaries(x);

	if (rc >= 0)
		rc = collect_moments(x, TABLE_cpu_sample);
	if (rc >= 0)
		rc = collect_moments(x, TABLE_off_cpu);
	vec_sort(&x->moments, compare_moments);
	return rc;
}

static void finding_release(struct finding *x)
{
	vec_release(&x->work);
	vec_release(&x->collectives);
	vec_release(&x->boundaries);
	vec_release(&x->moments);
	groups_release(&x->lines);
	map_release(&x->usual_lines);
}

int rank_pieces_find(struct rank_pieces *p, const struct job_rank *rank,
		     const struct collective_part *parts, const uint64_t *last_ns, size_t count)
{
	_cleanup_(finding_release) struct finding x = FINDING_INIT(p, rank);
	struct range_walk walk = RANGE_WALK_INIT(p);
	size_t work = 0, collective = 0;
	uint64_t now_ns = 0;
	int rc = collect_work(&x, parts, count);

	p->pieces.count = 0;
	if (rc >= 0)
		rc = collect_collectives(&x, parts, last_ns, count);
	if (rc >= 0)
		rc = collect_places(&x);
	while (rc >= 0 && (work < x.work.count || collective < x.collectives.count))
		rc = add_next(&x, &walk, &work, &collective, &now_ns);
	if (rc >= 0)
		rc = find_host(&x);
	map_release(&walk.cursor.last);
	return rc < 0 ? rc : 0;
}

int rank_pieces_host(struct rank_pieces *p, const struct job_rank *rank,
		     const struct host_span *spans, size_t count)
{
	_cleanup_(finding_release) struct finding x = FINDING_INIT(p, rank);
	struct range_walk walk = RANGE_WALK_INIT(p);
	int rc = collect_places(&x);

	p->host.count = 0;
	for (size_t i = 0; i < count && rc >= 0; i++)
		rc = add_host(&x, &walk, spans[i].start_ns, spans[i].end_ns,
			      &(struct operation){ .call = spans[i].call });
	map_release(&walk.cursor.last);
	return rc < 0 ? rc : 0;
}
