/*
 * rank_times.c: first lists for each rank the intervals between its collectives, with the time by
 * place in each; then compares the intervals of all ranks before each collective.
 */
#include "analysis/rank_times.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/rank_compare.h"
#include "analysis/report.h"
#include "analysis/steady.h"
#include "base/search.h"
#include "ranks/collective_wait.h"

#define NO_MATCH UINT32_MAX

struct ordered_part {
	uint64_t start_ns;
	size_t part; /* item of collectives.parts */
	uint32_t match, rank;
};

struct comparing {
	const struct report *report; /* the open one */
	const struct collectives *collectives;
	struct rank_times *out;
	struct rank_pieces pieces; /* of one report */
	struct rank_intervals intervals;
	uint64_t *chains; /* by match: a number that equal ranks share */
	uint32_t *waited_for; /* by part of a match with times: the part for which it waited last */
	VEC(struct ordered_part) order; /* all parts that ended, by rank and start */
	/* of one rank, by start: its parts, their matches, last arrivals by its own clock */
	VEC(struct collective_part) parts;
	VEC(uint32_t) matches;
	VEC(uint64_t) last;
	VEC(uint64_t) arrived; /* by the common clock */
	struct steady steady; /* of one rank, by its own clock */
};

static int find_arrivals(struct comparing *x)
{
	const struct collectives *c = x->collectives;
	size_t count = c->matches.items.count;

	x->intervals.last_ns = calloc(count + 1, sizeof(*x->intervals.last_ns));
	x->chains = calloc(count + 1, sizeof(*x->chains));
	x->waited_for = calloc(c->parts.count + 1, sizeof(*x->waited_for));
	if (!x->intervals.last_ns || !x->chains || !x->waited_for)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct collective_match *m = &c->matches.items.data[i];
		const struct collective_part *p = &c->parts.data[m->first];

		if (!collective_is_whole(c->parts.data, m) || m->parts < 2)
			continue;
		collective_find_needs(c->parts.data, m, &x->waited_for[m->first]);
		collective_find_last(c->parts.data, m, &x->waited_for[m->first], 0,
				     &x->waited_for[m->first]);
		for (size_t k = 0; k < m->parts; k++) {
			x->intervals.last_ns[i] = MAX(x->intervals.last_ns[i], p[k].start_ns);
			x->chains[i] = hash_u64(x->chains[i] ^ (p[k].rank + 1));
		}
	}
	return 0;
}

ORDER(compare_parts, struct ordered_part, UP(rank) ?: UP(start_ns) ?: UP(part))

/* Orders the parts that ended by rank and start. */
static int order_parts(struct comparing *x)
{
	const struct collectives *c = x->collectives;

	for (size_t i = 0; i < c->matches.items.count; i++) {
		const struct collective_match *m = &c->matches.items.data[i];

		for (size_t p = m->first; p < m->first + m->parts; p++) {
			const struct collective_part *part = &c->parts.data[p];
			struct ordered_part item = { part->start_ns, p, (uint32_t)i, part->rank };

			if (part->end_ns && vec_push(&x->order, item) < 0)
				return -ENOMEM;
		}
	}
	vec_sort(&x->order, compare_parts);
	return 0;
}

