/*
 * time_lanes.c: one sweep over work and calls finds which lanes there are and how busy they were, a
 * second one fills the columns of those that are shown.
 */
#include "analysis/time_lanes.h"

#include <stdlib.h>

#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/launches.h"

struct sweep {
	const struct report *report;
	struct time_lanes *out;
	GROUPS(struct time_lane) lanes; /* of the first sweep */
	struct map shown; /* key -> item of out->items, for the second one */
	struct map launching; /* processes and threads */
	bool fills;
};

static uint64_t key_of(const struct time_lane *lane)
{
	return hash_u64(hash_u64((uint64_t)lane->process << 32 | lane->id) +
			((uint64_t)lane->kind << 32 | lane->gpu));
}

/* Sets *at to the lane; NULL: it is not shown. 0 or -ENOMEM. */
static int lane_at(struct sweep *s, struct time_lane lane, struct time_lane **at)
{
	uint64_t i;

	*at = NULL;
	if (s->fills) {
		if (map_get(&s->shown, key_of(&lane), &i))
			*at = &s->out->items[i];
		return 0;
	}
	*at = groups_at(&s->lanes, key_of(&lane), .process = lane.process, .id = lane.id,
			.gpu = lane.gpu, .kind = lane.kind);
	return *at ? 0 : -ENOMEM;
}

/* Adds what of an interval is in the window and behind *until_ns. Returns its length. */
static uint64_t add_interval(const struct time_lanes *l, uint64_t *columns, uint64_t *until_ns,
			     uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = MAX(MAX(start_ns, l->start_ns), *until_ns), to = MIN(end_ns, l->end_ns);

	if (from >= to)
		return 0;
	*until_ns = to;
	for (uint64_t ns = from, part; columns && ns < to; ns += part) {
		uint64_t since = ns - l->start_ns;

		part = MIN(l->column_ns - since % l->column_ns, to - ns);
		columns[since / l->column_ns] += part;
	}
	return to - from;
}

static int add_work(struct sweep *s)
{
	struct gpu_operation op;
	struct gpu_walk w;
	int code = gpu_walk_init(&w, &s->report->gpus, &s->report->selection);

	while (code >= 0 && gpu_walk_next(&w, &op)) {
		struct time_lane wanted[] = {
			{ .kind = LANE_GPU, .id = op.gpu, .gpu = op.gpu },
			{ .kind = LANE_STREAM,
			  .process = op.process,
			  .id = op.stream,
			  .gpu = op.gpu },
		};

		for (size_t i = 0; i < ARRAY_SIZE(wanted) && code >= 0; i++) {
			struct time_lane *lane;

			code = lane_at(s, wanted[i], &lane);
			if (lane)
				lane->total_ns += add_interval(s->out, lane->ns, &lane->until_ns,
							       op.start_ns, op.end_ns);
		}
	}
	gpu_walk_release(&w);
	return code;
}

static uint64_t thread_key(uint32_t process, uint32_t thread)
{
	return (uint64_t)process << 32 | thread;
}

static int find_launching(struct sweep *s)
{
	const struct launches *l = s->report->launches;
	int code = 0;

	for (size_t i = 0; i < l->thread_count && code >= 0; i++)
		code = map_add(&s->launching,
			       thread_key(l->threads[i].process, l->threads[i].thread));
	return code;
}

/* Calls that enclose others begin earlier, so inner ones add nothing. */
static int add_calls(struct sweep *s)
{
	const struct calls *c = &s->report->calls;
	const struct time_lanes *l = s->out;

	for (struct row_walk w = selection_rows(&s->report->selection, TABLE_api_call);
	     row_walk_next(&w);) {
		struct time_lane *lane;
		uint64_t found;

		if (c->start_ns[w.row] >= l->end_ns || c->end_ns[w.row] <= l->start_ns ||
		    calls_timed(c, (uint32_t)w.row) == TRACE_NO_ROW ||
		    !map_get(&s->launching, thread_key(w.process, c->threads[w.row]), &found))
			continue;
		if (lane_at(s,
			    (struct time_lane){ .kind = LANE_THREAD,
						.process = w.process,
						.id = c->threads[w.row] },
			    &lane) < 0)
			return -ENOMEM;
		if (!lane)
			continue;
		lane->total_ns += add_interval(l, lane->ns, &lane->until_ns, c->start_ns[w.row],
					       c->end_ns[w.row]);
		if (calls_kind(c, w.row) == api_kind_synchronize)
			add_interval(l, lane->wait_ns, &lane->wait_until_ns, c->start_ns[w.row],
				     c->end_ns[w.row]);
	}
	return 0;
}

/* GPUs by number, each before its streams; then threads. */
ORDER(in_order, struct time_lane,
      ORDER_OF(a->kind == LANE_THREAD, b->kind == LANE_THREAD) ?: UP(gpu) ?: UP(kind)
	      ?: DOWN(total_ns) ?: UP(process) ?: UP(id))

/* Drops the lanes that are too many. */
static void limit(struct time_lanes *l, uint64_t streams, uint64_t threads)
{
	uint64_t of_gpu = 0;
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		bool is_shown = true;

		if (l->items[i].kind == LANE_GPU)
			of_gpu = 0;
		else if (l->items[i].kind == LANE_STREAM)
			is_shown = of_gpu++ < streams, l->streams++;
		else
			is_shown = l->threads++ < threads;
		if (is_shown)
			l->items[kept++] = l->items[i];
	}
	l->count = kept;
}

/* Makes the columns, empty, of the lanes that are shown. */
static int make_columns(struct sweep *s)
{
	for (size_t i = 0; i < s->out->count; i++) {
		struct time_lane *lane = &s->out->items[i];

		lane->total_ns = lane->until_ns = lane->wait_until_ns = 0;
		lane->ns = calloc(s->out->columns, sizeof(*lane->ns));
		if (lane->kind == LANE_THREAD)
			lane->wait_ns = calloc(s->out->columns, sizeof(*lane->wait_ns));
		if (!lane->ns || (lane->kind == LANE_THREAD && !lane->wait_ns) ||
		    map_put(&s->shown, key_of(lane), i) < 0)
			return -ENOMEM;
	}
	s->fills = true;
	return 0;
}

static int sweep(struct sweep *s)
{
	int code = add_work(s);

	return code < 0 ? code : add_calls(s);
}

int time_lanes_find(struct time_lanes *out, const struct report *r, unsigned columns,
		    uint64_t streams, uint64_t threads)
{
	uint64_t window = r->end_ns - r->start_ns;
	struct sweep s = { .report = r, .out = out };
	int code;

	*out = (struct time_lanes){ .start_ns = r->start_ns,
				    .end_ns = r->end_ns,
				    .columns = columns,
				    .column_ns =
					    MAX(window / columns + (window % columns != 0), 1) };
	code = find_launching(&s);
	if (code >= 0)
		code = sweep(&s);
	groups_take(&s.lanes, in_order, &out->items, &out->count);
	limit(out, streams, threads);
	if (code >= 0)
		code = make_columns(&s);
	if (code >= 0)
		code = sweep(&s);
	map_release(&s.shown);
	map_release(&s.launching);
	return code;
}

void time_lanes_release(struct time_lanes *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].ns);
		free(l->items[i].wait_ns);
	}
	free(l->items);
}
