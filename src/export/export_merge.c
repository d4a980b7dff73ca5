#include "export/export_merge.h"

#include <errno.h>
#include <string.h>

#include "base/heap.h"
#include "base/search.h"
#include "trace/columns.h"

/* rows between progress reports, each of which also checks for cancellation */
#define REPORT_EVERY 4096

struct event_cursor {
	const uint64_t *start_ns, *end_ns; /* the same array if events have no duration */
	const uint8_t *start_valid, *end_valid;
	const struct event_columns *work; /* for GPU work and synchronizations */
	uint64_t row, stop;
	uint64_t time_ns; /* start of the current row */
	uint32_t process;
	uint8_t kind, table;
};

enum table_id event_table(enum event_kind kind)
{
	static const enum table_id tables[EVENT_KINDS] = {
		[EVENT_LOSS] = TABLE_loss,
		[EVENT_PATH] = TABLE_api_call,
		[EVENT_RANGE_VALUES] = TABLE_range_value,
		[EVENT_NVTX] = TABLE_nvtx,
		[EVENT_CALL] = TABLE_api_call,
		[EVENT_OVERHEAD] = TABLE_overhead,
		[EVENT_ALLOCATION] = TABLE_allocation,
		[EVENT_SYNC] = TABLE_synchronization,
		[EVENT_GPU_RANGE] = TABLE_nvtx,
		[EVENT_CUDA_EVENT] = TABLE_cuda_event,
		[EVENT_COUNTER] = TABLE_counter_sample,
		[EVENT_CPU_SAMPLE] = TABLE_cpu_sample,
		[EVENT_OFF_CPU] = TABLE_off_cpu,
	};

	if (kind >= EVENT_WORK && kind < EVENT_CUDA_EVENT)
		return schema_gpu_work[kind - EVENT_WORK]->id;
	return tables[kind];
}

int export_event_write(struct export_view *v, export_writer *const writers[EVENT_KINDS],
		       void *exporter, const struct export_event *event)
{
	export_writer *write = writers[event->kind];
	int r = write ? write(exporter, event) : EXPORT_UNCOUNTED;

	if (r == 0)
		v->result->written[event_table(event->kind)]++;
	else if (r == -E2BIG)
		v->result->crowded++;
	return r == -ENOMEM ? r : 0;
}

/* Whether the current row is exported; sets time_ns. */
static bool is_event(struct export_merge *m, struct event_cursor *c)
{
	struct export_view *v = m->view;
	uint64_t row = c->row, first;

	if ((c->start_valid && !c->start_valid[row]) || (c->end_valid && !c->end_valid[row]) ||
	    (c->end_ns[row] < c->start_ns[row] && c->kind != EVENT_NVTX)) {
		if (c->kind != EVENT_CUDA_EVENT) /* recorded only on request */
			v->result->untimed[c->table]++;
		return false;
	}
	c->time_ns = c->start_ns[row];
	if (c->time_ns < v->options->since_ns)
		return false;
	if (c->kind == EVENT_NVTX)
		return c->end_ns[row] != NVTX_SKIP;
	if (c->kind == EVENT_RANGE_VALUES)
		return range_values_of(v, TABLE_range_value, row, &first);
	if (c->kind == EVENT_CALL)
		return call_is_selected(v, row);
	return !c->work || work_is_selected(v, c->work, row);
}

/* Advances to the first exported event at or after the current row. Returns false at the end. */
static bool skip_to_event(struct export_merge *m, struct event_cursor *c)
{
	for (; c->row < c->stop; c->row++) {
		m->done++;
		if (!is_event(m, c))
			continue;
		if (c->time_ns < m->view->options->until_ns)
			return true;
		m->done += c->stop - c->row - 1;
		break;
	}
	return false;
}

static bool before(const struct export_merge *m, uint32_t a, uint32_t b)
{
	const struct event_cursor *x = &m->cursors[a], *y = &m->cursors[b];

	return x->time_ns < y->time_ns || (x->time_ns == y->time_ns && x->kind < y->kind);
}

static void sift_down(struct export_merge *m, size_t i)
{
	heap_down(m->heap, m->heap_count, i, a, b, before(m, *a, *b));
}

