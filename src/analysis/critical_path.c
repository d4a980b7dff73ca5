#include "analysis/critical_path.h"

#include <stdlib.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "causes/cause_path.h"
#include "trace/columns.h"

const char *const path_class_names[] = {
	[PATH_KERNEL] = "kernel", [PATH_COPY] = "copy",       [PATH_MEMSET] = "memset",
	[PATH_GRAPH] = "graph",   [PATH_LAUNCH] = "launch",   [PATH_GAP] = "gap",
	[PATH_RETURN] = "return", [PATH_LATE] = "late",       [PATH_CALL] = "call",
	[PATH_HOST] = "host",     [PATH_UNKNOWN] = "unknown",
};

struct blame {
	const struct report *report;
	const struct causes *causes;
	struct critical_path *out;
	GROUPS(struct path_owner) owners;
};

static int add(struct blame *b, enum path_class class, uint32_t key, uint32_t config, uint64_t ns)
{
	struct path_owner *o;

	if (!ns)
		return 0;
	o = groups_at(&b->owners, (uint64_t) class << 32 | key, .class = (uint8_t) class,
		      .key = key, .config = config);
	if (!o)
		return -ENOMEM;
	o->ns += ns;
	o->count++;
	b->out->class_ns[class] += ns;
	return 0;
}

static int add_work(struct blame *b, const struct task *task, uint64_t ns)
{
	const struct kernel_config_columns *configs = kernel_config_columns(b->report->trace);
	uint32_t config;

	switch (task->kind) {
	case GPU_WORK_kernel:
		config = kernel_columns(b->report->trace)->config[task->row];
		return add(b, PATH_KERNEL, config == TRACE_NO_ROW ? 0 : configs->name[config],
			   config, ns);
	case GPU_WORK_memcpy:
		return add(b, PATH_COPY, memcpy_columns(b->report->trace)->kind[task->row], 0, ns);
	case GPU_WORK_memset:
		return add(b, PATH_MEMSET, 0, 0, ns);
	default:
		return add(b, PATH_GRAPH, task->kind, 0, ns);
	}
}

/* Host time belongs to the line of the call that ended it. */
static int add_host(struct blame *b, const struct task *call, uint64_t ns)
{
	uint32_t process = b->causes->lanes.data[call->lane].process;

	return add(b, PATH_HOST, callers_of_call(&b->report->callers, process, call->row), 0, ns);
}

/* The usual latency belongs to the edge. The rest is late, or, without a known call, unknown. */
static int add_latency(struct blame *b, const struct path_piece *piece, const struct task *task,
		       uint64_t ns)
{
	uint64_t usual = MIN(ns, b->causes->typical_ns[piece->edge]);
	enum path_class class = task->kind == TASK_CALL      ? PATH_RETURN
				: piece->edge == EDGE_launch ? PATH_LAUNCH
							     : PATH_GAP;
	bool is_known = task->kind != GPU_WORK_kernel || task->launch != TASK_NONE;
	int code = add(b, class, piece->edge, 0, usual);

	return code < 0 ? code
			: add(b, is_known ? PATH_LATE : PATH_UNKNOWN, is_known ? piece->edge : 0, 0,
			      ns - usual);
}

static int add_piece(struct blame *b, const struct path_piece *piece)
{
	uint64_t ns = piece->end_ns - piece->start_ns;
	const struct task *task =
		piece->task == TASK_NONE ? NULL : &b->causes->tasks.data[piece->task];

	switch (task ? (enum piece_kind)piece->kind : PIECE_UNKNOWN) {
	case PIECE_WORK:
		b->out->path_work_ns += ns;
		return add_work(b, task, ns);
	case PIECE_CALL:
		return add(b, PATH_CALL, b->report->calls.functions[task->row], 0, ns);
	case PIECE_HOST:
		return add_host(b, task, ns);
	case PIECE_LATENCY:
		return add_latency(b, piece, task, ns);
	default:
		return add(b, PATH_UNKNOWN, 0, 0, ns);
	}
}

