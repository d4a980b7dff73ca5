#include "compare/launch_order.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sentence.h"
#include "base/map.h"
#include "report/words.h"
#include "schema/schema.h"
#include "trace/columns.h"
#include "trace/events.h"

#define HASH_DIGITS_MIN 8u /* of hexadecimal digits in a name that are taken for a hash */

struct order_maker {
	struct launch_order *o;
	const struct causes *c;
	const struct trace *t;
	struct event_columns work[GPU_WORK_KINDS];
	struct map thread_of, stream_of; /* lane -> 1 + sequence */
	struct map places; /* task -> hash of its place in its stream */
	struct map configs; /* row of kernel_config -> hash */
	VEC(uint32_t) nodes; /* tasks of one graph launch; reused */
};

static const struct task *task_at(const struct launch_order *o, uint32_t index)
{
	return &o->report.causes.tasks.data[index];
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return hash_u64(hash ^ (value + UINT64_C(0x9e3779b97f4a7c15)));
}

/* --- what work is --- */

/*
 * Replaces what compilers at run time put into names: after "_cuda_" a number, and hashes. Returns
 * whether there was something.
 */
static bool mask_name(const char *name, struct strbuf *out)
{
	bool masked = false;

	for (size_t length; *name; name += length) {
		bool is_counter =
			     out->length >= 6 && !memcmp(out->data + out->length - 6, "_cuda_", 6),
		     is_hash;

		length = strspn(name, "0123456789abcdef");
		is_hash = length >= HASH_DIGITS_MIN && strcspn(name, "0123456789") < length &&
			  out->length && !isalnum((unsigned char)out->data[out->length - 1]);
		if (is_counter && isdigit((unsigned char)*name))
			length = strspn(name, "0123456789");
		else if (!is_hash)
			length = MAX(length, 1);
		if (is_hash || (is_counter && isdigit((unsigned char)*name))) {
			strbuf_addc(out, '#');
			masked = true;
		} else {
			strbuf_add(out, name, length);
		}
	}
	return masked;
}

/* A hash of name, grid, block and shared memory, or 0 for want of memory. */
static uint64_t hash_of_config(struct order_maker *m, uint32_t config)
{
	uint64_t *found = map_at(&m->configs, config, 0);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct row_kernel_config row;

	if (!found || *found)
		return found ? *found : 0;
	if (config == TRACE_NO_ROW)
		return *found = 1;
	trace_row(m->t, TABLE_kernel_config, config, &row);
	m->o->masked += mask_name(trace_string(m->t, row.name), &name);
	*found = hash_bytes(strbuf_text(&name), name.length);
	*found = mix(mix(mix(*found, row.grid_x), row.grid_y), row.grid_z);
	*found = mix(mix(mix(*found, row.block_x), row.block_y), row.block_z);
	*found = mix(*found, row.static_shared_bytes + (uint64_t)row.dynamic_shared_bytes) | 1;
	return name.failed ? 0 : *found;
}

static uint64_t what_of(struct order_maker *m, const struct task *task)
{
	const struct memcpy_columns *c = memcpy_columns(m->t);
	const struct memset_columns *s = memset_columns(m->t);
	uint64_t what = mix(task->kind, m->work[task->kind].device[task->row]);

	switch (task->kind) {
	case GPU_WORK_kernel:
		return mix(what, hash_of_config(m, kernel_columns(m->t)->config[task->row]));
	case GPU_WORK_memcpy:
		return mix(mix(what, c->kind[task->row]), c->bytes[task->row]);
	case GPU_WORK_memset:
		return mix(mix(what, s->value[task->row]), s->bytes[task->row]);
	default:
		return what;
	}
}

/* --- sequences --- */

/* The sequence of a lane, or -ENOMEM. */
static int64_t sequence_at(struct map *of, uint32_t lane, const struct causes *c, void *sequences)
{
	VEC(struct launch_sequence) *list = sequences;
	uint64_t number = map_number(of, lane);

	if (!number)
		return -ENOMEM;
	if (number > list->count &&
	    vec_push(list, ((struct launch_sequence){ .id = c->lanes.data[lane].id })) < 0)
		return -ENOMEM;
	return (int64_t)number - 1;
}

static int64_t place_task(struct order_maker *m, uint32_t i)
{
	int64_t stream = sequence_at(&m->stream_of, task_at(m->o, i)->lane, m->c, &m->o->streams);

	if (stream < 0 ||
	    map_put(&m->places, i, mix((uint64_t)stream, m->o->streams.data[stream].steps.count)) <
		    0)
		return -ENOMEM;
	return stream;
}

