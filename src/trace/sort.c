/*
 * sort.c: sorts the rows of each process by time.
 *
 * Blocks are sorted internally and nearly sorted among each other, because activity buffers and
 * rings are drained in turn. So the rows consist of few ascending runs, and few of these overlap at
 * any time. The runs are merged with a heap of those that have begun: rows come from the run at the
 * top until another run has an earlier row. The sort is stable.
 */
#include "trace/trace_state.h"

#include <errno.h>
#include <string.h>

#include "base/heap.h"

struct run {
	uint32_t next, end; /* rows */
};

struct run_list {
	VEC(struct run) runs;
};

static int find_runs(const uint64_t *times, uint64_t begin, uint64_t end, struct run_list *list)
{
	struct run run = { (uint32_t)begin, (uint32_t)begin };

	for (uint64_t i = begin + 1; i < end; i++) {
		if (times[i - 1] <= times[i])
			continue;
		run.end = (uint32_t)i;
		if (vec_push(&list->runs, run) < 0)
			return -ENOMEM;
		run.next = (uint32_t)i;
	}
	run.end = (uint32_t)end;
	return vec_push(&list->runs, run);
}

static bool run_before(const uint64_t *times, const struct run *a, const struct run *b)
{
	return times[a->next] != times[b->next] ? times[a->next] < times[b->next]
						: a->next < b->next;
}

static int compare_runs(const void *a, const void *b, void *times)
{
	return run_before(times, a, b) ? -1 : run_before(times, b, a);
}

static void add_run(const uint64_t *times, struct run *heap, size_t count, struct run run)
{
	heap[count] = run;
	heap_up(heap, count, a, b, run_before(times, a, b));
}

/*
 * Writes the rows of the sorted runs to `out` in order of time. The heap is in the array of the
 * runs: it never has more items than runs that were removed from the array.
 */
static void merge_runs(const uint64_t *times, struct run *runs, size_t count, uint32_t *out)
{
	size_t taken = 0, active = 0;

	while (taken < count || active) {
		uint64_t limit = UINT64_MAX;
		struct run *top = &runs[0];

		while (taken < count && (active == 0 || !run_before(times, &runs[0], &runs[taken])))
			add_run(times, runs, active++, runs[taken++]);
		if (taken < count)
			limit = times[runs[taken].next];
		for (size_t child = 1; child <= 2 && child < active; child++)
			limit = MIN(limit, times[runs[child].next]);
		do
			*out++ = top->next++;
		while (top->next < top->end && times[top->next] < limit);
		if (top->next == top->end)
			*top = runs[--active];
		heap_down(runs, active, 0, a, b, run_before(times, a, b));
	}
}

static bool is_sorted(const uint64_t *times, const uint64_t *first_row, size_t processes)
{
	for (size_t p = 0; p < processes; p++)
		for (uint64_t i = first_row[p] + 1; i < first_row[p + 1]; i++)
			if (times[i - 1] > times[i])
				return false;
	return true;
}

static int sort_process(const uint64_t *times, uint64_t begin, uint64_t end, uint32_t *permutation)
{
	struct run_list list = { VEC_INIT };
	int result;

	if (begin == end)
		return 0;
	result = find_runs(times, begin, end, &list);
	if (result == 0) {
		qsort_r(list.runs.data, list.runs.count, sizeof(struct run), compare_runs,
			(void *)times);
		merge_runs(times, list.runs.data, list.runs.count, permutation + begin);
	}
	vec_release(&list.runs);
	return result;
}

int sort_rows(const uint64_t *times, const uint64_t *first_row, size_t processes,
	      uint32_t **permutation)
{
	uint32_t *order;

	*permutation = NULL;
	if (is_sorted(times, first_row, processes))
		return 0;
	order = array_new(first_row[processes], sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t p = 0; p < processes; p++) {
		int result = sort_process(times, first_row[p], first_row[p + 1], order);

		if (result < 0) {
			free(order);
			return result;
		}
	}
	*permutation = order;
	return 0;
}

/* End of the shortest range that starts at `begin` and that the permutation maps onto itself. */
static uint64_t range_end(const uint32_t *permutation, uint64_t begin)
{
	uint64_t greatest = begin, end = begin;

	do
		greatest = MAX(greatest, permutation[end]);
	while (end++ < greatest);
	return end;
}

#define GATHER(type, to, from, permutation, begin, end)                                            \
	for (uint64_t i = begin; i < end; i++)                                                     \
	((type *)(to))[i] = ((const type *)(from))[permutation[i] - begin]

static void gather(void *to, const void *from, size_t width, const uint32_t *permutation,
		   uint64_t begin, uint64_t end)
{
	if (width == 1)
		GATHER(uint8_t, to, from, permutation, begin, end);
	else if (width == 2)
		GATHER(uint16_t, to, from, permutation, begin, end);
	else if (width == 4)
		GATHER(uint32_t, to, from, permutation, begin, end);
	else
		GATHER(uint64_t, to, from, permutation, begin, end);
}

int sort_apply(void *values, size_t width, const uint32_t *permutation, uint64_t rows)
{
	uint8_t *bytes = values, *copy = NULL;
	uint64_t room = 0, end;

	for (uint64_t begin = 0; begin < rows; begin = end) {
		end = range_end(permutation, begin);
		if (end - begin == 1)
			continue;
		if (end - begin > room) {
			free(copy);
			room = MIN(2 * (end - begin), rows);
			copy = array_new(room, width);
			if (!copy)
				return -ENOMEM;
		}
		memcpy(copy, bytes + begin * width, (end - begin) * width);
		gather(values, copy, width, permutation, begin, end);
	}
	free(copy);
	return 0;
}
