/*
 * busy.c: one sweep over all work in order of its start. Each GPU has a heap of running work, by
 * end. When work starts, work that has ended is removed, and each interval between two such events
 * is attributed to the work that was running in it.
 */
#include "analysis/busy.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/heap.h"
#include "base/vec.h"

struct running {
	uint64_t end_ns;
	uint32_t stream; /* index in `pieces` of the sweep */
	bool copies;
};

struct gpu_sweep {
	VEC(struct running) heap; /* by end */
	uint64_t now_ns;
	uint64_t streams, copies; /* number of active streams; of running copies and sets */
	struct map index; /* process << 32 | stream id -> index in `pieces` */
	VEC(uint32_t) pieces; /* number of pieces of work running on each stream */
	uint64_t last_key; /* stream of the latest piece, and its index */
	uint32_t last_stream;
	bool begun; /* some work has started, so last_* are set */
};

struct sweep {
	struct busy *out;
	struct gpu_sweep *gpus;
};

/* Attributes the time from now_ns to until_ns to the running work. */
static void add_interval(struct gpu_busy *b, struct gpu_sweep *g, uint64_t until_ns)
{
	uint64_t ns = until_ns - g->now_ns, pieces = g->heap.count;

	g->now_ns = until_ns;
	if (!pieces || !ns)
		return;
	b->union_ns += ns;
	b->compute_ns += g->copies < pieces ? ns : 0;
	b->copy_ns += g->copies ? ns : 0;
	b->overlap_ns += g->copies && g->copies < pieces ? ns : 0;
	b->streams_ns[MIN(g->streams, BUSY_LEVELS - 1)] += ns;
	b->pieces_ns[MIN(pieces, BUSY_LEVELS - 1)] += ns;
	b->max_streams = MAX(b->max_streams, g->streams);
	b->max_pieces = MAX(b->max_pieces, pieces);
}

/* Advances to until_ns, and removes the work that has ended by then. */
static void advance(struct sweep *s, size_t gpu, uint64_t until_ns)
{
	struct gpu_sweep *g = &s->gpus[gpu];
	struct gpu_busy *b = &s->out->gpus[gpu];

	while (g->heap.count && g->heap.data[0].end_ns <= until_ns) {
		struct running r;

		add_interval(b, g, g->heap.data[0].end_ns);
		r = g->heap.data[0];
		g->heap.data[0] = g->heap.data[--g->heap.count];
		heap_down(g->heap.data, g->heap.count, 0, x, y, x->end_ns < y->end_ns);
		g->copies -= r.copies;
		g->streams -= --g->pieces.data[r.stream] == 0;
	}
	add_interval(b, g, until_ns);
}

static int find_stream(struct gpu_sweep *g, const struct gpu_operation *op, uint32_t *stream)
{
	uint64_t key = (uint64_t)op->process << 32 | op->stream, *index;

	if (!g->begun || g->last_key != key) {
		index = map_at(&g->index, key, g->pieces.count);
		if (!index || (*index == g->pieces.count && vec_push(&g->pieces, 0) < 0))
			return -ENOMEM;
		g->last_key = key;
		g->last_stream = (uint32_t)*index;
	}
	*stream = g->last_stream;
	return 0;
}

static int start(struct sweep *s, const struct gpu_operation *op)
{
	struct gpu_sweep *g = &s->gpus[op->gpu];
	struct gpu_busy *b = &s->out->gpus[op->gpu];
	struct running r = { .end_ns = op->end_ns,
			     .copies = op->work == GPU_WORK_memcpy || op->work == GPU_WORK_memset };

	if (find_stream(g, op, &r.stream) < 0 || vec_reserve(&g->heap, 1) < 0)
		return -ENOMEM;
	if (!g->begun)
		b->first_ns = g->now_ns = op->start_ns;
	g->begun = true;
	b->work[op->work].count++;
	b->work[op->work].sum_ns += op->end_ns - op->start_ns;
	b->sum_ns += op->end_ns - op->start_ns;
	b->last_ns = MAX(b->last_ns, op->end_ns);
	advance(s, op->gpu, op->start_ns);
	g->streams += g->pieces.data[r.stream]++ == 0;
	g->copies += r.copies;
	g->heap.data[g->heap.count++] = r;
	heap_up(g->heap.data, g->heap.count - 1, x, y, x->end_ns < y->end_ns);
	return 0;
}

static void sweep_release(struct sweep *s, size_t gpus)
{
	for (size_t i = 0; s->gpus && i < gpus; i++) {
		vec_release(&s->gpus[i].heap);
		vec_release(&s->gpus[i].pieces);
		map_release(&s->gpus[i].index);
	}
	free(s->gpus);
}

int busy_analyze(const struct gpus *gpus, const struct selection *selection, struct busy *out)
{
	struct sweep s = { .out = out };
	struct gpu_walk walk;
	struct gpu_operation op;
	int rc;

	*out = (struct busy){ .gpus = calloc(gpus->count + 1, sizeof(*out->gpus)),
			      .count = gpus->count };
	s.gpus = calloc(gpus->count + 1, sizeof(*s.gpus));
	rc = gpu_walk_init(&walk, gpus, selection);
	if (!out->gpus || !s.gpus)
		rc = -ENOMEM;
	while (rc >= 0 && gpu_walk_next(&walk, &op))
		rc = start(&s, &op);
	for (size_t i = 0; rc >= 0 && i < gpus->count; i++)
		advance(&s, i, out->gpus[i].last_ns);
	out->untimed = walk.untimed;
	sweep_release(&s, gpus->count);
	gpu_walk_release(&walk);
	if (rc < 0)
		busy_release(out);
	return rc;
}

void busy_release(struct busy *b)
{
	free(b->gpus);
	*b = (struct busy){ 0 };
}

static int run(struct report *r, void *out)
{
	return busy_analyze(&r->gpus, &r->selection, out);
}

const struct analysis analysis_busy = {
	.size = sizeof(struct busy),
	.run = run,
	.owned = { OWNS(struct busy, gpus) },
};
