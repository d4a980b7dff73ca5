/*
 * scope_times.c: first adds up what belongs directly to each path; then, from the last path to the
 * first, adds each scope's figures to the scope around it. Busy time is not additive: work is
 * visited in order of its start, and adds the part of its interval that no earlier work inside the
 * scope covers. An interval covered in a scope is also covered in all scopes around it.
 */
#include "analysis/scope_times.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/nvtx_ranges.h"
#include "trace/columns.h"

struct tally {
	const struct report *report;
	const struct nvtx_ranges *ranges;
	struct scope_times *out;
	struct scope_time *items; /* by path */
};

static int add_work(struct tally *x)
{
	_cleanup_free_ uint64_t *covered = calloc(x->ranges->path_count + 1, sizeof(*covered));
	const struct report *r = x->report;
	struct gpu_walk w;
	struct gpu_operation op;
	int code = gpu_walk_init(&w, &r->gpus, &r->selection);

	if (code < 0 || !covered) {
		gpu_walk_release(&w);
		return -ENOMEM;
	}
	while (gpu_walk_next(&w, &op)) {
		const struct event_columns *c = &w.columns[op.work];
		uint64_t ns = c->end_ns[op.row] - c->start_ns[op.row];
		uint32_t path;

		if (!calls_select(&r->calls, &r->selection, c, op.work, op.row, true))
			continue;
		path = nvtx_path_of_call(x->ranges, calls_launch(&r->calls, op.work, op.row));
		x->out->gpu_ns += ns;
		if (path == SCOPE_NONE) {
			x->out->outside_ns += ns;
			continue;
		}
		x->items[path].self_ns += ns;
		x->items[path].kernels += op.work == GPU_WORK_kernel;
		for (; path != SCOPE_NONE && covered[path] < op.end_ns;
		     path = x->ranges->paths[path].parent) {
			x->items[path].busy_ns += op.end_ns - MAX(covered[path], op.start_ns);
			covered[path] = op.end_ns;
		}
	}
	gpu_walk_release(&w);
	return 0;
}

/* The item of a selected call's path; NULL: outside of scopes. */
static struct scope_time *at_call(const struct tally *x, uint32_t row)
{
	uint32_t path = nvtx_path_of_call(x->ranges, row);

	return path == SCOPE_NONE || !selection_has_call(&x->report->selection, row)
		       ? NULL
		       : &x->items[path];
}

static int add_wait(void *user, uint32_t process, uint32_t row)
{
	const struct tally *x = user;
	struct scope_time *s = at_call(x, row);

	(void)process;
	if (s)
		s->wait_ns += x->report->calls.end_ns[row] - x->report->calls.start_ns[row];
	return 0;
}

static int add_launch(void *user, uint32_t process, uint32_t row)
{
	struct scope_time *s = at_call(user, row);

	(void)process;
	if (s)
		s->launches++;
	return 0;
}

static int add_samples(struct tally *x)
{
	const struct selection *s = &x->report->selection;
	const struct cpu_sample_columns *c = cpu_sample_columns(s->trace);
	struct nvtx_cursor cursor = { .ranges = x->ranges };
	uint32_t range;
	int code = 0;

	for (struct row_walk w = selection_rows(s, TABLE_cpu_sample);
	     code >= 0 && row_walk_next(&w);) {
		uint32_t path;

		if (!selection_has_time(s, true, c->time_ns[w.row]))
			continue;
		code = nvtx_cursor_at(&cursor, trace_process(s->trace, w.process)->subject,
				      c->thread[w.row], c->time_ns[w.row], &range);
		path = code < 0 ? SCOPE_NONE : nvtx_path(x->ranges, range);
		if (path == SCOPE_NONE || !scope_path_selected(s->scopes, path))
			continue;
		x->items[path].samples++;
		x->items[path].cpu_ns += c->weight_ns[w.row];
	}
	map_release(&cursor.last);
	return code;
}

static void add_runs(struct tally *x, struct scope_time *s, uint64_t row)
{
	const struct nvtx_columns *c = nvtx_columns(x->report->trace);

	if (!column_has(c->valid.payload_kind, row) || c->payload_kind[row] != nvtx_payload_runs ||
	    !column_has(c->valid.payload, row))
		return;
	s->repeats += (uint32_t)c->payload[row];
	s->warmups += c->payload[row] >> 32;
	x->out->runs = true;
}

