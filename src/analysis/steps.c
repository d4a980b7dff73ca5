/*
 * steps.c: durations of steps and what was different in slow ones. The pieces of the critical path
 * tile the time, and so do the steps but for breaks: what a step spent on each owner adds up to its
 * duration, and differences of owners to the difference of the durations.
 */
#include "analysis/steps.h"

#include <stdlib.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "system/metrics.h"
#include "trace/columns.h"

#define SLOW_DEVIATIONS 3.0
#define NORMAL_MAD 1.4826 /* standard deviation of a normal distribution, in its MADs */
#define SLOW_SHARE 20u /* of the median: the least by which a slow step takes longer */
#define DIFFERENCE_SHARE 20u /* of the whole difference: the least that is listed */
#define REST_SHARE 5u /* the same, of what many owners of a class add up to */
#define SLOW_MAX 100u /* steps of a loop that are explained */

struct step_loops {
	struct report *report;
	struct steps *out;
	struct step_list list;
	VEC(struct step_loop) loops;
	VEC(struct slow_step) slow;
};

const struct step *steps_at(const struct steps *s, const struct step_loop *loop, uint64_t host_ns)
{
	const struct step *items = s->items + loop->first;
	size_t after = sorted_prefix(loop->count, i, items[i].host_start_ns <= host_ns);

	return after && host_ns < items[after - 1].host_end_ns ? &items[after - 1] : NULL;
}

/* --- times --- */

static void add_work(const struct report *r, struct steps *s, const struct step_loop *loop,
		     uint32_t first_task, uint32_t end_task)
{
	const struct task *tasks = r->causes.tasks.data;
	struct step *items = s->items;

	for (size_t i = loop->first; i < loop->first + loop->count; i++)
		items[i].end_ns = items[i].host_end_ns;
	for (uint32_t i = first_task; i < end_task; i++) {
		const struct step *at;

		if (!task_is_work(&tasks[i]))
			continue;
		at = steps_at(s, loop,
			      tasks[i].launch == TASK_NONE ? tasks[i].start_ns
							   : tasks[tasks[i].launch].start_ns);
		if (!at)
			continue;
		items[at - items].launches++;
		items[at - items].work_ns += tasks[i].end_ns - tasks[i].start_ns;
		items[at - items].end_ns = MAX(at->end_ns, tasks[i].end_ns);
	}
}

static void order_steps(struct steps *s, struct step_loop *loop)
{
	uint64_t until_ns = 0;

	for (size_t i = loop->first; i < loop->first + loop->count; i++) {
		struct step *step = &s->items[i];

		step->number = (uint32_t)(i - loop->first + 1);
		step->start_ns = MAX(step->host_start_ns, until_ns);
		step->end_ns = MAX(step->end_ns, step->start_ns);
		until_ns = step->end_ns;
	}
	loop->span_ns = loop->count ? until_ns - s->items[loop->first].start_ns : 0;
}

/* By nearest rank. */
static uint64_t quantile(const uint64_t *sorted, size_t count, unsigned percent)
{
	return sorted[(count * percent + 99) / 100 - 1];
}

static int measure_times(const struct steps *s, struct step_loop *loop)
{
	_cleanup_free_ uint64_t *ns = calloc(loop->count + 1, sizeof(*ns));
	struct duration_stats *t = &loop->time;
	uint64_t limit_ns;

	if (!ns)
		return -ENOMEM;
	if (!loop->count)
		return 0;
	for (size_t i = 0; i < loop->count; i++) {
		ns[i] = s->items[loop->first + i].end_ns - s->items[loop->first + i].start_ns;
		t->total_ns += ns[i];
	}
	qsort(ns, loop->count, sizeof(*ns), order_u64);
	t->count = loop->count;
	t->min_ns = ns[0];
	t->max_ns = ns[loop->count - 1];
	t->median_ns = quantile(ns, loop->count, 50);
	t->p99_ns = quantile(ns, loop->count, 99);
	loop->p90_ns = quantile(ns, loop->count, 90);
	for (size_t i = 0; i < loop->count; i++)
		ns[i] = MAX(ns[i], t->median_ns) - MIN(ns[i], t->median_ns);
	qsort(ns, loop->count, sizeof(*ns), order_u64);
	loop->mad_ns = quantile(ns, loop->count, 50);
	limit_ns = (uint64_t)(SLOW_DEVIATIONS * NORMAL_MAD * (double)loop->mad_ns);
	if (loop->count >= STEPS_STATS_MIN)
		loop->slow_ns = t->median_ns + MAX(limit_ns, t->median_ns / SLOW_SHARE);
	return 0;
}

