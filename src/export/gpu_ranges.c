/*
 * gpu_ranges.c: adds work to the innermost range of its call. Then, from the last range to the
 * first (children follow their parents), adds each range's spans to its parent's.
 */
#include "export/export_merge.h"

#include <errno.h>

#include "base/search.h"
#include "trace/columns.h"

#define NO_SPAN UINT32_MAX

struct builder {
	struct gpu_ranges *g;
	const struct nvtx_ranges *ranges;
	struct map queues; /* process << 32 | context -> number; number << 32 | stream -> queue */
	struct map contexts;
	struct map spans; /* queue << 32 | range -> index into g->items */
	uint32_t *first; /* per range: its first span */
	VEC(uint32_t) next; /* per span: the next span of its range */
};

/* Begins the span of a range on the queue of `work`, or extends it. */
static int add(struct builder *b, uint64_t queue, const struct gpu_range *work)
{
	uint64_t *at = map_at(&b->spans, queue << 32 | work->range, NO_SPAN);
	struct gpu_range *span;

	if (!at)
		return -ENOMEM;
	if (*at == NO_SPAN) {
		*at = b->g->items.count;
		if (vec_push(&b->g->items, *work) < 0 ||
		    vec_push(&b->next, b->first[work->range]) < 0)
			return -ENOMEM;
		b->first[work->range] = (uint32_t)*at;
		return 0;
	}
	span = &b->g->items.data[*at];
	span->start_ns = MIN(span->start_ns, work->start_ns);
	span->end_ns = MAX(span->end_ns, work->end_ns);
	return 0;
}

static int queue_of(struct builder *b, const struct gpu_range *work, uint64_t *queue)
{
	uint64_t context = map_number(&b->contexts, (uint64_t)work->process << 32 | work->context);

	*queue = context ? map_number(&b->queues, context << 32 | work->stream) : 0;
	return *queue ? 0 : -ENOMEM;
}

static int add_work(struct builder *b, const struct export_view *v, const struct event_columns *w,
		    uint32_t process)
{
	struct row_walk rows = process_rows(v->trace, w->table, process);
	uint64_t queue;

	while (w->rows && row_walk_next(&rows)) {
		uint64_t row = rows.row;
		uint32_t call, range;
		struct gpu_range work;

		if (!work_is_selected(v, w, row) || (call = work_call(v, w, row)) == TRACE_NO_ROW)
			continue;
		range = b->ranges->of_call[call];
		if (range == NVTX_NO_RANGE)
			continue;
		range = nvtx_scope(b->ranges->items, range);
		work = (struct gpu_range){ w->start_ns[row],
					   w->end_ns[row],
					   range,
					   b->ranges->items[range].row,
					   process,
					   w->context[row],
					   w->stream[row],
					   w->device[row] };
		if (queue_of(b, &work, &queue) < 0 || add(b, queue, &work) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_to_parents(struct builder *b)
{
	for (size_t r = b->ranges->count; r-- > 0;) {
		uint32_t parent = b->ranges->items[r].outer;

		if (parent == NVTX_NO_RANGE)
			continue;
		parent = nvtx_scope(b->ranges->items, parent);
		for (uint32_t span = b->first[r]; span != NO_SPAN; span = b->next.data[span]) {
			struct gpu_range work = b->g->items.data[span];
			uint64_t queue;

			work.range = parent;
			work.nvtx_row = b->ranges->items[parent].row;
			if (queue_of(b, &work, &queue) < 0 || add(b, queue, &work) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

ORDER(by_time, struct gpu_range, UP(start_ns) ?: DOWN(end_ns) ?: UP(range))

int gpu_ranges_init(struct gpu_ranges *g, const struct export_view *v)
{
	const struct nvtx_ranges *ranges = &v->ranges;
	struct builder b = { .g = g, .ranges = ranges };
	int r = 0;

	*g = (struct gpu_ranges){ 0 };
	if (!ranges->count || !ranges->of_call)
		return 0;
	b.first = malloc((ranges->count + 1) * sizeof(*b.first));
	if (!b.first)
		return -ENOMEM;
	for (size_t i = 0; i < ranges->count; i++)
		b.first[i] = NO_SPAN;
	for (uint32_t p = 0; p < v->process_count; p++)
		for (int k = 0; k < WORK_SYNC && r >= 0; k++)
			r = add_work(&b, v, &v->work[k], p);
	if (r >= 0)
		r = add_to_parents(&b);
	if (r >= 0 && g->items.count)
		vec_sort(&g->items, by_time);
	map_release(&b.queues);
	map_release(&b.contexts);
	map_release(&b.spans);
	vec_release(&b.next);
	free(b.first);
	if (r < 0)
		gpu_ranges_release(g);
	return r;
}

void gpu_ranges_release(struct gpu_ranges *g)
{
	vec_release(&g->items);
}
