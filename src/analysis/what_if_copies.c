/*
 * what_if_copies.c: copies from and to pageable memory, as fast as those of pinned memory in the
 * same recording: of the same direction and a size at most four times as large or small.
 */
#include <stdlib.h>

#include "analysis/what_if.h"
#include "base/human.h"
#include "trace/columns.h"

#define SIZES 64u /* powers of two */
#define SIZES_APART 2u
#define DIRECTIONS (copy_kind_DtoH + 1u)

/* Nanoseconds for a MiB, by direction and size. */
struct pinned {
	VEC(double) rates[DIRECTIONS][SIZES];
	VEC(uint64_t) calls; /* what calls cost that copy without waiting */
};

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

static unsigned size_of(uint64_t bytes)
{
	return bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;
}

/* A copy between a device and memory of this kind, of known size. */
static bool is_copy_of(const struct what_if *w, const struct task *task, enum memory_kind kind)
{
	const struct memcpy_columns *m = memcpy_columns(w->report->trace);
	uint32_t row = task->row;

	if (task->kind != GPU_WORK_memcpy || !column_has(m->valid.bytes, row) || !m->bytes[row])
		return false;
	return (m->kind[row] == copy_kind_HtoD && m->source_kind[row] == kind) ||
	       (m->kind[row] == copy_kind_DtoH && m->destination_kind[row] == kind);
}

static bool is_async(const struct what_if *w, const struct task *task)
{
	const struct memcpy_columns *m = memcpy_columns(w->report->trace);

	return column_has(m->valid.async, task->row) && m->async[task->row];
}

static int find_pinned(const struct what_if *w, struct pinned *p)
{
	const struct memcpy_columns *m = memcpy_columns(w->report->trace);
	size_t count = causes_task_count(&w->report->causes);
	int code = 0;

	for (uint32_t i = 0; i < count && code >= 0; i++) {
		const struct task *task = task_at(w, i), *call;
		double ns = (double)(task->end_ns - task->start_ns);

		if (!is_copy_of(w, task, memory_kind_pinned) ||
		    w->report->causes.lanes.data[task->lane].process != w->process)
			continue;
		code = vec_push(&p->rates[m->kind[task->row]][size_of(m->bytes[task->row])],
				ns / (double)m->bytes[task->row]);
		call = task->launch == TASK_NONE ? NULL : task_at(w, task->launch);
		if (code >= 0 && call && is_async(w, task) && !(call->flags & TASK_SYNC_CALL))
			code = vec_push(&p->calls, call->end_ns - call->start_ns);
	}
	return code;
}

static int compare_doubles(const void *a, const void *b)
{
	return ORDER_OF(*(const double *)a, *(const double *)b);
}

static int compare_u64(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void sort_pinned(struct pinned *p)
{
	for (unsigned d = 0; d < DIRECTIONS; d++)
		for (unsigned s = 0; s < SIZES; s++)
			vec_sort(&p->rates[d][s], compare_doubles);
	vec_sort(&p->calls, compare_u64);
}

/* The median of the nearest size, of two the smaller one; negative: there is none. */
static double rate_of(const struct pinned *p, uint8_t direction, uint64_t bytes)
{
	unsigned size = size_of(bytes);

	for (unsigned apart = 0; apart <= SIZES_APART; apart++)
		for (unsigned larger = 0; larger < 2; larger++) {
			unsigned s = larger ? size + apart : size - MIN(apart, size);

			if (s < SIZES && p->rates[direction][s].count)
				return p->rates[direction][s]
					.data[p->rates[direction][s].count / 2];
		}
	return -1;
}

static int no_rate(const struct what_if *w, const struct what_if_rule *rule,
		   const struct task *task, struct error *e)
{
	const struct memcpy_columns *m = memcpy_columns(w->report->trace);
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;
	const char *direction = schema_value_name(
		&schema_table(TABLE_memcpy)->columns[COLUMN_memcpy_kind], m->kind[task->row]);

	human_bytes(&size, m->bytes[task->row]);
	return error_set(e, E_USAGE,
			 "'%s' is not simulated: the recording has no %s copy of about %s with "
			 "pinned memory, so its rate is unknown: name it, as in 'copy:%s x0.5'",
			 rule->text, direction, strbuf_text(&size), direction);
}

static int set_times(const struct what_if *w, struct what_if_rule *rule, const struct pinned *p,
		     struct error *e)
{
	const struct memcpy_columns *m = memcpy_columns(w->report->trace);

	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		const struct task *task = task_at(w, i);
		uint32_t at = i - w->from_task, call = task->launch;
		double rate;

		if (!is_copy_of(w, task, memory_kind_pageable))
			continue;
		rate = rate_of(p, m->kind[task->row], m->bytes[task->row]);
		if (rate < 0)
			return no_rate(w, rule, task, e);
		rule->matches[at] = true;
		rule->times[at] = (uint64_t)(rate * (double)m->bytes[task->row]);
		if (call == TASK_NONE || call < w->from_task || !is_async(w, task))
			continue;
		rule->matches[call - w->from_task] = true;
		rule->times[call - w->from_task] =
			p->calls.count ? p->calls.data[p->calls.count / 2] : UINT64_MAX;
	}
	return 0;
}

int what_if_match_copies(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	size_t count = w->until_task - w->from_task + UINT64_C(1);
	struct pinned *p = calloc(1, sizeof(*p));
	int code = p ? trace_load(w->report->trace, TABLE_memcpy,
				  COLUMN_BITS(memcpy, bytes, kind, source_kind, destination_kind,
					      async),
				  e)
		     : -ENOMEM;

	rule->matches = calloc(count, 1);
	rule->times = calloc(count, sizeof(*rule->times));
	if (code >= 0)
		code = rule->matches && rule->times ? find_pinned(w, p) : -ENOMEM;
	if (code >= 0) {
		sort_pinned(p);
		code = set_times(w, rule, p, e);
	}
	for (unsigned d = 0; p && d < DIRECTIONS; d++)
		for (unsigned s = 0; s < SIZES; s++)
			vec_release(&p->rates[d][s]);
	if (p)
		vec_release(&p->calls);
	free(p);
	return code;
}
