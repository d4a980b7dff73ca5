/* arrivals.c: why tasks started and calls returned when they did; what latencies are usual. */
#include <stdlib.h>
#include <string.h>

#include "causes/causes.h"

#define FOLLOW_NS UINT64_C(1000) /* until the next kernel, unless the recording knows */
#define SAMPLES_MAX 4096u /* latencies of a kind of edge, of which the percentile is taken */

/* The last arrival so far, and when it would have had its effect. */
struct last {
	struct arrival a;
	uint64_t effect_ns;
};

/*
 * Of all that work waits for, the last is what would have let it begin last. A kernel that ended
 * 2 us before is not why the next one began no earlier if that was called 4 us before and launches
 * take as long.
 */
ALWAYS_INLINE void consider(const struct causes *c, struct last *last, uint64_t limit_ns,
			    struct arrival a)
{
	uint64_t effect_ns = a.ns + causes_usual_ns(c, a);

	if (effect_ns > limit_ns && a.kind == EDGE_launch &&
	    c->tasks.data[a.from].flags & TASK_LONG_LAUNCH)
		effect_ns = limit_ns;
	if (a.ns <= limit_ns + CAUSES_CLOCK_NS &&
	    (last->a.from == TASK_NONE || effect_ns >= last->effect_ns))
		*last = (struct last){ a, effect_ns };
}

static size_t edges_end(const struct causes *c, uint32_t task)
{
	/* The newest task of a sweep has no next one. */
	return task + 1u < c->tasks.count ? c->tasks.data[task + 1].edges : c->edges.count;
}

static void consider_edges(const struct causes *c, uint32_t task, uint64_t limit_ns,
			   enum edge_kind except, struct last *last)
{
	for (size_t i = c->tasks.data[task].edges; i < edges_end(c, task); i++) {
		const struct task *from = &c->tasks.data[c->edges.data[i].from];
		bool at_start = c->edges.data[i].kind == EDGE_queue_full;

		if (c->edges.data[i].kind == except)
			continue;
		consider(c, last, limit_ns,
			 (struct arrival){ .from = c->edges.data[i].from,
					   .ns = at_start ? from->start_ns : from->end_ns,
					   .kind = c->edges.data[i].kind,
					   .at_start = at_start });
	}
}

struct arrival causes_start_except(const struct causes *c, uint32_t index, enum edge_kind except)
{
	const struct task *task = &c->tasks.data[index];
	struct last last = { .a.from = TASK_NONE };

	if (task->launch != TASK_NONE)
		consider(c, &last, task->start_ns,
			 (struct arrival){ .from = task->launch,
					   .ns = c->tasks.data[task->launch].start_ns,
					   .kind = EDGE_launch,
					   .at_start = true });
	if (task->previous != TASK_NONE)
		consider(c, &last, task->start_ns,
			 (struct arrival){ .from = task->previous,
					   .ns = c->tasks.data[task->previous].end_ns,
					   .kind = task->order });
	if (task->kind != TASK_CALL)
		consider_edges(c, index, task->start_ns, except, &last);
	last.a.ns = MIN(last.a.ns, task->start_ns);
	return last.a;
}

struct arrival causes_start(const struct causes *c, uint32_t index)
{
	return causes_start_except(c, index, EDGE_none);
}

/* The copy that the call waits for comes behind it. */
static void consider_own_work(const struct causes *c, uint32_t call, struct last *last)
{
	for (uint32_t i = call + 1; i < causes_task_count(c) && c->tasks.data[i].launch == call;
	     i++)
		if (c->tasks.data[i].flags & TASK_BLOCKS)
			consider(c, last, c->tasks.data[call].end_ns,
				 (struct arrival){ .from = i,
						   .ns = c->tasks.data[i].end_ns,
						   .kind = EDGE_copy });
}

struct arrival causes_return(const struct causes *c, uint32_t index)
{
	const struct task *task = &c->tasks.data[index];
	struct last last = { .a.from = TASK_NONE };

