/*
 * idle_lines.c: gaps and the samples of each thread are in order of time, so one cursor per thread
 * passes over its samples once.
 */
#include "analysis/idle_lines.h"

#include <errno.h>

#include "analysis/cpu_moments.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/steady.h"

/* Samples and times off the CPU of a thread that calls CUDA. */
struct watched {
	VEC(struct cpu_moment) samples, pauses;
	size_t next_sample, next_pause;
};

struct tallying {
	const struct selection *selection;
	const struct calls *calls;
	struct callers *callers;
	const struct measuring *measuring;
	const struct gpu_idle *idle;
	struct steady steady;
	size_t gpu;
	GROUPS(struct watched) watched; /* key: process << 32 | thread */
	struct idle_line_list sampled, launched; /* launched: excluding pauses */
	struct idle_lines *out;
};

/* Lists the threads that call CUDA. */
static int find_threads(struct tallying *x)
{
	const struct watched *w = NULL;
	uint64_t key, last = 0;

	for (struct row_walk walk = all_rows(x->selection->trace, TABLE_api_call);
	     row_walk_next(&walk);) {
		key = (uint64_t)walk.process << 32 | x->calls->threads[walk.row];
		if (w && key == last)
			continue;
		last = key;
		w = groups_at(&x->watched, key, 0);
		if (!w)
			return -ENOMEM;
	}
	return 0;
}

static struct watched *find_watched(struct tallying *x, size_t process, uint32_t thread)
{
	uint64_t item;

	return map_get(&x->watched.index, (uint64_t)process << 32 | thread, &item)
		       ? &x->watched.items.data[item]
		       : NULL;
}

/* Collects the samples, or the times off the CPU, of these threads. */
static int collect(struct tallying *x, enum table_id table)
{
	const struct trace *t = x->selection->trace;

	for (struct row_walk w = all_rows(t, table); row_walk_next(&w);) {
		struct cpu_moment m = cpu_moment_of(t, table, w.process, w.row);
		struct watched *thread =
			find_watched(x, trace_process(t, w.process)->subject, m.thread);

		if (thread &&
		    (m.end_ns ? vec_push(&thread->pauses, m) : vec_push(&thread->samples, m)) < 0)
			return -ENOMEM;
	}
	return 0;
}

ORDER(compare_moments, struct cpu_moment, UP(start_ns))

/*
 * Sorts, because several sessions may describe one process. Times off the CPU of a thread overlap
 * only in damaged recordings; overlaps are removed.
 */
static void sort_moments(struct watched *w)
{
	uint64_t until = 0;

	vec_sort(&w->samples, compare_moments);
	vec_sort(&w->pauses, compare_moments);
	for (size_t i = 0; i < w->pauses.count; i++) {
		struct cpu_moment *m = &w->pauses.data[i];

		m->start_ns = MAX(m->start_ns, until);
		m->end_ns = MAX(m->end_ns, m->start_ns);
		until = m->end_ns;
	}
}

/* Adds time in a gap to the line of a moment. */
static int add_moment(struct tallying *x, const struct cpu_moment *m, uint64_t ns)
{
	struct caller_place place;
	struct idle_line *line;

	if (callers_place(x->callers, m->process, m->stack, &place) < 0)
		return -ENOMEM;
	line = idle_line_at(&x->sampled, place.caller, place.callee);
	if (!line)
		return -ENOMEM;
	line->ns += ns;
	if (m->end_ns) {
		line->off_cpu_ns += ns;
		x->out->off_cpu_ns += ns;
	} else {
		line->count++;
		x->out->samples++;
		x->out->sampled_ns += ns;
	}
	return 0;
}

