#include "sampler/perf/perf_held.h"

#include <stdlib.h>

#include "base/clock.h"

/* Removes the reading of a sample from the list. NULL: there is none. */
static struct perf_reading *take_reading(struct perf_held_list *list, const struct perf_held *held)
{
	for (size_t i = 0; i < list->readings.all.count; i++) {
		struct perf_reading *r = list->readings.all.data[i];

		if (r->tid != held->tid || r->pid != held->pid || r->sample_ns != held->time_ns)
			continue;
		list->readings.all.data[i] = list->readings.all.data[--list->readings.all.count];
		return r;
	}
	return NULL;
}

/* in_ns: when the thread ran again; 0: unknown. */
static bool stood_still(const struct perf_held_list *list, const struct perf_held *held,
			const struct perf_reading *r, uint64_t in_ns)
{
	return held->losses == list->losses && held->is_preempted && in_ns &&
	       held->out_ns - held->time_ns <= PERF_HELD_SWITCH_NS && r->begin_ns >= held->out_ns &&
	       r->end_ns <= in_ns && r->is_same_stack;
}

static void emit(struct perf_held_list *list, size_t at, uint64_t in_ns)
{
	struct perf_held *held = list->all.data[at];
	struct perf_reading *reading = take_reading(list, held);

	list->emit(list->context, held,
		   reading && stood_still(list, held, reading, in_ns) ? reading : NULL);
	free(reading);
	*map_at(&list->index, (uint64_t)held->tid, 0) = 0;
	list->all.data[at] = list->all.data[--list->all.count];
	if (at < list->all.count)
		*map_at(&list->index, (uint64_t)list->all.data[at]->tid, 0) = at + 1;
	if (vec_push(&list->spare, held) < 0)
		free(held);
}

static struct perf_held *find(const struct perf_held_list *list, pid_t tid, size_t *at)
{
	uint64_t item;

	if (!map_get(&list->index, (uint64_t)tid, &item) || !item)
		return NULL;
	*at = (size_t)item - 1;
	return list->all.data[*at];
}

struct perf_held *perf_held_add(struct perf_held_list *list, const struct perf_sample *sample)
{
	struct perf_held *held;
	size_t at;

	perf_held_end(list, sample->tid);
	held = list->spare.count ? list->spare.data[--list->spare.count] : malloc(sizeof(*held));
	if (!held)
		return NULL;
	at = list->all.count;
	if (vec_push(&list->all, held) < 0 ||
	    map_put(&list->index, (uint64_t)sample->tid, at + 1) < 0) {
		list->all.count = at;
		free(held);
		return NULL;
	}
	held->pid = sample->pid;
	held->tid = sample->tid;
	held->time_ns = sample->time_ns;
	held->cpu = sample->cpu;
	held->out_ns = 0;
	held->is_preempted = false;
	held->losses = list->losses;
	return held;
}

void perf_held_switch(struct perf_held_list *list, const struct perf_sideband *n)
{
	size_t at;
	struct perf_held *held = find(list, n->tid, &at);

	if (!held)
		return;
	if (!n->is_out) {
		emit(list, at, n->time_ns);
	} else if (!held->out_ns) {
		held->out_ns = n->time_ns;
		held->is_preempted = n->is_preempted;
	}
}

void perf_held_end(struct perf_held_list *list, pid_t tid)
{
	size_t at;

	if (find(list, tid, &at))
		emit(list, at, 0);
}

void perf_held_end_process(struct perf_held_list *list, pid_t pid)
{
	for (size_t i = list->all.count; i-- > 0;)
		if (!pid || list->all.data[i]->pid == pid)
			emit(list, i, 0);
}

void perf_held_on_loss(struct perf_held_list *list)
{
	list->losses++;
}

void perf_held_forget(struct perf_held_list *list, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->readings.all.count; i++) {
		struct perf_reading *r = list->readings.all.data[i];

		if (r->sample_ns < time_ns)
			free(r);
		else
			list->readings.all.data[kept++] = r;
	}
	list->readings.all.count = kept;
}

void perf_held_release(struct perf_held_list *list)
{
	perf_held_end_process(list, 0);
	perf_held_forget(list, UINT64_MAX);
	for (size_t i = 0; i < list->spare.count; i++)
		free(list->spare.data[i]);
	vec_release(&list->spare);
	vec_release(&list->all);
	vec_release(&list->readings.all);
	map_release(&list->index);
}