	if (task->kind != TASK_CALL || !(task->flags & TASK_SYNC_CALL))
		return last.a;
	consider_edges(c, index, task->end_ns, EDGE_none, &last);
	if (task->flags & TASK_LAUNCH_CALL)
		consider_own_work(c, index, &last);
	if (last.a.from != TASK_NONE && last.a.ns <= task->start_ns)
		last.a.from = TASK_NONE; /* all was over: it did not wait */
	last.a.ns = MIN(last.a.ns, task->end_ns);
	return last.a;
}

/* A sample of a stream of unknown length: every step-th, where `step` doubles when it is full. */
struct sample {
	uint64_t *ns;
	uint64_t seen, step;
	size_t count;
};

static void sample_add(struct sample *s, uint64_t ns)
{
	if (s->seen++ % s->step)
		return;
	if (s->count == SAMPLES_MAX) {
		s->count /= 2;
		for (size_t i = 0; i < s->count; i++)
			s->ns[i] = s->ns[2 * i];
		s->step *= 2;
	}
	s->ns[s->count++] = ns;
}

static int compare_ns(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void count_edge(struct causes *c, const struct task *cause, enum edge_kind kind,
		       uint64_t effect_ns)
{
	c->counts[kind]++;
	if (kind == EDGE_queue_full || cause->end_ns <= effect_ns + CAUSES_CLOCK_NS)
		return;
	c->contradictions[kind]++;
	c->contradiction_ns = MAX(c->contradiction_ns, cause->end_ns - effect_ns);
}

static void count_edges(struct causes *c, uint32_t index)
{
	const struct task *task = &c->tasks.data[index];
	bool is_call = task->kind == TASK_CALL;

	if (task->previous != TASK_NONE)
		count_edge(c, &c->tasks.data[task->previous], task->order, task->start_ns);
	c->counts[EDGE_launch] += !is_call && task->launch != TASK_NONE;
	for (size_t i = task->edges; i < edges_end(c, index); i++)
		count_edge(c, &c->tasks.data[c->edges.data[i].from], c->edges.data[i].kind,
			   is_call ? task->end_ns : task->start_ns);
}

/* Whether its launch, of which the latency is not yet known, may be why work began no earlier. */
static bool is_launched_late(const struct causes *c, uint32_t work, struct arrival start)
{
	uint32_t launch = c->tasks.data[work].launch;

	if (launch == TASK_NONE)
		return start.kind == EDGE_stream;
	return start.kind != EDGE_launch &&
	       c->tasks.data[launch].start_ns + CAUSES_LAUNCH_NS > start.ns;
}

int causes_measure(struct causes *c)
{
	uint64_t typical_ns[EDGE_KINDS] = { [EDGE_stream] = FOLLOW_NS };
	struct sample samples[EDGE_KINDS];
	_cleanup_free_ uint64_t *room = calloc((size_t)EDGE_KINDS * SAMPLES_MAX, sizeof(*room));

	if (!room)
		return -ENOMEM;
	for (unsigned k = 0; k < EDGE_KINDS; k++)
		samples[k] = (struct sample){ .ns = room + (size_t)k * SAMPLES_MAX, .step = 1 };
	for (uint32_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];
		struct arrival start = causes_start(c, i), end = causes_return(c, i);

		count_edges(c, i);
		if (start.from != TASK_NONE && task_is_work(task) && !is_launched_late(c, i, start))
			sample_add(&samples[start.kind], task->start_ns - start.ns);
		if (end.from != TASK_NONE)
			sample_add(&samples[end.kind], task->end_ns - end.ns);
	}
	for (unsigned k = 0; k < EDGE_KINDS; k++) {
		qsort(samples[k].ns, samples[k].count, sizeof(uint64_t), compare_ns);
		if (samples[k].count)
			typical_ns[k] = samples[k].ns[samples[k].count / 20];
	}
	memcpy(c->typical_ns, typical_ns, sizeof(typical_ns));
	return 0;
}