/* From the first to the last event of the report's window. */
static void find_window(const struct report *r, const struct causes *c, struct critical_path *out)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0;

	for (size_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];

		if (!r->selection.processes[c->lanes.data[task->lane].process])
			continue;
		start_ns = MIN(start_ns, task->start_ns);
		end_ns = MAX(end_ns, task->end_ns);
	}
	start_ns = MAX(start_ns, r->start_ns);
	end_ns = MIN(end_ns, r->end_ns);
	out->start_ns = start_ns;
	out->window_ns = end_ns > start_ns ? end_ns - start_ns : 0;
}

static int measure_slack(struct blame *b, const struct path *p)
{
	const struct causes *c = b->causes;
	uint64_t end_ns = b->out->start_ns + b->out->window_ns;
	_cleanup_free_ uint32_t *slack = causes_slack(c, end_ns);

	if (!slack)
		return -ENOMEM;
	for (size_t i = 0; i < p->pieces.count; i++) /* what is on the path does not count again */
		if (p->pieces.data[i].kind == PIECE_WORK)
			slack[p->pieces.data[i].task] = UINT32_MAX;
	for (size_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];
		uint64_t ns = task->end_ns - task->start_ns;

		if (!task_is_work(task) || task->start_ns < b->out->start_ns ||
		    task->start_ns >= end_ns ||
		    !b->report->selection.processes[c->lanes.data[task->lane].process])
			continue;
		b->out->work_ns += ns;
		b->out->tight_ns += slack[i] < CRITICAL_TIGHT_NS ? ns : 0;
	}
	return 0;
}

static int add_edges(const struct causes *c, struct critical_path *out)
{
	out->edges = calloc(EDGE_KINDS, sizeof(*out->edges));
	if (!out->edges)
		return -ENOMEM;
	for (unsigned k = 1; k < EDGE_KINDS; k++) {
		if (!c->counts[k])
			continue;
		out->edges[out->edge_count++] =
			(struct path_edges){ c->counts[k], c->contradictions[k], c->typical_ns[k],
					     edge_kind_names[k] };
		out->contradictions += c->contradictions[k];
	}
	out->contradiction_ns = c->contradiction_ns;
	out->unknown = c->unknown;
	out->tasks = causes_task_count(c);
	return 0;
}

ORDER(longest_first, struct path_owner, DOWN(ns) ?: UP(class) ?: UP(key))

static int find_path(struct blame *b)
{
	struct critical_path *out = b->out;
	struct path path;
	int code = path_find(&path, b->causes, b->report->selection.processes, out->start_ns,
			     out->start_ns + out->window_ns);

	for (size_t i = 0; i < path.pieces.count && code >= 0; i++)
		code = add_piece(b, &path.pieces.data[i]);
	if (code >= 0)
		code = measure_slack(b, &path);
	path_release(&path);
	return code;
}

static int run(struct report *r, void *result)
{
	struct critical_path *out = result;
	struct blame b = { .report = r, .causes = &r->causes, .out = out };
	int code;

	if (!r->options.critical_path)
		return 0;
	find_window(r, b.causes, out);
	code = out->window_ns ? find_path(&b) : 0;
	groups_take(&b.owners, longest_first, &out->owners, &out->owner_count);
	if (code >= 0)
		code = add_edges(b.causes, out);
	return code;
}

static void release(void *result)
{
	struct critical_path *out = result;

	free(out->owners);
	free(out->edges);
}

const struct analysis analysis_critical_path = {
	.size = sizeof(struct critical_path),
	.needs = { { TABLE_kernel, COLUMN_BITS(kernel, config) },
		   { TABLE_kernel_config, 0 },
		   { TABLE_memcpy, COLUMN_BITS(memcpy, kind) } },
	.run = run,
	.release = release,
};