/* Lists the parts of a rank that ended, with the times of its own clock. */
static int list_parts(struct comparing *x, uint32_t rank)
{
	const struct collectives *c = x->collectives;
	const uint64_t *starts = kernel_columns(x->report->trace)->start_ns;
	const struct ordered_part *o = x->order.data;
	size_t first = sorted_prefix(x->order.count, i, o[i].rank < rank);

	x->parts.count = x->matches.count = x->last.count = x->arrived.count = 0;
	for (size_t i = first; i < x->order.count && o[i].rank == rank; i++) {
		struct collective_part part = c->parts.data[o[i].part];
		uint64_t ahead = starts[part.kernel] - part.start_ns, last = part.start_ns + ahead;
		uint32_t match = o[i].match;

		if (x->intervals.last_ns[match])
			last = c->parts.data[x->waited_for[o[i].part]].start_ns + ahead;
		part.start_ns += ahead;
		part.end_ns += ahead;
		if (!x->intervals.last_ns[match] ||
		    !selection_has_time(&x->report->selection, true, part.start_ns))
			match = NO_MATCH;
		if (vec_push(&x->parts, part) < 0 || vec_push(&x->matches, match) < 0 ||
		    vec_push(&x->last, last) < 0 || vec_push(&x->arrived, o[i].start_ns) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_share(struct comparing *x, struct rank_shares *to, struct rank_place place,
		     uint64_t ns)
{
	struct rank_share *shares = x->intervals.shares.data + to->first, new = { place, ns };

	to->ns += ns;
	for (size_t i = 0; i < to->count; i++) {
		if (rank_place_equal(shares[i].place, place)) {
			shares[i].ns += ns;
			return 0;
		}
	}
	to->count++;
	return vec_push(&x->intervals.shares, new);
}

/* Adds the pieces from start_ns to end_ns. */
static int add_shares(struct comparing *x, struct rank_interval *v, struct rank_shares *to,
		      const struct rank_piece *pieces, size_t count, uint64_t start_ns,
		      uint64_t end_ns)
{
	size_t first = sorted_prefix(count, i, pieces[i].end_ns <= start_ns);

	to->first = x->intervals.shares.count;
	for (size_t i = first; i < count && pieces[i].start_ns < end_ns; i++) {
		struct rank_place place = pieces[i].place;
		uint64_t ns = MIN(pieces[i].end_ns, end_ns) - MAX(pieces[i].start_ns, start_ns);

		if (to == &v->gpu && place.state == RANK_TRANSFER)
			v->transfer_ns += ns;
		if (place.state == RANK_WAIT)
			v->wait_ns += ns;
		/* Stages in the middle of a pipeline transfer twice as much, at no cost. */
		else if (!(v->pair && place.state == RANK_TRANSFER) &&
			 add_share(x, to, place, ns) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Row of the call that launched a kernel, or TRACE_NO_ROW. */
static uint32_t launch_of(const struct comparing *x, uint32_t kernel)
{
	return calls_timed(&x->report->calls,
			   calls_launch(&x->report->calls, GPU_WORK_kernel, kernel));
}

static uint64_t launch_ns(const struct comparing *x, uint32_t kernel)
{
	uint32_t call = launch_of(x, kernel);

	return call == TRACE_NO_ROW ? 0 : x->report->calls.start_ns[call];
}

/*
 * How much earlier a rank would be if it never waited: the GPU by `gpu_ns`, the host, whose clock
 * the GPU's progress sets whenever it waits for the GPU, by `host_ns`.
 */
struct advance {
	size_t latest; /* item of comparing.parts */
	uint64_t gpu_ns, host_ns;
};

#define BLOCKED_LAUNCH_NS 100000 /* a launch that takes longer waited for the GPU */
#define HOST_AHEAD_NS 20000000 /* a host that is this far ahead does not limit the GPU */

/* Whether the host waited for the GPU between two calls. */
static bool has_waited(const struct comparing *x, uint32_t from, uint32_t to)
{
	const struct calls *c = &x->report->calls;

	for (uint32_t i = from + 1; i < to; i++)
		if (calls_kind(c, i) == api_kind_synchronize ||
		    c->end_ns[i] - c->start_ns[i] >= BLOCKED_LAUNCH_NS)
			return true;
	return false;
}

/*
 * Finds the time that a rank needs for itself. Without the wait its GPU would arrive that much
 * earlier, but not before the launch, which comes earlier only by what the host has gained.
 */
static void add_own_time(struct comparing *x, struct advance *a, struct rank_interval *v,
			 size_t from, size_t to)
{
	uint32_t first = launch_of(x, x->parts.data[from].kernel);
	uint32_t last = launch_of(x, x->parts.data[to].kernel);
	uint64_t start_ns = x->parts.data[to].start_ns, ahead_ns, gpu_ns;

	v->own_ns = v->gpu.ns;
	a->gpu_ns += v->wait_ns;
	if (last == TRACE_NO_ROW) {
		a->host_ns = a->gpu_ns;
		return;
	}
	ahead_ns = start_ns - MIN(x->report->calls.end_ns[last], start_ns);
	if (ahead_ns >= HOST_AHEAD_NS || (first != TRACE_NO_ROW && has_waited(x, first, last)))
		a->host_ns = a->gpu_ns;
	gpu_ns = MIN(a->gpu_ns, a->host_ns + ahead_ns);
	v->own_ns += a->gpu_ns - gpu_ns;
	a->gpu_ns = gpu_ns;
}

static bool has_pause(const struct comparing *x, uint64_t start_ns, uint64_t end_ns)
{
	for (size_t i = 0; i < x->steady.pauses; i++)
		if (x->steady.pause[i].start_ns < end_ns &&
		    x->steady.pause[i].start_ns + x->steady.pause[i].length_ns > start_ns)
			return true;
	return false;
}

static int add_host_totals(struct comparing *x, const struct rank_interval *v)
{
	for (size_t i = v->host.first; i < v->host.first + v->host.count; i++) {
		struct host_total *total = groups_at(
			&x->intervals.host_totals,
			rank_place_key(v->rank, x->intervals.shares.data[i].place), .ns = 0);

		if (!total)
			return -ENOMEM;
		total->ns += x->intervals.shares.data[i].ns;
	}
	return 0;
}

/* Adds the interval between two parts of the rank. */
static int add_interval(struct comparing *x, uint32_t rank, struct advance *advance, size_t to)
{
	const struct rank_pieces *p = &x->pieces;
	size_t from = advance->latest;
	uint64_t start_ns = x->parts.data[from].start_ns, end_ns = x->parts.data[to].start_ns;
	uint64_t launch = launch_ns(x, x->parts.data[from].kernel);
	struct rank_interval v = { .match = x->matches.data[to],
				   .previous = x->matches.data[from],
				   .rank = rank,
				   .arrived_ns = x->arrived.data[to],
				   .early_ns = x->last.data[to] - end_ns,
				   .pair = x->parts.data[to].function == collective_function_send };

	if (start_ns < x->steady.start_up.end_ns || has_pause(x, start_ns, end_ns))
		return 0;
	if (add_shares(x, &v, &v.gpu, p->pieces.data, p->pieces.count, start_ns, end_ns) < 0 ||
	    (launch && add_shares(x, &v, &v.host, p->host.data, p->host.count, launch,
				  launch_ns(x, x->parts.data[to].kernel)) < 0))
		return -ENOMEM;
	add_own_time(x, advance, &v, from, to);
	v.last_ns = x->intervals.last_ns[v.match];
	v.order_ns = v.pair ? UINT64_MAX : v.last_ns;
	v.group = v.pair ? x->chains[v.match] : v.match;
	return vec_push(&x->intervals.items, v) < 0 ? -ENOMEM : add_host_totals(x, &v);
}

/* Adds the intervals between collectives of equal ranks. */
static int add_intervals(struct comparing *x, uint32_t rank)
{
	GROUPS(struct advance) chains = GROUPS_INIT;
	int rc = 0;

	for (size_t i = 0; i < x->parts.count && rc >= 0; i++) {
		uint32_t match = x->matches.data[i];
		size_t before = chains.items.count;
		struct advance *a;

		if (match == NO_MATCH)
			continue;
		a = groups_at(&chains, x->chains[match], .gpu_ns = 0);
		if (!a) {
			rc = -ENOMEM;
			break;
		}
		if (chains.items.count == before)
			rc = add_interval(x, rank, a, i);
		a->latest = i;
	}
	groups_release(&chains);
	return rc;
}

/* Adds the time from the first to the last compared collective. */
static int add_states(struct comparing *x, struct rank_time *time)
{
	const struct rank_pieces *p = &x->pieces;
	uint64_t from_ns = UINT64_MAX, to_ns = 0;

	for (size_t i = 0; i < x->parts.count; i++) {
		if (x->matches.data[i] == NO_MATCH ||
		    x->parts.data[i].start_ns < x->steady.start_up.end_ns)
			continue;
		from_ns = MIN(from_ns, x->parts.data[i].start_ns);
		to_ns = MAX(to_ns, x->parts.data[i].end_ns);
	}
	for (size_t i = 0; i < p->pieces.count; i++) {
		uint64_t start_ns = MAX(p->pieces.data[i].start_ns, from_ns);
		uint64_t end_ns = MIN(p->pieces.data[i].end_ns, to_ns);

		if (p->pieces.data[i].place.state == RANK_WAIT) {
			time->all_wait_ns += p->pieces.data[i].end_ns - p->pieces.data[i].start_ns;
			if (vec_push(&time->waits, p->pieces.data[i]) < 0)
				return -ENOMEM;
		}
		if (end_ns > start_ns && !has_pause(x, start_ns, end_ns))
			time->state_ns[p->pieces.data[i].place.state] += end_ns - start_ns;
	}
	return 0;
}

static int measure_rank(struct comparing *x, uint32_t rank)
{
	const struct job_rank *job_rank = &x->collectives->ranks[rank];
	int rc = list_parts(x, rank);

	x->steady = (struct steady){ 0 };
	if (x->report->busy->gpus[job_rank->gpu].union_ns)
		steady_find_gpu(&x->report->busy->gpus[job_rank->gpu],
				&x->report->idle->gpus[job_rank->gpu], &x->steady);
	if (rc >= 0)
		rc = rank_pieces_find(&x->pieces, job_rank, x->parts.data, x->last.data,
				      x->parts.count);
	if (rc >= 0)
		rc = add_intervals(x, rank);
	if (rc >= 0)
		rc = add_states(x, &x->out->items[rank]);
	if (rc < 0)
		return rc;
	return rank_measures_find(&x->pieces, job_rank, x->out->items[rank].state_ns,
				  x->steady.start_up.end_ns, &x->out->measured.items[rank]);
}

static int compare_late(const void *a, const void *b, void *user)
{
	const struct rank_time *items = user;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ORDER_OF(items[y].late_ns, items[x].late_ns) ?: ORDER_OF(x, y);
}

static void order_by_late(struct rank_times *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		t->by_late[i] = i;
	if (t->count)
		qsort_r(t->by_late, t->count, sizeof(*t->by_late), compare_late, t->items);
}

/* Sums over the compared collectives are unknown where there are none. */
static void drop_unknown(struct rank_times *t)
{
	for (size_t i = 0; i < t->count; i++) {
		double *values = t->measured.items[i].values;

		if (!t->items[i].collectives)
			values[MEASURE_BUSY] = values[MEASURE_WAIT] = values[MEASURE_EXPOSED] = NAN;
		if (!t->waits_known)
			values[MEASURE_WAIT] = NAN;
	}
}

/* Measures the ranks of the open report. */
static int measure_ranks(struct comparing *x, struct report *r, size_t source)
{
	int rc = rank_pieces_init(&x->pieces, r, &x->out->texts);

	x->report = r;
	x->intervals.paces = r->options.paces;
	for (uint32_t i = 0; i < x->out->count && rc >= 0; i++)
		if (x->collectives->ranks[i].source == source)
			rc = measure_rank(x, i);
	rank_pieces_release(&x->pieces);
	return rc;
}

int rank_times_find(const struct job_source *source, const struct collectives *c,
		    struct rank_times *out)
{
	struct comparing x = { .collectives = c,
			       .out = out,
			       .intervals = { .host_totals = GROUPS_INIT } };
	struct report *report;
	int rc;

	*out = (struct rank_times){ 0 };
	interner_init(&out->texts);
	if (c->rank_count < 2)
		return 0;
	out->waits_known = !c->mixed && c->uncertainty_ns != UINT64_MAX;
	out->items = calloc(c->rank_count, sizeof(*out->items));
	out->by_late = calloc(c->rank_count, sizeof(*out->by_late));
	out->measured.items = calloc(c->rank_count, sizeof(*out->measured.items));
	rc = out->items && out->by_late && out->measured.items ? find_arrivals(&x) : -ENOMEM;
	if (rc >= 0)
		rc = order_parts(&x);
	out->count = out->measured.count = rc < 0 ? 0 : c->rank_count;
	for (size_t i = 0; i < source->count && rc >= 0; i++) {
		rc = source->open(source->user, i, &report);
		if (rc >= 0) {
			rc = measure_ranks(&x, report, i);
			source->close(source->user, report);
		}
	}
	x.intervals.step_ns = rank_measures_step_ns(&out->measured);
	if (rc >= 0 && !c->mixed)
		rc = rank_intervals_compare(&x.intervals, c, out);
	drop_unknown(out);
	if (rc >= 0 && !c->mixed)
		rc = rank_measures_compare(&out->measured, out->span_ns, c->uncertainty_ns,
					   out->compared);
	order_by_late(out);
	if (rc >= 0)
		rc = rank_verdict_find(c, out);
	rank_intervals_release(&x.intervals);
	free(x.chains);
	free(x.waited_for);
	vec_release(&x.order);
	vec_release(&x.parts);
	vec_release(&x.matches);
	vec_release(&x.last);
	vec_release(&x.arrived);
	return rc < 0 ? rc : 0;
}

static void release(void *result)
{
	struct rank_times *t = result;

	for (size_t i = 0; i < t->count; i++)
		vec_release(&t->items[i].waits);
	free(t->items);
	free(t->by_late);
	free(t->causes);
	free(t->measured.items);
	free(t->measured.outliers);
	vec_release(&t->paces);
	vec_release(&t->delays);
	vec_release(&t->rounds.items);
	interner_release(&t->texts);
}

static int run(struct report *r, void *result)
{
	struct job_source source = job_source_of(r);

	return rank_times_find(&source, r->collectives, result);
}

const struct analysis analysis_rank_times = {
	.size = sizeof(struct rank_times),
	.needs = { { TABLE_nvtx, 0 }, { TABLE_nvtx_domain, 0 } },
	.run = run,
	.release = release,
	.reads_others = true,
};