static void find_slow(struct steps *s, struct step_loop *loop)
{
	uint64_t usual = 0;

	for (size_t i = loop->first; i < loop->first + loop->count; i++) {
		struct step *step = &s->items[i];

		step->is_slow = loop->slow_ns && step->end_ns - step->start_ns > loop->slow_ns;
		loop->slow_count += step->is_slow;
		if (step->is_slow)
			continue;
		usual++;
		loop->usual_ns += step->end_ns - step->start_ns;
		loop->usual_launches += step->launches;
		loop->usual_work_ns += step->work_ns;
	}
	loop->usual_ns /= MAX(usual, 1);
	loop->usual_launches /= MAX(usual, 1);
	loop->usual_work_ns /= MAX(usual, 1);
}

/* --- differences --- */

struct owner_sum {
	struct path_place place;
	uint64_t usual_ns; /* in all steps that are not slow */
	uint64_t slow_ns; /* in one slow step */
};

typedef GROUPS(struct owner_sum) owner_sums;

static int add_part(const struct report *r, struct path_piece piece, uint64_t start_ns,
		    uint64_t end_ns, bool is_slow, owner_sums *sums)
{
	struct path_share shares[PATH_SHARES];
	unsigned count;

	piece.start_ns = MAX(piece.start_ns, start_ns);
	piece.end_ns = MIN(piece.end_ns, end_ns);
	count = path_shares(r, &piece, shares);
	for (unsigned i = 0; i < count; i++) {
		struct owner_sum *o =
			groups_at(sums, path_place_id(shares[i].place), .place = shares[i].place);

		if (!o)
			return -ENOMEM;
		*(is_slow ? &o->slow_ns : &o->usual_ns) += shares[i].ns;
	}
	return 0;
}

/* Adds the pieces of a step. They are in order of time backwards. */
static int add_pieces(const struct report *r, const struct path *p, const struct step *step,
		      owner_sums *sums)
{
	const struct path_piece *pieces = p->pieces.data;
	size_t i = sorted_prefix(p->pieces.count, k, pieces[k].start_ns >= step->end_ns);
	int code = 0;

	for (; i < p->pieces.count && pieces[i].end_ns > step->start_ns && code >= 0; i++)
		code = add_part(r, pieces[i], step->start_ns, step->end_ns, step->is_slow, sums);
	return code;
}

ORDER(largest_first, struct step_difference,
      ORDER_OF(llabs(b->ns), llabs(a->ns)) ?: UP(place.class) ?: UP(place.key))

/* Lists the largest differences, and the class with most of the rest. 0 or -ENOMEM. */
static int find_differences(const struct owner_sum *sums, size_t count, uint64_t usual_steps,
			    uint64_t whole_ns, struct slow_step *slow)
{
	struct step_difference rest[PATH_CLASSES] = { 0 };
	VEC(struct step_difference) all = VEC_INIT;
	size_t listed = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t ns = (int64_t)(sums[i].slow_ns - sums[i].usual_ns / MAX(usual_steps, 1));

		if (vec_push(&all, ((struct step_difference){ sums[i].place, ns, false })) < 0) {
			vec_release(&all);
			return -ENOMEM;
		}
	}
	vec_sort(&all, largest_first);
	for (; listed < MIN(all.count, STEP_DIFFERENCES); listed++) {
		if (!all.data[listed].ns ||
		    (uint64_t)llabs(all.data[listed].ns) < whole_ns / DIFFERENCE_SHARE)
			break;
		slow->differences[listed] = all.data[listed];
	}
	for (size_t i = listed; i < all.count; i++) {
		struct step_difference *of = &rest[all.data[i].place.class];

		of->place.class = all.data[i].place.class;
		of->ns += all.data[i].ns;
		of->is_rest = true;
	}
	qsort(rest, PATH_CLASSES, sizeof(*rest), largest_first);
	slow->difference_count = listed;
	if (rest[0].ns && (uint64_t)llabs(rest[0].ns) >= whole_ns / REST_SHARE)
		slow->differences[slow->difference_count++] = rest[0];
	vec_release(&all);
	return 0;
}

static struct slow_step *slow_at(struct slow_step *slow, size_t count, size_t step)
{
	for (size_t i = 0; i < count; i++)
		if (slow[i].step == step)
			return &slow[i];
	return NULL;
}

