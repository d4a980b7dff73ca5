#include "analysis/stream_states.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/report.h"
#include "base/search.h"

struct piece {
	uint64_t start_ns;
	uint32_t task, gpu, lane;
};

struct pieces {
	const struct report *report;
	struct stream_states *out;
	VEC(struct piece) items;
	VEC(struct stream_row) rows;
};

ORDER(by_start, struct piece, UP(start_ns) ?: UP(task))

/* When the last of what the work needs from other streams ended. */
static uint64_t ready_ns(const struct causes *c, const struct task *task, uint32_t *lane)
{
	uint64_t ns = 0;

	for (size_t i = task->edges; i < task[1].edges; i++) {
		const struct task *from = &c->tasks.data[c->edges.data[i].from];

		if (from->lane != task->lane && from->end_ns > ns &&
		    from->end_ns <= task->start_ns + CAUSES_CLOCK_NS) {
			ns = from->end_ns;
			*lane = from->lane;
		}
	}
	return ns;
}

static uint64_t clamp(uint64_t ns, uint64_t from_ns, uint64_t to_ns)
{
	return MAX(from_ns, MIN(ns, to_ns));
}

/* The time from from_ns to to_ns, in which nothing ran before `task` began. */
static void add_gap(const struct causes *c, struct stream_row *row, const struct task *task,
		    uint64_t from_ns, uint64_t to_ns)
{
	uint64_t launched_ns, waited_ns;
	uint32_t lane = 0;

	if (task->launch == TASK_NONE) {
		row->ns[STREAM_STATE_unknown] += to_ns - from_ns;
		return;
	}
	launched_ns = clamp(c->tasks.data[task->launch].start_ns, from_ns, to_ns);
	waited_ns = clamp(ready_ns(c, task, &lane), launched_ns, to_ns);
	row->ns[STREAM_STATE_starved] += launched_ns - from_ns;
	row->ns[STREAM_STATE_waiting] += waited_ns - launched_ns;
	row->ns[STREAM_STATE_queued] += to_ns - waited_ns;
	if (waited_ns - launched_ns > row->longest_wait_ns) {
		row->longest_wait_ns = waited_ns - launched_ns;
		row->longest_wait_for = c->lanes.data[lane].id;
	}
}

/* A row of pieces in order of their starts. */
static int add_row(struct pieces *p, const struct piece *pieces, size_t count, bool is_gpu)
{
	const struct causes *c = &p->report->causes;
	uint64_t start_ns = p->out->start_ns, end_ns = start_ns + p->out->window_ns,
		 now_ns = start_ns, first_ns = MAX(pieces[0].start_ns, start_ns);
	const struct task_lane *lane = &c->lanes.data[pieces[0].lane];
	struct stream_row row = { .count = count,
				  .process = lane->process,
				  .gpu = pieces[0].gpu,
				  .stream = lane->id,
				  .is_gpu = is_gpu };

	for (size_t i = 0; i < count; i++) {
		const struct task *task = &c->tasks.data[pieces[i].task];
		uint64_t from_ns = clamp(task->start_ns, now_ns, end_ns),
			 to_ns = clamp(task->end_ns, from_ns, end_ns);

		add_gap(c, &row, task, now_ns, from_ns);
		row.ns[STREAM_STATE_running] += to_ns - from_ns;
		now_ns = to_ns;
	}
	row.ns[STREAM_STATE_idle] = end_ns - now_ns;
	row.span_ns = now_ns - first_ns;
	return vec_push(&p->rows, row);
}

static uint32_t group_of(const struct piece *piece, bool is_gpu)
{
	return is_gpu ? piece->gpu : piece->lane;
}

/* Pieces of a lane are in order of their start, mostly. */
static void sort_pieces(struct piece *items, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (by_start(&items[i - 1], &items[i]) > 0) {
			qsort(items, count, sizeof(*items), by_start);
			return;
		}
}

/* Distributes the pieces over the GPUs, or over the lanes, and adds their rows. */
static int add_rows(struct pieces *p, bool is_gpu)
{
	size_t groups = is_gpu ? p->report->gpus.count : p->report->causes.lanes.count;
	_cleanup_free_ struct piece *items = calloc(p->items.count + 1, sizeof(*items));
	_cleanup_free_ size_t *ends = calloc(groups + 1, sizeof(*ends));
	int code = items && ends ? 0 : -ENOMEM;

	for (size_t i = 0; i < p->items.count && code >= 0; i++)
		ends[group_of(&p->items.data[i], is_gpu) + 1]++;
	for (size_t i = 0; i < groups && code >= 0; i++)
		ends[i + 1] += ends[i];
	for (size_t i = 0; i < p->items.count && code >= 0; i++) /* moves each begin to its end */
		items[ends[group_of(&p->items.data[i], is_gpu)]++] = p->items.data[i];
	for (size_t i = 0; i < groups && code >= 0; i++) {
		size_t from = i ? ends[i - 1] : 0, count = ends[i] - from;

		sort_pieces(items + from, count);
		code = count ? add_row(p, items + from, count, is_gpu) : 0;
	}
	return code;
}

static int find_pieces(struct pieces *p)
{
	const struct report *r = p->report;
	const struct causes *c = &r->causes;

	for (uint32_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];
		const struct task_lane *lane = &c->lanes.data[task->lane];

		if (!task_is_work(task) || !r->selection.processes[lane->process] ||
		    !selection_has_place(&r->selection, lane->device, lane->id) ||
		    task->start_ns >= r->end_ns || task->end_ns <= r->start_ns)
			continue;
		if (vec_push(&p->items,
			     ((struct piece){
				     task->start_ns, i,
				     (uint32_t)gpus_find(&r->gpus, lane->process, lane->device),
				     task->lane })) < 0)
			return -ENOMEM;
	}
	return 0;
}

ORDER(by_place, struct stream_row,
      UP(gpu) ?: DOWN(is_gpu) ?: DOWN(ns[STREAM_STATE_running]) ?: UP(process) ?: UP(stream))

static int run(struct report *r, void *result)
{
	struct stream_states *out = result;
	struct pieces p = { .report = r, .out = out };
	int code;

	if (!r->options.states)
		return 0;
	out->start_ns = r->start_ns;
	out->window_ns = r->end_ns - r->start_ns;
	code = find_pieces(&p);
	if (code >= 0)
		code = add_rows(&p, true);
	if (code >= 0)
		code = add_rows(&p, false);
	vec_sort(&p.rows, by_place);
	out->rows = p.rows.data;
	out->count = p.rows.count;
	vec_release(&p.items);
	return code;
}

const struct analysis analysis_stream_states = {
	.size = sizeof(struct stream_states),
	.run = run,
	.owned = { OWNS(struct stream_states, rows) },
};