static int add_thread(struct tallying *x, struct watched *w, const struct idle_visit *gap)
{
	const struct cpu_moment *m;
	uint64_t start, end;

	for (; w->next_sample < w->samples.count; w->next_sample++) {
		m = &w->samples.data[w->next_sample];
		if (m->start_ns >= gap->end_ns)
			break;
		if (m->start_ns >= gap->start_ns &&
		    !measuring_within(x->measuring, gap->process, m->start_ns, m->start_ns + 1) &&
		    add_moment(x, m, m->weight_ns) < 0)
			return -ENOMEM;
	}
	while (w->next_pause < w->pauses.count &&
	       w->pauses.data[w->next_pause].end_ns <= gap->start_ns)
		w->next_pause++;
	for (size_t i = w->next_pause; i < w->pauses.count; i++) {
		m = &w->pauses.data[i];
		if (m->start_ns >= gap->end_ns)
			break;
		start = MAX(m->start_ns, gap->start_ns);
		end = MIN(m->end_ns, gap->end_ns);
		if (end > start && add_moment(x, m,
					      end - start -
						      measuring_within(x->measuring, gap->process,
								       start, end)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool is_pause(const struct tallying *x, const struct idle_visit *gap)
{
	for (size_t i = 0; i < x->steady.pauses; i++)
		if (x->steady.pause[i].start_ns == gap->start_ns)
			return true;
	return false;
}

static int add_gap(void *user, const struct idle_visit *gap)
{
	struct tallying *x = user;
	struct watched *w;

	if (gap->call == TRACE_NO_ROW || is_pause(x, gap))
		return 0;
	w = find_watched(x, gap->process, x->calls->threads[gap->call]);
	return w ? add_thread(x, w, gap) : 0;
}

/* Copies the gaps by launching line from the analysis `idle`, excluding pauses. */
static int copy_launched(struct tallying *x)
{
	for (size_t i = 0; i < x->idle->launched.lines.items.count; i++) {
		const struct idle_line *all = &x->idle->launched.lines.items.data[i];
		struct idle_line *line = idle_line_at(&x->launched, all->caller, all->callee);

		if (!line)
			return -ENOMEM;
		*line = *all;
		for (size_t p = 0; p < x->steady.pauses; p++)
			if (x->idle->between.longest[p].caller == all->caller) {
				line->count--;
				line->ns -= x->idle->between.longest[p].own_ns;
			}
		x->out->gaps += line->count;
		x->out->gaps_ns += line->ns;
	}
	return 0;
}

ORDER(compare_lines, struct idle_line, DOWN(ns) ?: UP(caller) ?: UP(callee))

/* Share of the user's own lines, in percent. */
static unsigned own_percent(const struct callers *c, const struct idle_line_list *list)
{
	double own = 0, all = 0;

	for (size_t i = 0; i < list->lines.items.count; i++) {
		const struct idle_line *line = &list->lines.items.data[i];

		all += (double)line->ns;
		if (line->caller != CALLER_NONE && !caller_at(c, line->caller)->library)
			own += (double)line->ns;
	}
	return all > 0 ? (unsigned)(100 * own / all) : 0;
}

/*
 * Chooses the better list: the samples, unless they lack Python frames (less than a quarter is in
 * the user's own code) while the launches have them.
 */
static void choose(struct tallying *x)
{
	struct idle_lines *out = x->out;
	bool sampled = (out->samples >= IDLE_SAMPLES_MIN || (out->off_cpu_ns && out->samples)) &&
		       (own_percent(x->callers, &x->sampled) >= 25 ||
			own_percent(x->callers, &x->launched) < 50);

	out->source = sampled           ? IDLE_SOURCE_SAMPLES
		      : x->callers->any ? IDLE_SOURCE_LAUNCHES
					: IDLE_SOURCE_NONE;
	out->whole_ns =
		sampled ? MAX(out->gaps_ns, out->sampled_ns + out->off_cpu_ns) : out->gaps_ns;
	groups_take(&(sampled ? &x->sampled : &x->launched)->lines, compare_lines, &out->items,
		    &out->count);
	groups_release(&(sampled ? &x->launched : &x->sampled)->lines);
	while (out->count && !out->items[out->count - 1].count && !out->items[out->count - 1].ns)
		out->count--; /* nothing but pauses */
	if (out->source == IDLE_SOURCE_NONE)
		out->count = 0;
}

static int tally(struct tallying *x, const struct gpus *gpus)
{
	const struct trace *t = x->selection->trace;
	bool samples = trace_rows(t, TABLE_cpu_sample) || trace_rows(t, TABLE_off_cpu);
	int rc;

	if (!samples && !x->callers->any)
		return 0;
	rc = copy_launched(x);
	if (rc < 0 || !samples)
		return rc;
	rc = find_threads(x);
	if (rc >= 0)
		rc = collect(x, TABLE_cpu_sample);
	if (rc >= 0)
		rc = collect(x, TABLE_off_cpu);
	for (size_t i = 0; i < x->watched.items.count && rc >= 0; i++)
		sort_moments(&x->watched.items.data[i]);
	if (rc >= 0)
		rc = idle_gaps(gpus, x->selection, x->calls, x->gpu, add_gap, x);
	return rc;
}

static int run(struct report *r, void *result)
{
	struct idle_lines *out = result;
	const struct verdict *v = &r->verdicts->whole;
	struct tallying x = { .selection = &r->selection,
			      .calls = &r->calls,
			      .callers = &r->callers,
			      .measuring = &r->measuring,
			      .gpu = v->gpu,
			      .out = out };
	int code = 0;

	if (v->kind <= VERDICT_UNDECIDED || verdict_is(v, BOUND_GPU))
		return 0;
	x.idle = &r->idle->gpus[v->gpu];
	steady_find_gpu(&r->busy->gpus[v->gpu], x.idle, &x.steady);
	code = tally(&x, &r->gpus);
	for (size_t i = 0; i < x.watched.items.count; i++) {
		vec_release(&x.watched.items.data[i].samples);
		vec_release(&x.watched.items.data[i].pauses);
	}
	groups_release(&x.watched);
	if (code >= 0) {
		choose(&x);
		return 0;
	}
	groups_release(&x.sampled.lines);
	groups_release(&x.launched.lines);
	return code;
}

const struct analysis analysis_idle_lines = {
	.size = sizeof(struct idle_lines),
	.run = run,
	.owned = { OWNS(struct idle_lines, items) },
	.reads_others = true,
};
