/*
 * rank_path.c: first finds for each part of a collective the one before it on the path of its rank;
 * then goes from part to part, over the ranks; then finds the pieces in between.
 */
#include "analysis/rank_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/rank_pieces.h"
#include "analysis/report.h"
#include "analysis/steady.h"
#include "ranks/collective_wait.h"

#define NONE UINT32_MAX

/* The path from the begin of a part back to the end of the one before it on the rank's own path. */
struct leg {
	uint64_t start_ns, end_ns; /* of the first host's clock */
	uint32_t part, before; /* parts; before NONE: it ends at the window's start */
	uint32_t rank, source;
};

struct rank_pause {
	uint64_t start_ns, end_ns; /* of the rank's own clock */
	uint32_t rank;
};

struct pathing {
	const struct job_source *source;
	const struct collectives *collectives;
	struct rank_path *out;
	/* by part: for which one it waited, NONE: unknown; the one before; its task */
	uint32_t *last, *before, *task;
	uint32_t *parts; /* by source of their ranks, and in their order */
	size_t *first; /* by source: the first of its parts */
	uint64_t start_ns; /* end of the last start-up, by the first host's clock */
	VEC(struct rank_pause) pauses;
	VEC(struct leg) legs; /* from the last to the first */
	GROUPS(struct rank_path_owner) owners;
	/* of the open report */
	const struct report *report;
	uint32_t *part_of; /* by task: the part that it is, or NONE */
	struct map names, lines; /* place, call -> item of texts */
	struct rank_pieces places;
	struct interner place_texts;
	struct path pieces;
	VEC(struct host_span) hosts; /* of one rank: its host's time on the path */
};

static const struct collective_part *part_at(const struct pathing *x, uint32_t part)
{
	return &x->collectives->parts.data[part];
}

static const struct job_rank *rank_of(const struct pathing *x, uint32_t part)
{
	return &x->collectives->ranks[part_at(x, part)->rank];
}

/* How far the clock of the part's host is ahead of the first host's at its begin. */
static uint64_t ahead_ns(const struct pathing *x, uint32_t part)
{
	return kernel_columns(x->report->trace)->start_ns[part_at(x, part)->kernel] -
	       part_at(x, part)->start_ns;
}