static struct event_cursor cursor_of_table(struct export_merge *m, enum event_kind kind,
					   size_t process)
{
	const struct trace *t = m->view->trace;
	enum table_id table = event_table(kind);
	struct event_columns columns = events_of(t, table);
	struct event_cursor c = { .kind = (uint8_t)kind,
				  .table = (uint8_t)table,
				  .process = (uint32_t)process };

	if (!columns.rows || (kind >= EVENT_CPU_SAMPLE && !m->view->with_samples))
		return c;
	c.row = trace_first_row(t, table, process);
	c.stop = trace_first_row(t, table, process + 1);
	c.start_ns = columns.start_ns;
	c.start_valid = columns.start_valid;
	c.end_ns = columns.end_ns;
	c.end_valid = columns.end_valid;
	if (kind == EVENT_SYNC || (kind >= EVENT_WORK && kind < EVENT_CUDA_EVENT))
		c.work = event_work(m->view, kind);
	if (kind == EVENT_NVTX)
		c.end_ns = m->view->nvtx_end_ns;
	return c;
}

/* The cursor of a list of events; returns room for their starts, and then their ends. */
static uint64_t *list_cursor(struct event_cursor *c, enum event_kind kind, size_t count)
{
	uint64_t *times = malloc((2 * count + 1) * sizeof(*times));

	*c = (struct event_cursor){ .start_ns = times,
				    .end_ns = times + count,
				    .stop = count,
				    .kind = (uint8_t)kind,
				    .table = (uint8_t)event_table(kind) };
	return times;
}

ORDER(by_start, struct trace_loss, UP(start_ns))

static int load_losses(struct export_merge *m, struct event_cursor *c, struct error *e)
{
	const struct trace_loss *losses;
	size_t count;
	int r = trace_losses(m->view->trace, &losses, &count, e);

	if (r < 0)
		return r;
	m->losses = malloc((count + 1) * sizeof(*m->losses));
	m->loss_ns = list_cursor(c, EVENT_LOSS, count);
	if (!m->losses || !m->loss_ns)
		return error_set(e, -ENOMEM, "out of memory");
	if (count)
		memcpy(m->losses, losses, count * sizeof(*losses));
	qsort(m->losses, count, sizeof(*m->losses), by_start);
	for (size_t i = 0; i < count; i++) {
		m->loss_ns[i] = m->losses[i].start_ns;
		m->loss_ns[count + i] = MAX(m->losses[i].end_ns, m->losses[i].start_ns);
	}
	return 0;
}

static int load_gpu_ranges(struct export_merge *m, struct event_cursor *c, struct error *e)
{
	struct gpu_ranges *g = &m->gpu_ranges;
	int r = gpu_ranges_init(g, m->view);

	m->range_ns = list_cursor(c, EVENT_GPU_RANGE, g->items.count);
	if (r < 0 || !m->range_ns)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < g->items.count; i++) {
		m->range_ns[i] = g->items.data[i].start_ns;
		m->range_ns[g->items.count + i] = g->items.data[i].end_ns;
	}
	return 0;
}

static int load_path(struct export_merge *m, struct event_cursor *c, struct error *e)
{
	const struct export_view *v = m->view;
	const struct export_options *options = v->options;
	const struct path *path = &m->path.path;
	int r = options->critical_path
			? export_path_find(&m->path, v->trace, v->selection.processes,
					   options->since_ns, options->until_ns, e)
			: 0;

	m->path_ns = list_cursor(c, EVENT_PATH, path->pieces.count);
	if (r >= 0 && !m->path_ns)
		r = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < path->pieces.count && r >= 0; i++) {
		m->path_ns[i] = path->pieces.data[i].start_ns;
		m->path_ns[path->pieces.count + i] = path->pieces.data[i].end_ns;
	}
	return r;
}