/* What the task waits for, in any order: of a join, also what its stream had. */
static uint64_t waits_of(const struct order_maker *m, uint32_t i)
{
	const struct task *task = task_at(m->o, i);
	uint64_t sum = 0, place;

	for (size_t k = task->edges; k < task[1].edges; k++) {
		const struct task_edge *edge = &m->c->edges.data[k];

		if ((edge->kind == EDGE_event || edge->kind == EDGE_null_stream ||
		     edge->kind == EDGE_graph) &&
		    map_get(&m->places, edge->from, &place))
			sum += mix(place, edge->kind);
	}
	return sum;
}

static int add_join(struct order_maker *m, uint32_t i)
{
	uint64_t place;

	if (place_task(m, i) < 0 || !map_get(&m->places, i, &place))
		return -ENOMEM;
	return map_put(&m->places, i, mix(place, waits_of(m, i)));
}

static int add_work(struct order_maker *m, uint32_t i)
{
	const struct task *task = task_at(m->o, i);
	int64_t stream = place_task(m, i), thread;
	struct launch_step step = { .task = i };

	if (stream < 0)
		return -ENOMEM;
	step.what = what_of(m, task);
	step.waits = waits_of(m, i);
	if (vec_push(&m->o->streams.data[stream].steps, step) < 0)
		return -ENOMEM;
	if (task->launch == TASK_NONE || task->kind != GPU_WORK_kernel)
		return 0;
	thread =
		sequence_at(&m->thread_of, task_at(m->o, task->launch)->lane, m->c, &m->o->threads);
	return thread < 0 ? -ENOMEM : vec_push(&m->o->threads.data[thread].steps, step);
}

struct node {
	uint64_t id;
	uint32_t task;
};

ORDER(by_id, struct node, UP(id) ?: UP(task))

/* The node id, or 0: not of a launched graph. */
static uint64_t node_of(const struct order_maker *m, const struct task *task)
{
	const struct event_columns *c = task_is_work(task) ? &m->work[task->kind] : NULL;

	return c && task->launch != TASK_NONE && c->graph_node &&
			       column_has(c->graph_node_valid, task->row)
		       ? c->graph_node[task->row]
		       : 0;
}

/* Nodes of one launch run side by side: in the order in which they were created. */
static int add_nodes(struct order_maker *m, uint32_t first, uint32_t end)
{
	_cleanup_free_ struct node *nodes = calloc(end - first, sizeof(*nodes));
	int code = nodes ? 0 : -ENOMEM;

	for (uint32_t i = first; i < end && code >= 0; i++)
		nodes[i - first] = (struct node){ node_of(m, task_at(m->o, i)), i };
	if (code >= 0)
		qsort(nodes, end - first, sizeof(*nodes), by_id);
	for (uint32_t i = 0; i < end - first && code >= 0; i++)
		code = add_work(m, nodes[i].task);
	return code;
}

static int add_tasks(struct order_maker *m, uint32_t first, uint32_t end)
{
	int code = 0;

	for (uint32_t i = first, next; i < end && code >= 0; i = next) {
		const struct task *task = task_at(m->o, i);

		next = i + 1;
		if (task->kind == TASK_JOIN) {
			code = add_join(m, i);
		} else if (node_of(m, task)) {
			while (next < end && task_at(m->o, next)->launch == task->launch &&
			       node_of(m, task_at(m->o, next)))
				next++;
			code = add_nodes(m, i, next);
		} else if (task_is_work(task)) {
			code = add_work(m, i);
		}
	}
	return code;
}