/* Lists the parts of each source. */
static int order_parts(struct pathing *x)
{
	size_t count = x->collectives->parts.count, sources = x->source->count;

	x->parts = malloc((count + 1) * sizeof(*x->parts));
	x->first = calloc(sources + 2, sizeof(*x->first));
	if (!x->parts || !x->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		x->first[rank_of(x, i)->source + 2]++;
	for (size_t i = 2; i < sources + 2; i++)
		x->first[i] += x->first[i - 1];
	for (uint32_t i = 0; i < count; i++)
		x->parts[x->first[rank_of(x, i)->source + 1]++] = i;
	return 0;
}

static int find_last(struct pathing *x)
{
	const struct collectives *c = x->collectives;
	size_t count = c->parts.count;

	x->last = malloc((count + 1) * sizeof(*x->last));
	x->before = malloc((count + 1) * sizeof(*x->before));
	x->task = malloc((count + 1) * sizeof(*x->task));
	if (!x->last || !x->before || !x->task)
		return -ENOMEM;
	memset(x->last, 0xff, count * sizeof(*x->last));
	memset(x->before, 0xff, count * sizeof(*x->before));
	memset(x->task, 0xff, count * sizeof(*x->task));
	for (size_t i = 0; i < c->matches.items.count; i++) {
		const struct collective_match *m = &c->matches.items.data[i];
		uint32_t *last = &x->last[m->first];

		if (m->parts < 2 || !collective_is_whole(c->parts.data, m))
			continue;
		collective_find_needs(c->parts.data, m, last);
		collective_find_last(c->parts.data, m, last, c->uncertainty_ns, last);
	}
	return 0;
}

/* --- the open report --- */

/* Finds the tasks of the report's parts. */
static int find_tasks(struct pathing *x, size_t source)
{
	const struct causes *c = &x->report->causes;
	size_t count = causes_task_count(c);
	_cleanup_(map_release) struct map parts = MAP_INIT;
	uint64_t part;
	int rc = 0;

	x->part_of = malloc((count + 1) * sizeof(*x->part_of));
	if (!x->part_of)
		return -ENOMEM;
	for (size_t i = x->first[source]; i < x->first[source + 1] && rc >= 0; i++)
		if (x->last[x->parts[i]] != NONE)
			rc = map_put(&parts, part_at(x, x->parts[i])->kernel, x->parts[i]);
	for (uint32_t i = 0; i < count && rc >= 0; i++) {
		const struct task *task = &c->tasks.data[i];

		x->part_of[i] = NONE;
		if (task->kind != GPU_WORK_kernel || !map_get(&parts, task->row, &part) ||
		    !selection_has_time(&x->report->selection, true, task->start_ns))
			continue;
		x->part_of[i] = (uint32_t)part;
		x->task[part] = i;
	}
	return rc;
}

static bool is_part(void *user, uint32_t task)
{
	const struct pathing *x = user;

	return x->part_of[task] != NONE;
}

/* Finds the part to which the path before a part leads. */
static int find_before(struct pathing *x, uint32_t part)
{
	const struct causes *c = &x->report->causes;
	struct path_point at = { c->tasks.data[x->task[part]].start_ns, x->task[part], true };
	int rc;

	x->pieces.pieces.count = 0;
	rc = path_walk(&x->pieces, c, &at, x->report->start_ns, is_part, x);
	if (at.task != TASK_NONE && !at.at_start)
		x->before[part] = x->part_of[at.task];
	return rc;
}

/* The window begins when all ranks have started up. */
static int find_steady(struct pathing *x, uint32_t part)
{
	const struct report *r = x->report;
	uint32_t gpu = rank_of(x, part)->gpu;
	struct steady steady = { 0 };

	if (r->busy->gpus[gpu].union_ns)
		steady_find_gpu(&r->busy->gpus[gpu], &r->idle->gpus[gpu], &steady);
	x->start_ns =
		MAX(x->start_ns, MAX(steady.start_up.end_ns, r->start_ns) - ahead_ns(x, part));
	for (size_t i = 0; i < steady.pauses; i++) {
		struct rank_pause pause = { steady.pause[i].start_ns,
					    steady.pause[i].start_ns + steady.pause[i].length_ns,
					    part_at(x, part)->rank };

		if (vec_push(&x->pauses, pause) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int open_report(struct pathing *x, size_t source)
{
	struct report *report;
	int rc = x->source->open(x->source->user, source, &report);

	if (rc < 0)
		return rc;
	x->report = report;
	return find_tasks(x, source);
}

static void close_report(struct pathing *x)
{
	free(x->part_of);
	x->part_of = NULL;
	map_release(&x->names);
	map_release(&x->lines);
	if (x->report)
		x->source->close(x->source->user, (struct report *)(uintptr_t)x->report);
	x->report = NULL;
}

/* Finds what is before the parts of a report. */
static int link_parts(struct pathing *x, size_t source)
{
	_cleanup_free_ bool *known = calloc(x->collectives->rank_count + 1, sizeof(*known));
	int rc = open_report(x, source);

	if (!known)
		rc = -ENOMEM;
	for (size_t i = x->first[source]; i < x->first[source + 1] && rc >= 0; i++) {
		uint32_t part = x->parts[i], rank = part_at(x, part)->rank;

		if (x->task[part] == NONE)
			continue;
		if (!known[rank])
			rc = find_steady(x, part);
		known[rank] = true;
		if (rc >= 0)
			rc = find_before(x, part);
	}
	close_report(x);
	return rc;
}

/* --- over the ranks --- */

/*
 * The window begins with the time in which ranks are compared: when all ranks of a collective have
 * begun it, else of the first one.
 */
static void limit_start(struct pathing *x, const struct rank_times *times)
{
	const struct collectives *c = x->collectives;
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < c->matches.items.count && !times->start_ns; i++) {
		const struct collective_match *m = &c->matches.items.data[i];
		uint64_t last_ns = 0;

		for (size_t p = m->first; p < m->first + m->parts; p++)
			last_ns = MAX(last_ns,
				      x->task[p] == NONE ? UINT64_MAX : c->parts.data[p].start_ns);
		if (last_ns >= x->start_ns)
			first_ns = MIN(first_ns, last_ns);
	}
	x->start_ns = times->start_ns ? MAX(times->start_ns, x->start_ns) : first_ns;
}

static uint32_t last_part(const struct pathing *x)
{
	uint32_t last = NONE;

	for (uint32_t i = 0; i < x->collectives->parts.count; i++)
		if (x->task[i] != NONE &&
		    (last == NONE || part_at(x, i)->end_ns > part_at(x, last)->end_ns))
			last = i;
	return last;
}

/* The part for which one waited, whose task is known; the same one if it waited for none. */
static uint32_t waited_for(const struct pathing *x, uint32_t part)
{
	uint32_t last = x->last[part];

	return x->task[last] == NONE ? part : last;
}

/* Lists the legs. Each begins, going backwards, where the one before it has ended. */
static int find_legs(struct pathing *x)
{
	uint32_t part = last_part(x);
	uint64_t now_ns;

	if (part == NONE || part_at(x, part)->end_ns <= x->start_ns)
		return 0;
	now_ns = part_at(x, part)->end_ns;
	x->out->start_ns = x->start_ns;
	/* The first leg is only a transfer. */
	for (uint32_t from = NONE; x->legs.count <= x->collectives->parts.count;) {
		uint32_t last = part == NONE ? NONE : waited_for(x, part);
		uint64_t start_ns = last == NONE ? 0 : part_at(x, last)->start_ns;
		struct leg leg = { MAX(MIN(start_ns, now_ns), x->start_ns),      now_ns, from, part,
				   part_at(x, from == NONE ? part : from)->rank, 0 };

		leg.source = x->collectives->ranks[leg.rank].source;
		if (vec_push(&x->legs, leg) < 0)
			return -ENOMEM;
		now_ns = leg.start_ns;
		if (part == NONE || now_ns <= x->start_ns)
			return 0;
		from = last;
		part = x->before[last];
	}
	x->out->start_ns = now_ns; /* a cycle within the clocks' uncertainty: no more is known */
	return 0;
}

/* --- owners --- */

static int intern(struct pathing *x, struct map *known, uint64_t key, const struct strbuf *text,
		  uint32_t *item)
{
	int64_t id = interner_add(&x->out->texts, strbuf_text(text), text->length, NULL);

	if (text->failed || id < 0 || map_put(known, key, (uint64_t)id) < 0)
		return -ENOMEM;
	*item = (uint32_t)id;
	return 0;
}

static int name_of(struct pathing *x, struct path_place p, uint32_t *item)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t known, key;

	key = path_place_id(p);
	if (map_get(&x->names, key, &known)) {
		*item = (uint32_t)known;
		return 0;
	}
	path_place_text(x->report, p, false, &text);
	return intern(x, &x->names, key, &text, item);
}

static int intern_place(struct pathing *x, struct rank_place place, uint32_t *item)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	int64_t id;

	*item = RANK_PATH_NO_TEXT;
	if (place.kind == PLACE_UNKNOWN)
		return 0;
	strbuf_addf(&line, "%s%s", place.kind == PLACE_RANGE ? "range " : "",
		    x->place_texts.items[place.text].text);
	id = interner_add(&x->out->texts, strbuf_text(&line), line.length, NULL);
	*item = (uint32_t)id;
	return line.failed || id < 0 ? -ENOMEM : 0;
}

/* The line or range of the call that is the task, or launched it. */
static int line_of(struct pathing *x, uint32_t index, uint32_t *item)
{
	const struct causes *c = &x->report->causes;
	const struct task *task = index == TASK_NONE ? NULL : &c->tasks.data[index];
	struct rank_place place = { 0 };
	uint64_t known;

	*item = RANK_PATH_NO_TEXT;
	if (task && task->kind != TASK_CALL)
		task = task->launch == TASK_NONE ? NULL : &c->tasks.data[task->launch];
	if (!task)
		return 0;
	if (map_get(&x->lines, task->row, &known)) {
		*item = (uint32_t)known;
		return 0;
	}
	if (rank_pieces_call(&x->places, c->lanes.data[task->lane].process, task->row, &place) <
		    0 ||
	    intern_place(x, place, item) < 0)
		return -ENOMEM;
	return map_put(&x->lines, task->row, *item);
}

static int add_owner(struct pathing *x, struct rank_path_owner owner)
{
	uint64_t key = hash_u64((uint64_t)owner.rank << 32 | owner.name) ^
		       hash_u64((uint64_t)owner.class << 32 | owner.line);
	struct rank_path_owner *o =
		groups_at(&x->owners, key, .rank = owner.rank, .name = owner.name,
			  .line = owner.line, .class = owner.class);

	if (!o)
		return -ENOMEM;
	o->ns += owner.ns;
	o->count++;
	x->out->class_ns[owner.class] += owner.ns;
	x->out->window_ns += owner.ns;
	return 0;
}

/* The class of a piece: those in the middle of a pause are the pause's. */
static uint8_t class_of(const struct pathing *x, uint32_t rank, uint64_t start_ns, uint64_t end_ns,
			enum path_class class)
{
	uint64_t middle_ns = start_ns + (end_ns - start_ns) / 2;

	for (size_t i = 0; i < x->pauses.count; i++)
		if (x->pauses.data[i].rank == rank && x->pauses.data[i].start_ns <= middle_ns &&
		    middle_ns < x->pauses.data[i].end_ns)
			return RANK_PATH_PAUSE;
	return (uint8_t) class;
}

/* Latencies and what is unknown are no line's. */
static bool has_line(enum path_class class)
{
	return class <= PATH_GRAPH || class == PATH_CALL;
}

static int add_piece(struct pathing *x, uint32_t rank, const struct path_piece *piece)
{
	struct path_share shares[PATH_SHARES];
	unsigned count = path_shares(x->report, piece, shares);
	int rc = 0;

	if (piece->kind == PIECE_HOST && piece->task != TASK_NONE)
		return vec_push(
			&x->hosts,
			((struct host_span){ piece->start_ns, piece->end_ns,
					     x->report->causes.tasks.data[piece->task].row }));

	for (unsigned i = 0; i < count && rc >= 0; i++) {
		struct rank_path_owner owner = { .ns = shares[i].ns,
						 .rank = rank,
						 .line = RANK_PATH_NO_TEXT,
						 .class = class_of(x, rank, piece->start_ns,
								   piece->end_ns,
								   shares[i].place.class) };

		rc = name_of(x, shares[i].place, &owner.name);
		if (rc >= 0 && has_line(shares[i].place.class))
			rc = line_of(x, piece->task, &owner.line);
		if (rc >= 0)
			rc = add_owner(x, owner);
	}
	return rc;
}

static int add_transfer(struct pathing *x, uint32_t part, uint64_t ns)
{
	const struct collective_part *p = part_at(x, part);
	const char *function = schema_value_name(
		&schema_table(TABLE_collective)->columns[COLUMN_collective_function], p->function);
	struct rank_path_owner owner = { .ns = ns, .rank = p->rank, .class = RANK_PATH_TRANSFER };
	int64_t name = interner_add(&x->out->texts, function, strlen(function), NULL);

	if (!ns)
		return 0;
	if (name < 0 || line_of(x, x->task[part], &owner.line) < 0)
		return -ENOMEM;
	owner.name = (uint32_t)name;
	return add_owner(x, owner);
}

/* Adds the pieces of a leg. Times of the rank's own clock go on from those of the leg's begin. */
static int add_leg(struct pathing *x, const struct leg *leg)
{
	uint32_t part = leg->part == NONE ? leg->before : leg->part;
	uint64_t ahead = ahead_ns(x, part), start_ns = leg->start_ns + ahead;
	struct path_point at = { leg->end_ns + ahead, x->task[part], true };
	int rc = 0;

	if (leg->start_ns == leg->end_ns)
		return 0;
	x->pieces.pieces.count = 0;
	if (leg->part != NONE)
		rc = path_walk(&x->pieces, &x->report->causes, &at, start_ns, is_part, x);
	for (size_t i = 0; i < x->pieces.pieces.count && rc >= 0; i++)
		rc = add_piece(x, leg->rank, &x->pieces.pieces.data[i]);
	if (rc >= 0 && at.ns > start_ns)
		rc = leg->before == NONE
			     ? add_piece(x, leg->rank,
					 &(struct path_piece){ start_ns, at.ns, TASK_NONE,
							       PIECE_UNKNOWN, EDGE_none })
			     : add_transfer(x, leg->before, at.ns - start_ns);
	return rc;
}

ORDER(by_start, struct host_span, UP(start_ns))

/* Divides the host's time of a rank on the path by where it was. */
static int add_hosts(struct pathing *x, uint32_t rank)
{
	int64_t name = interner_add(&x->out->texts, "host", strlen("host"), NULL);
	int rc = name < 0 ? -ENOMEM : 0;

	vec_sort(&x->hosts, by_start);
	if (rc >= 0)
		rc = rank_pieces_host(&x->places, &x->collectives->ranks[rank], x->hosts.data,
				      x->hosts.count);
	for (size_t i = 0; i < x->places.host.count && rc >= 0; i++) {
		const struct rank_piece *piece = &x->places.host.data[i];
		struct rank_path_owner owner = { .ns = piece->end_ns - piece->start_ns,
						 .rank = rank,
						 .name = (uint32_t)name,
						 .class = class_of(x, rank, piece->start_ns,
								   piece->end_ns, PATH_HOST) };

		rc = intern_place(x, piece->place, &owner.line);
		if (rc >= 0)
			rc = add_owner(x, owner);
	}
	x->hosts.count = 0;
	return rc;
}

/* --- what it adds up to --- */

ORDER(by_rank, struct leg, UP(source) ?: UP(rank) ?: DOWN(end_ns))
ORDER(longest_first, struct rank_path_owner,
      DOWN(ns) ?: UP(rank) ?: UP(class) ?: UP(name) ?: UP(line))
ORDER(most_first, struct rank_on_path, DOWN(ns) ?: UP(rank))

/* Joins the legs of a rank that follow each other. */
static int find_stays(struct pathing *x)
{
	VEC(struct rank_path_stay) stays = VEC_INIT;

	for (size_t i = 0; i < x->legs.count; i++) {
		const struct leg *leg = &x->legs.data[i];
		struct rank_path_stay new = { leg->start_ns - x->out->start_ns,
					      leg->end_ns - x->out->start_ns, leg->rank };

		x->out->collectives += leg->before != NONE;
		if (leg->start_ns == leg->end_ns)
			continue;
		if (stays.count && stays.data[stays.count - 1].rank == leg->rank)
			stays.data[stays.count - 1].start_ns = new.start_ns;
		else if (vec_push(&stays, new) < 0)
			goto fail;
	}
	x->out->stays = stays.data;
	x->out->stay_count = stays.count;
	return 0;
fail:
	vec_release(&stays);
	return -ENOMEM;
}

static int sum_ranks(struct rank_path *out, size_t ranks)
{
	size_t count = 0;

	out->ranks = calloc(ranks + 1, sizeof(*out->ranks));
	if (!out->ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < ranks; i++)
		out->ranks[i].rank = i;
	for (size_t i = 0; i < out->owner_count; i++) {
		const struct rank_path_owner *o = &out->owners[i];

		out->ranks[o->rank].ns += o->ns;
		out->ranks[o->rank].transfer_ns += o->class == RANK_PATH_TRANSFER ? o->ns : 0;
		out->ranks[o->rank].pause_ns += o->class == RANK_PATH_PAUSE ? o->ns : 0;
	}
	for (size_t i = 0; i < out->stay_count; i++)
		out->ranks[out->stays[i].rank].stays++;
	for (size_t i = 0; i < ranks; i++)
		if (out->ranks[i].ns)
			out->ranks[count++] = out->ranks[i];
	out->rank_count = count;
	qsort(out->ranks, count, sizeof(*out->ranks), most_first);
	return 0;
}

/* What a rank, in all of its restarts, has of the path other than transfers and pauses. */
static uint64_t own_ns(const struct collectives *c, const struct rank_path *p, uint32_t number)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < p->rank_count; i++)
		if (c->ranks[p->ranks[i].rank].number == number)
			ns += p->ranks[i].ns - p->ranks[i].transfer_ns - p->ranks[i].pause_ns;
	return ns;
}