/* Creates one cursor per table and process, and one for each list. */
int export_merge_init(struct export_merge *m, struct export_view *v, struct error *e)
{
	size_t count = 0, room = v->process_count * EVENT_KINDS + 3;
	int r;

	*m = (struct export_merge){ .view = v };
	m->cursors = calloc(room, sizeof(*m->cursors));
	m->heap = calloc(room, sizeof(*m->heap));
	if (!m->cursors || !m->heap) {
		export_merge_release(m);
		return error_set(e, -ENOMEM, "out of memory");
	}
	r = load_losses(m, &m->cursors[count++], e);
	if (r >= 0)
		r = load_gpu_ranges(m, &m->cursors[count++], e);
	if (r >= 0)
		r = load_path(m, &m->cursors[count++], e);
	if (r < 0) {
		export_merge_release(m);
		return r;
	}
	for (size_t p = 0; p < v->process_count; p++)
		for (int kind = EVENT_PATH + 1; kind < EVENT_KINDS; kind++)
			if (kind != EVENT_GPU_RANGE)
				m->cursors[count++] = cursor_of_table(m, (enum event_kind)kind, p);
	for (size_t i = 0; i < count; i++) {
		m->total += m->cursors[i].stop - m->cursors[i].row;
		if (skip_to_event(m, &m->cursors[i]))
			m->heap[m->heap_count++] = (uint32_t)i;
	}
	for (size_t i = m->heap_count / 2; i-- > 0;)
		sift_down(m, i);
	return 0;
}

void export_merge_release(struct export_merge *m)
{
	free(m->cursors);
	free(m->heap);
	free(m->losses);
	free(m->loss_ns);
	gpu_ranges_release(&m->gpu_ranges);
	free(m->range_ns);
	export_path_release(&m->path);
	free(m->path_ns);
	*m = (struct export_merge){ 0 };
}

static int report(struct export_merge *m)
{
	const struct export_options *options = m->view->options;

	m->next_report = m->done + REPORT_EVERY;
	if (options->cancel && *options->cancel)
		return -ECANCELED;
	if (options->progress)
		options->progress(options->progress_user, m->done, m->total);
	return 0;
}

int export_merge_end(const struct export_merge *m, int r, struct error *e)
{
	if (r < 0)
		return error_set(e, r, "stopped");
	if (export_result_events(m->view->result) > m->view->result->written[TABLE_loss])
		return 0;
	return error_set(e, -ENODATA, "nothing to export");
}

static uint32_t gpu_of(const struct export_view *v, const struct event_cursor *c)
{
	uint64_t device = 0, key = (uint64_t)c->process << 32;

	if (c->work)
		return (uint32_t)work_gpu(v, c->work, c->process, c->row);
	map_get(&v->context_devices, key | cuda_event_columns(v->trace)->context[c->row], &device);
	return (uint32_t)gpus_find(&v->gpus, c->process, (uint32_t)device);
}

int export_merge_next(struct export_merge *m, struct export_event *event)
{
	struct event_cursor *c;
	int r = m->done >= m->next_report ? report(m) : 0;

	if (r < 0 || !m->heap_count)
		return r;
	c = &m->cursors[m->heap[0]];
	*event = (struct export_event){ .kind = (enum event_kind)c->kind,
					.process = c->process,
					.row = c->row,
					.start_ns = c->time_ns,
					.end_ns = c->end_ns[c->row],
					.finished = true };
	if (c->work || c->kind == EVENT_CUDA_EVENT)
		event->gpu = gpu_of(m->view, c);
	if (unlikely(event->end_ns == NVTX_OPEN)) {
		event->finished = false;
		event->end_ns = MAX(m->view->processes[c->process].end_ns, c->time_ns);
	}
	c->row++;
	if (!skip_to_event(m, c))
		m->heap[0] = m->heap[--m->heap_count];
	sift_down(m, 0);
	return 1;
}

void event_name(struct strbuf *out, const struct trace *t, const struct export_event *event)
{
	const struct memcpy_columns *copies = memcpy_columns(t);
	uint64_t row = event->row;

	if (event->kind == EVENT_MEMCPY)
		memcpy_name(out, copies->kind[row], copies->source_kind[row],
			    copies->destination_kind[row]);
	else if (event->kind == EVENT_MEMSET)
		memset_name(out, memset_columns(t)->memory_kind[row]);
	else if (event->kind == EVENT_GRAPH)
		strbuf_addf(out, "CUDA graph %u", graph_launch_columns(t)->graph[row]);
	else if (event->kind == EVENT_KERNEL)
		strbuf_adds(out, "(unknown kernel)");
	else
		strbuf_adds(out, event_label(t, event_table(event->kind), row));
}