static int add_allocations(struct order_maker *m)
{
	const struct allocation_columns *a = allocation_columns(m->t);
	uint64_t row = trace_first_row(m->t, TABLE_allocation, m->o->process),
		 end = trace_first_row(m->t, TABLE_allocation, m->o->process + UINT64_C(1));

	m->o->has_allocations = row < end;
	for (; row < end; row++) {
		struct launch_step step = { .task = (uint32_t)row };

		step.what = mix(mix(mix(a->operation[row], a->kind[row]), a->device[row]),
				column_has(a->valid.bytes, row) ? a->bytes[row] : 0);
		if (vec_push(&m->o->allocations.steps, step) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* --- the order --- */

static int choose_process(struct launch_order *o, struct error *e)
{
	const struct steps *s = o->report.steps;
	const struct step_loop *best = NULL;

	for (size_t i = 0; i < s->loop_count; i++)
		if (!best || s->loops[i].work_ns > best->work_ns)
			best = &s->loops[i];
	if (!best)
		return error_set(e, E_UNSUPPORTED, "it has no GPU work");
	o->process = best->process;
	o->loop = best->count ? best : NULL;
	return 0;
}

static int make(struct order_maker *m)
{
	uint32_t count = (uint32_t)causes_task_count(m->c), first = 0, end;
	int code;

	while (first < count &&
	       m->c->lanes.data[task_at(m->o, first)->lane].process != m->o->process)
		first++;
	for (end = first; end < count; end++)
		if (m->c->lanes.data[task_at(m->o, end)->lane].process != m->o->process)
			break;
	code = add_tasks(m, first, end);
	return code < 0 ? code : add_allocations(m);
}

int launch_order_init(struct launch_order *o, struct trace *t, struct error *e)
{
	static const struct {
		enum table_id table;
		uint64_t columns;
	} needs[] = {
		{ TABLE_allocation, COLUMN_BITS(allocation, operation, kind, bytes, device) },
		{ TABLE_memcpy, COLUMN_BITS(memcpy, bytes, kind) },
		{ TABLE_memset, COLUMN_BITS(memset, bytes, value) },
		{ TABLE_kernel_config, 0 },
	};
	const struct report_options options = { .filter = FILTER_ALL,
						.scopes = SCOPES_ALL,
						.steps = true };
	struct order_maker m = { .o = o, .c = &o->report.causes, .t = t };
	struct map *maps[] = { &m.thread_of, &m.stream_of, &m.places, &m.configs };
	int code = 0;

	*o = (struct launch_order){ .process = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(needs) && code >= 0; i++)
		code = trace_load(t, needs[i].table, needs[i].columns, e);
	if (code >= 0)
		code = report_init(&o->report, t, &options, e);
	if (code < 0) {
		o->report.trace = NULL;
		return code;
	}
	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		m.work[work] = events_of(t, schema_gpu_work[work]->id);
	code = choose_process(o, e);
	if (code >= 0 && make(&m) < 0)
		code = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_release(maps[i]);
	return code < 0 ? code : 0;
}

void launch_order_release(struct launch_order *o)
{
	for (size_t i = 0; i < o->threads.count; i++)
		vec_release(&o->threads.data[i].steps);
	for (size_t i = 0; i < o->streams.count; i++)
		vec_release(&o->streams.data[i].steps);
	vec_release(&o->threads);
	vec_release(&o->streams);
	vec_release(&o->allocations.steps);
	if (o->report.trace)
		report_release(&o->report);
}

/* --- one step --- */

void launch_step_text(const struct launch_order *o, const struct launch_step *s, struct strbuf *out)
{
	const struct task *task = task_at(o, s->task);
	const struct trace *t = o->report.trace;
	uint32_t row = task->row, config = TRACE_NO_ROW;
	struct row_kernel_config k;

	if (task->kind == GPU_WORK_kernel)
		config = kernel_columns(t)->config[row];
	if (config == TRACE_NO_ROW) {
		strbuf_adds(out, event_label(t, schema_gpu_work[task->kind]->id, row));
		if (task->kind == GPU_WORK_memcpy || task->kind == GPU_WORK_memset)
			sentence_add(out, WORDS(", "),
				     COUNTED_AS(task->kind == GPU_WORK_memcpy
							? memcpy_columns(t)->bytes[row]
							: memset_columns(t)->bytes[row],
						"byte"));
		return;
	}
	report_kernel_text(&o->report, config, false, out);
	trace_row(t, TABLE_kernel_config, config, &k);
	strbuf_addf(out, ", grid %u x %u x %u, block %u x %u x %u", k.grid_x, k.grid_y, k.grid_z,
		    k.block_x, k.block_y, k.block_z);
	if (k.static_shared_bytes + (uint64_t)k.dynamic_shared_bytes)
		sentence_add(out, WORDS(", "),
			     COUNTED_AS(k.static_shared_bytes + (uint64_t)k.dynamic_shared_bytes,
					"byte"),
			     WORDS(" shared"));
}

uint32_t launch_step_call(const struct launch_order *o, const struct launch_step *s)
{
	uint32_t launch = task_at(o, s->task)->launch;

	return launch == TASK_NONE ? TRACE_NO_ROW : task_at(o, launch)->row;
}

uint32_t launch_step_number(const struct launch_order *o, const struct launch_step *s)
{
	const struct task *task = task_at(o, s->task);
	const struct step *step =
		o->loop ? steps_at(o->report.steps, o->loop,
				   task->launch == TASK_NONE ? task->start_ns
							     : task_at(o, task->launch)->start_ns)
			: NULL;

	return step ? step->number : 0;
}