static void add_ranges(struct tally *x)
{
	const struct selection *s = &x->report->selection;

	for (size_t i = 0; i < x->ranges->count; i++) {
		const struct nvtx_range *r = &x->ranges->items[i];
		struct scope_time *item;

		if (!r->is_scope || !s->processes[r->process] ||
		    !scope_path_selected(s->scopes, r->path) ||
		    !selection_has_time(s, true, r->start_ns))
			continue;
		item = &x->items[r->path];
		item->calls++;
		item->open += r->open;
		item->timed += !r->open;
		item->wall_ns += r->open ? 0 : r->end_ns - r->start_ns;
		add_runs(x, item, r->row);
	}
}

static void sum_outwards(struct tally *x)
{
	for (size_t i = x->ranges->path_count; i-- > 0;) {
		struct scope_time *s = &x->items[i], *around;
		uint32_t parent = x->ranges->paths[i].parent;

		s->path = (uint32_t)i;
		s->message = x->ranges->paths[i].message;
		s->depth = x->ranges->paths[i].depth;
		s->gpu_ns += s->self_ns;
		s->weight_ns = MAX(s->weight_ns, MAX(s->gpu_ns, s->wall_ns));
		if (s->calls || s->kernels || s->launches || s->samples)
			s->weight_ns = MAX(s->weight_ns, 1);
		if (parent == SCOPE_NONE)
			continue;
		around = &x->items[parent];
		around->gpu_ns += s->gpu_ns;
		around->weight_ns = MAX(around->weight_ns, s->weight_ns);
		around->kernels += s->kernels;
		around->launches += s->launches;
		around->wait_ns += s->wait_ns;
		around->samples += s->samples;
		around->cpu_ns += s->cpu_ns;
	}
}

/* Ties keep the order of paths, so outer scopes come before the scopes inside of them. */
ORDER(compare, struct scope_time, DOWN(weight_ns) ?: UP(path))

/*
 * Orders the items: each scope before the scopes inside of it, the largest first; drops empty ones.
 * first[parent path + 1] (0: no parent) and next[] link the children of a path; values are
 * positions in the sorted items, plus 1.
 */
static int order(struct tally *x)
{
	const struct scope_path *paths = x->ranges->paths;
	size_t count = x->ranges->path_count;
	_cleanup_free_ uint32_t *first = calloc(count + 1, sizeof(*first));
	_cleanup_free_ uint32_t *next = calloc(count + 1, sizeof(*next));
	struct scope_time *out = calloc(count + 1, sizeof(*out));

	x->out->items = out;
	if (!first || !next || !out)
		return -ENOMEM;
	qsort(x->items, count, sizeof(*x->items), compare);
	for (size_t i = count; i-- > 0;) {
		uint32_t *list = &first[paths[x->items[i].path].parent + 1];

		if (!x->items[i].weight_ns)
			continue;
		x->items[i].rank = i;
		next[i] = *list;
		*list = (uint32_t)i + 1;
	}
	for (uint32_t at = 0; at || first[0];) {
		uint32_t position = first[at];

		if (!position) {
			at = paths[at - 1].parent + 1;
			continue;
		}
		first[at] = next[position - 1];
		out[x->out->count++] = x->items[position - 1];
		at = x->items[position - 1].path + 1;
	}
	return 0;
}

static int run(struct report *r, void *result)
{
	struct tally x = { .report = r, .ranges = &r->ranges, .out = result };
	int code;

	if (!r->options.scope_tree)
		return 0;
	x.items = calloc(x.ranges->path_count + 1, sizeof(*x.items));
	code = x.items ? add_work(&x) : -ENOMEM;
	if (code >= 0)
		code = calls_visit(r->trace, &r->selection, &r->calls, CALLS_WAIT, add_wait, &x);
	if (code >= 0)
		code = calls_visit(r->trace, &r->selection, &r->calls, CALLS_LAUNCH, add_launch,
				   &x);
	if (code >= 0)
		code = add_samples(&x);
	if (code >= 0) {
		add_ranges(&x);
		sum_outwards(&x);
		code = order(&x);
	}
	free(x.items);
	return code;
}

const struct analysis analysis_scope_times = {
	.size = sizeof(struct scope_times),
	.needs = { { TABLE_nvtx, 0 }, { TABLE_cpu_sample, 0 } },
	.run = run,
	.owned = { OWNS(struct scope_times, items) },
};
