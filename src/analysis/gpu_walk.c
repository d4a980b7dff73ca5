#include "analysis/gpu_walk.h"

#include <errno.h>

#include "base/heap.h"

/* The rows of one table and process. start_ns and end_ns are those of `row`, the next row. */
struct gpu_source {
	uint64_t start_ns, end_ns;
	uint64_t row, last;
	const struct event_columns *columns;
	uint32_t process;
	uint32_t ordinal; /* of the previous row, and its GPU */
	uint16_t gpu;
	uint8_t work;
	bool ordinal_known;
};

int gpu_walk_load(struct trace *t, struct error *e)
{
	int rc = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		rc = events_load(t, schema_gpu_work[i]->id, GPU_WALK_ROLES, e);
	return rc < 0 ? rc : 0;
}

/* Advances `row` to a selected row with times; false at the end. */
static inline bool find_row(struct gpu_walk *w, struct gpu_source *s)
{
	const struct filter *f = &w->selection->filter;
	const struct event_columns *c = s->columns;

	for (; s->row < s->last; s->row++) {
		uint64_t row = s->row, start = c->start_ns[row], end = c->end_ns[row];

		if (f->device >= 0 && c->device[row] != f->device)
			continue;
		if (!event_is_timed(c, row)) {
			w->untimed += !w->selection->windowed;
			continue;
		}
		if (start >= f->until_ns)
			return false;
		if (end <= f->since_ns && w->selection->windowed)
			continue;
		s->start_ns = MAX(start, f->since_ns);
		s->end_ns = MIN(end, f->until_ns);
		return true;
	}
	return false;
}

static void sift_down(struct gpu_walk *w, size_t i)
{
	heap_down(w->sources, w->count, i, a, b, a->start_ns < b->start_ns);
}

/* Puts the source with the earliest row first. */
static void order(struct gpu_walk *w)
{
	sift_down(w, 0);
	w->next_ns = UINT64_MAX;
	for (size_t i = 1; i < MIN(w->count, 3); i++)
		w->next_ns = MIN(w->next_ns, w->sources[i].start_ns);
}

static void add_source(struct gpu_walk *w, size_t process, uint8_t work)
{
	const struct trace *t = w->selection->trace;
	enum table_id table = schema_gpu_work[work]->id;
	struct gpu_source s = {
		.columns = &w->columns[work],
		.row = trace_first_row(t, table, process),
		.last = trace_first_row(t, table, process + 1),
		.process = (uint32_t)process,
		.work = work,
	};

	if (s.row == s.last)
		return;
	if (find_row(w, &s))
		w->sources[w->count++] = s;
}

int gpu_walk_init(struct gpu_walk *w, const struct gpus *gpus, const struct selection *s)
{
	size_t processes = trace_process_count(s->trace);

	*w = (struct gpu_walk){ .gpus = gpus, .selection = s };
	w->sources = calloc(processes * GPU_WORK_KINDS + 1, sizeof(*w->sources));
	if (!w->sources)
		return -ENOMEM;
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		w->columns[i] = events_of(s->trace, schema_gpu_work[i]->id);
	for (size_t p = 0; p < processes; p++)
		for (uint8_t work = 0; work < GPU_WORK_KINDS && s->processes[p]; work++)
			add_source(w, p, work);
	for (size_t i = w->count / 2; i-- > 0;)
		sift_down(w, i);
	order(w);
	return 0;
}

void gpu_walk_release(struct gpu_walk *w)
{
	free(w->sources);
	*w = (struct gpu_walk){ 0 };
}

bool gpu_walk_next(struct gpu_walk *w, struct gpu_operation *op)
{
	struct gpu_source *s = w->sources;

	if (!w->count)
		return false;
	if (!s->ordinal_known || s->columns->device[s->row] != s->ordinal) {
		s->ordinal = s->columns->device[s->row];
		s->ordinal_known = true;
		s->gpu = (uint16_t)gpus_find(w->gpus, s->process, s->ordinal);
	}
	*op = (struct gpu_operation){
		.start_ns = s->start_ns,
		.end_ns = s->end_ns,
		.row = (uint32_t)s->row,
		.stream = s->columns->stream[s->row],
		.process = s->process,
		.gpu = s->gpu,
		.work = s->work,
	};
	s->row++;
	if (!find_row(w, s)) {
		*s = w->sources[--w->count];
		order(w);
	} else if (s->start_ns > w->next_ns) {
		order(w);
	}
	return true;
}