static bool is_memory_call(const struct report *r, const struct task *task)
{
	enum api_kind kind =
		task->kind == TASK_CALL ? calls_kind(&r->calls, task->row) : api_kind_other;

	return kind == api_kind_allocate || kind == api_kind_release;
}

static void count_calls(const struct step_loops *x, const struct step_loop *loop,
			uint32_t first_task, uint32_t end_task, struct slow_step *slow,
			size_t slow_count)
{
	const struct task *tasks = x->report->causes.tasks.data;
	uint64_t usual = 0, usual_steps = MAX(loop->count - loop->slow_count, 1);

	for (uint32_t i = first_task; i < end_task; i++) {
		const struct step *at = is_memory_call(x->report, &tasks[i])
						? steps_at(x->out, loop, tasks[i].start_ns)
						: NULL;
		struct slow_step *of =
			at ? slow_at(slow, slow_count, (size_t)(at - x->out->items)) : NULL;

		usual += at && !at->is_slow;
		if (of)
			of->calls++;
	}
	for (size_t k = 0; k < slow_count; k++)
		slow[k].usual_calls = (usual + usual_steps / 2) / usual_steps;
}

static void count_losses(const struct step_loops *x, const struct step_loop *loop,
			 struct slow_step *slow)
{
	const struct loss_columns *l = loss_columns(x->report->trace);
	const struct step *step = &x->out->items[slow->step];

	for (struct row_walk w = process_rows(x->report->trace, TABLE_loss, loop->process);
	     row_walk_next(&w);)
		slow->losses +=
			l->start_ns[w.row] < step->end_ns && l->end_ns[w.row] >= step->start_ns;
}

struct mean {
	uint64_t sum, count;
};

/* Means of the readings of the GPUs' clocks, in slow steps and in all others together. */
static int find_clocks(const struct step_loops *x, const struct step_loop *loop,
		       struct slow_step *slow, size_t slow_count)
{
	const struct counter_sample_columns *c = counter_sample_columns(x->report->trace);
	const struct counter_columns *counters = counter_columns(x->report->trace);
	_cleanup_free_ struct mean *means = calloc(slow_count + 1, sizeof(*means));
	const struct step *items = x->out->items + loop->first;

	if (!means)
		return -ENOMEM;
	for (struct row_walk w = all_rows(x->report->trace, TABLE_counter_sample);
	     row_walk_next(&w);) {
		uint32_t counter = c->counter[w.row];
		size_t after =
			sorted_prefix(loop->count, i, items[i].start_ns <= c->time_ns[w.row]);
		const struct step *at = after ? &items[after - 1] : NULL;
		struct slow_step *of;

		if (counter == TRACE_NO_ROW || counters->id[counter] != METRIC_gpu_sm_clock ||
		    !at || c->time_ns[w.row] >= at->end_ns)
			continue;
		of = slow_at(slow, slow_count, (size_t)(at - x->out->items));
		if (!of && at->is_slow)
			continue;
		means[of ? of - slow : (ptrdiff_t)slow_count].sum += (uint64_t)c->value[w.row];
		means[of ? of - slow : (ptrdiff_t)slow_count].count++;
	}
	for (size_t k = 0; k < slow_count; k++) {
		slow[k].clock_mhz = means[k].sum / MAX(means[k].count, 1);
		slow[k].usual_clock_mhz = means[slow_count].sum / MAX(means[slow_count].count, 1);
	}
	return 0;
}

static int add_differences(const struct step_loops *x, const struct step_loop *loop,
			   struct slow_step *slow, size_t slow_count)
{
	const struct steps *s = x->out;
	_cleanup_free_ uint8_t *processes =
		calloc(trace_process_count(x->report->trace) + 1, sizeof(*processes));
	owner_sums sums = GROUPS_INIT;
	_cleanup_(path_release) struct path path = { 0 };
	int code = -ENOMEM;

	if (processes) {
		processes[loop->process] = 1;
		code = path_find(&path, &x->report->causes, processes,
				 s->items[loop->first].start_ns,
				 s->items[loop->first].start_ns + loop->span_ns);
	}
	for (size_t i = loop->first; i < loop->first + loop->count && code >= 0; i++)
		if (!s->items[i].is_slow)
			code = add_pieces(x->report, &path, &s->items[i], &sums);
	for (size_t k = 0; k < slow_count && code >= 0; k++) {
		const struct step *step = &s->items[slow[k].step];

		for (size_t i = 0; i < sums.items.count; i++)
			sums.items.data[i].slow_ns = 0;
		code = add_pieces(x->report, &path, step, &sums);
		if (code >= 0)
			code = find_differences(
				sums.items.data, sums.items.count, loop->count - loop->slow_count,
				step->end_ns - step->start_ns - loop->usual_ns, &slow[k]);
	}
	groups_release(&sums);
	return code;
}