/* A rank that delays the others for most of the time is on the path for most of it. */
static void check_verdict(const struct collectives *c, const struct rank_path *p,
			  struct rank_times *t)
{
	uint64_t late_ns;

	if (t->kind != JOB_RANK || !p->window_ns)
		return;
	late_ns = own_ns(c, p, c->ranks[t->rank].number);
	for (size_t i = 0; i < p->rank_count; i++)
		if (own_ns(c, p, c->ranks[p->ranks[i].rank].number) > late_ns) {
			t->kind = JOB_UNKNOWN;
			t->path_rank = p->ranks[i].rank;
			t->contradicted = true;
			return;
		}
}

/* Adds the legs of a source, which begin at `from`; returns where they end, or -ENOMEM. */
static int64_t add_legs_of_source(struct pathing *x, size_t from)
{
	const struct leg *legs = x->legs.data;
	size_t to = from;
	int rc = open_report(x, legs[from].source);

	interner_init(&x->place_texts);
	if (rc >= 0)
		rc = rank_pieces_init(&x->places, (struct report *)(uintptr_t)x->report,
				      &x->place_texts);
	for (; to < x->legs.count && rc >= 0 && legs[to].source == legs[from].source; to++) {
		rc = add_leg(x, &legs[to]);
		if (rc >= 0 && (to + 1 == x->legs.count || legs[to + 1].rank != legs[to].rank))
			rc = add_hosts(x, legs[to].rank);
	}
	rank_pieces_release(&x->places);
	interner_release(&x->place_texts);
	close_report(x);
	return rc < 0 ? rc : (int64_t)to;
}

static int add_legs(struct pathing *x)
{
	int64_t from = find_stays(x);

	vec_sort(&x->legs, by_rank);
	while (from >= 0 && (size_t)from < x->legs.count)
		from = add_legs_of_source(x, (size_t)from);
	return from < 0 ? (int)from : 0;
}

int rank_path_find(const struct job_source *source, const struct collectives *c,
		   struct rank_times *times, struct rank_path *out)
{
	struct pathing x = {
		.source = source, .collectives = c, .out = out, .owners = GROUPS_INIT
	};
	int rc;

	*out = (struct rank_path){ 0 };
	interner_init(&out->texts);
	if (!times->waits_known || !c->whole)
		return 0;
	rc = order_parts(&x);
	if (rc >= 0)
		rc = find_last(&x);
	for (size_t i = 0; i < source->count && rc >= 0; i++)
		rc = link_parts(&x, i);
	if (rc >= 0) {
		limit_start(&x, times);
		rc = find_legs(&x);
	}
	if (rc >= 0)
		rc = add_legs(&x);
	groups_take(&x.owners, longest_first, &out->owners, &out->owner_count);
	if (rc >= 0)
		rc = sum_ranks(out, c->rank_count);
	if (rc >= 0)
		check_verdict(c, out, times);
	free(x.parts);
	free(x.first);
	free(x.last);
	free(x.before);
	free(x.task);
	vec_release(&x.legs);
	vec_release(&x.pauses);
	vec_release(&x.hosts);
	path_release(&x.pieces);
	return rc;
}

static void release(void *result)
{
	struct rank_path *out = result;

	free(out->owners);
	free(out->ranks);
	free(out->stays);
	interner_release(&out->texts);
}

static int run(struct report *r, void *result)
{
	struct job_source source = job_source_of(r);

	/* A verdict that blames a rank is held against the path, which the graph of causes has. */
	if (!r->options.critical_path && r->rank_times->kind != JOB_RANK)
		return 0;
	return rank_path_find(&source, r->collectives, r->rank_times, result);
}

const struct analysis analysis_rank_path = {
	.size = sizeof(struct rank_path),
	.run = run,
	.release = release,
	.reads_others = true,
};