/* --- loops --- */

static int compare_slow(const void *a_, const void *b_, void *user)
{
	const struct slow_step *a = a_, *b = b_;
	const struct step *items = user, *x = &items[a->step], *y = &items[b->step];

	return ORDER_OF(y->end_ns - y->start_ns, x->end_ns - x->start_ns) ?: UP(step);
}

/* Finds what was different in the slowest of the slow steps. 0 or -ENOMEM. */
static int explain_slow(struct step_loops *x, const struct step_loop *loop, uint32_t first_task,
			uint32_t end_task)
{
	size_t first = x->slow.count, count;
	int code = 0;

	for (size_t i = loop->first; i < loop->first + loop->count; i++)
		if (x->out->items[i].is_slow &&
		    vec_push(&x->slow, ((struct slow_step){ .step = i })) < 0)
			return -ENOMEM;
	if (x->slow.count == first)
		return 0;
	qsort_r(x->slow.data + first, x->slow.count - first, sizeof(*x->slow.data), compare_slow,
		x->out->items);
	x->slow.count = MIN(x->slow.count, first + SLOW_MAX);
	count = x->slow.count - first;
	count_calls(x, loop, first_task, end_task, x->slow.data + first, count);
	for (size_t k = 0; k < count; k++)
		count_losses(x, loop, &x->slow.data[first + k]);
	code = find_clocks(x, loop, x->slow.data + first, count);
	return code < 0 ? code : add_differences(x, loop, x->slow.data + first, count);
}

static uint32_t process_of(const struct causes *c, uint32_t task)
{
	return c->lanes.data[c->tasks.data[task].lane].process;
}

/* Adds the loop of a process that has GPU work. */
static int add_loop(struct step_loops *x, uint32_t first_task, uint32_t end_task)
{
	const struct causes *c = &x->report->causes;
	struct step_loop loop = { .process = process_of(c, first_task),
				  .first = x->list.items.count };
	bool has_work = false;
	int code;

	for (uint32_t i = first_task; i < end_task; i++)
		if (task_is_work(&c->tasks.data[i])) {
			has_work = true;
			loop.work_ns += c->tasks.data[i].end_ns - c->tasks.data[i].start_ns;
		}
	if (!has_work || !x->report->selection.processes[loop.process])
		return 0;
	code = step_find(x->report, loop.process, first_task, end_task, &loop, &x->list);
	loop.count = x->list.items.count - loop.first;
	if (!loop.count && loop.source) { /* none of them in the window */
		loop.source = STEPS_NONE;
		loop.reason = STEP_REASON_window;
	}
	x->out->items = x->list.items.data;
	for (size_t i = 0; i < loop.count; i++)
		x->out->items[loop.first + i].loop = (uint32_t)x->loops.count;
	add_work(x->report, x->out, &loop, first_task, end_task);
	order_steps(x->out, &loop);
	if (code >= 0)
		code = measure_times(x->out, &loop);
	find_slow(x->out, &loop);
	if (code >= 0)
		code = explain_slow(x, &loop, first_task, end_task);
	return code < 0 ? code : vec_push(&x->loops, loop);
}

static int run(struct report *r, void *result)
{
	struct step_loops x = { .report = r, .out = result };
	uint32_t count = (uint32_t)causes_task_count(&r->causes);
	int code = 0;

	for (uint32_t first = 0, i = 0; r->options.steps && i < count && code >= 0; i++)
		if (i + 1 == count || process_of(&r->causes, i + 1) != process_of(&r->causes, i)) {
			code = add_loop(&x, first, i + 1);
			first = i + 1;
		}
	x.out->items = x.list.items.data;
	x.out->count = x.list.items.count;
	x.out->loops = x.loops.data;
	x.out->loop_count = x.loops.count;
	x.out->slow = x.slow.data;
	x.out->slow_count = x.slow.count;
	return code;
}

const struct analysis analysis_steps = {
	.size = sizeof(struct steps),
	.needs = { { TABLE_counter_sample, COLUMN_BITS(counter_sample, time_ns, counter, value) },
		   { TABLE_counter, COLUMN_BITS(counter, id) },
		   { TABLE_loss, COLUMN_BITS(loss, start_ns, end_ns) } },
	.run = run,
	.owned = { OWNS(struct steps, items), OWNS(struct steps, loops), OWNS(struct steps, slow) },
};
