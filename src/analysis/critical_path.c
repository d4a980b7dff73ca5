#include "analysis/critical_path.h"

#include <stdlib.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "causes/simulate.h"
#include "names/demangle.h"
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

struct path_place path_place_of_work(const struct report *r, const struct task *task)
{
	uint32_t config;

	switch (task->kind) {
	case GPU_WORK_kernel:
		config = kernel_columns(r->trace)->config[task->row];
		return (struct path_place){ PATH_KERNEL,
					    config == TRACE_NO_ROW
						    ? 0
						    : kernel_config_columns(r->trace)->name[config],
					    config };
	case GPU_WORK_memcpy:
		return (struct path_place){ PATH_COPY, memcpy_columns(r->trace)->kind[task->row],
					    0 };
	case GPU_WORK_memset:
		return (struct path_place){ PATH_MEMSET, 0, 0 };
	default:
		return (struct path_place){ PATH_GRAPH, task->kind, 0 };
	}
}

struct path_place path_place_of_call(const struct report *r, const struct task *call)
{
	return (struct path_place){ PATH_CALL, r->calls.functions[call->row], 0 };
}

/* Host time belongs to the line of the call that ended it, if no calls are missing in between. */
struct path_place path_place_of_host(const struct report *r, const struct task *call)
{
	uint32_t process = r->causes.lanes.data[call->lane].process;

	if (call->flags & TASK_UNKNOWN_HOST)
		return (struct path_place){ PATH_UNKNOWN, 0, 0 };
	return (struct path_place){ PATH_HOST, callers_of_call(&r->callers, process, call->row),
				    0 };
}

void path_place_text(const struct report *r, struct path_place p, bool full, struct strbuf *out)
{
	const char *name;
	size_t length;

	switch (p.class) {
	case PATH_KERNEL:
		if (p.config == TRACE_NO_ROW)
			strbuf_adds(out, "(unknown kernel)");
		else
			kernel_name_text(trace_string(r->trace, p.key), full, out);
		break;
	case PATH_COPY:
		name = schema_value_name(&schema_table(TABLE_memcpy)->columns[COLUMN_memcpy_kind],
					 p.key);
		strbuf_addf(out, "copy %s", name ? name : "?");
		break;
	case PATH_MEMSET:
		strbuf_adds(out, "memory set");
		break;
	case PATH_GRAPH:
		strbuf_adds(out, "graph");
		break;
	case PATH_CALL:
		name = calls_function_name(r->trace, p.key, &length);
		strbuf_add(out, name, length);
		break;
	case PATH_HOST:
		strbuf_adds(out, "host before ");
		caller_text(&r->callers, p.key, CALLER_NONE, out);
		break;
	case PATH_UNKNOWN:
		strbuf_adds(out, "unknown");
		break;
	default:
		strbuf_addf(out, "%s%s", p.class == PATH_LATE ? "longer than usual: " : "",
			    edge_kind_texts[p.key]);
		break;
	}
}

static struct path_place place_of_latency(const struct task *task, enum edge_kind edge)
{
	return (struct path_place){ task->kind == TASK_CALL ? PATH_RETURN
				    : edge == EDGE_launch   ? PATH_LAUNCH
							    : PATH_GAP,
				    edge, 0 };
}

/*
 * Until it returned, a long launch is the reason, and then the usual latency belongs to the edge.
 * The rest is late; of work without a known call, or that may have waited for an event of which the
 * stream is unknown, it is unknown.
 */
static void share_latency(const struct report *r, const struct path_piece *piece,
			  struct path_share shares[PATH_SHARES])
{
	const struct causes *c = &r->causes;
	const struct task *task = &c->tasks.data[piece->task], *launch;
	uint64_t start_ns = piece->start_ns, ns, usual;
	bool is_known = task->kind == TASK_CALL ||
			(!c->unknown.stream_waits &&
			 (task->kind != GPU_WORK_kernel || task->launch != TASK_NONE));

	if (piece->edge == EDGE_launch && task->launch != TASK_NONE &&
	    c->tasks.data[task->launch].flags & TASK_LONG_LAUNCH) {
		launch = &c->tasks.data[task->launch];
		start_ns = MIN(MAX(launch->end_ns, start_ns), piece->end_ns);
		shares[2] = (struct path_share){ path_place_of_call(r, launch),
						 start_ns - piece->start_ns };
	}
	ns = piece->end_ns - start_ns;
	usual = MIN(ns, c->typical_ns[piece->edge]);
	shares[0] = (struct path_share){ place_of_latency(task, piece->edge), usual };
	shares[1] = (struct path_share){
		{ is_known ? PATH_LATE : PATH_UNKNOWN, is_known ? piece->edge : 0, 0 }, ns - usual
	};
}

unsigned path_shares(const struct report *r, const struct path_piece *piece,
		     struct path_share shares[PATH_SHARES])
{
	uint64_t ns = piece->end_ns - piece->start_ns;
	const struct task *task =
		piece->task == TASK_NONE ? NULL : &r->causes.tasks.data[piece->task];
	unsigned count = 0;

	shares[0] = (struct path_share){ { PATH_UNKNOWN, 0, 0 }, ns };
	shares[1] = shares[2] = (struct path_share){ 0 };
	switch (task ? (enum piece_kind)piece->kind : PIECE_UNKNOWN) {
	case PIECE_WORK:
		shares[0].place = path_place_of_work(r, task);
		break;
	case PIECE_CALL:
		shares[0].place = path_place_of_call(r, task);
		break;
	case PIECE_HOST:
		shares[0].place = path_place_of_host(r, task);
		break;
	case PIECE_LATENCY:
		share_latency(r, piece, shares);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < PATH_SHARES; i++)
		if (shares[i].ns)
			shares[count++] = shares[i];
	return count;
}

static int add_piece(struct blame *b, const struct path_piece *piece)
{
	struct path_share shares[PATH_SHARES];
	unsigned count = path_shares(b->report, piece, shares);

	if (piece->kind == PIECE_WORK)
		b->out->path_work_ns += piece->end_ns - piece->start_ns;
	for (unsigned i = 0; i < count; i++) {
		struct path_place p = shares[i].place;
		struct path_owner *o = groups_at(&b->owners, path_place_id(p), .place = p,
						 .potential_ns = CRITICAL_UNKNOWN);

		if (!o)
			return -ENOMEM;
		o->ns += shares[i].ns;
		o->count++;
		b->out->class_ns[p.class] += shares[i].ns;
	}
	return 0;
}

/* Of the report's window, from the first event to the end of the last that can end a path. */
static void find_window(const struct report *r, const struct causes *c, struct critical_path *out)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0, any_ns = 0;

	for (uint32_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];

		if (!r->selection.processes[c->lanes.data[task->lane].process] ||
		    task->start_ns >= r->end_ns)
			continue;
		start_ns = MIN(start_ns, task->start_ns);
		any_ns = MAX(any_ns, task->end_ns);
		if (task->end_ns > end_ns && path_can_end(c, i))
			end_ns = task->end_ns;
	}
	start_ns = MAX(start_ns, r->start_ns);
	end_ns = MIN(end_ns > start_ns ? end_ns : any_ns, r->end_ns);
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
	return 0;
}

ORDER(longest_first, struct path_owner, DOWN(ns) ?: UP(place.class) ?: UP(place.key))

static int find_path(struct blame *b)
{
	struct critical_path *out = b->out;
	struct path path;
	int code = path_find(&path, b->causes, b->report->selection.processes, out->start_ns,
			     out->start_ns + out->window_ns);

	for (size_t i = 0; i < path.pieces.count && code >= 0; i++)
		code = add_piece(b, &path.pieces.data[i]);
	for (size_t i = path.pieces.count; i-- > 0;) /* the last one with a task is the first */
		if (path.pieces.data[i].task != TASK_NONE) {
			const struct task *task = &b->causes->tasks.data[path.pieces.data[i].task];

			out->process = b->causes->lanes.data[task->lane].process;
			break;
		}
	if (code >= 0)
		code = measure_slack(b, &path);
	path_release(&path);
	return code;
}

/* --- potentials --- */

struct removal {
	const struct blame *blame;
	const struct path_owner *owner; /* NULL: nothing is removed */
};

static bool owns(const struct path_owner *o, struct path_place p)
{
	return path_place_id(o->place) == path_place_id(p);
}

static uint64_t cost_without(void *user, enum cost_of what, uint32_t index, enum edge_kind edge,
			     uint64_t recorded_ns)
{
	const struct removal *x = user;
	const struct causes *c = x->blame->causes;
	const struct task *task = &c->tasks.data[index];
	uint64_t usual = MIN(recorded_ns, c->typical_ns[edge]);

	if (!x->owner || task->start_ns < x->blame->out->start_ns)
		return recorded_ns;
	switch (what) {
	case COST_WORK:
		return task_is_work(task) &&
				       owns(x->owner, path_place_of_work(x->blame->report, task))
			       ? 0
			       : recorded_ns;
	case COST_CALL:
		return owns(x->owner, path_place_of_call(x->blame->report, task)) ? 0 : recorded_ns;
	case COST_HOST:
		return owns(x->owner, path_place_of_host(x->blame->report, task)) ? 0 : recorded_ns;
	case COST_LATENCY:
		if (owns(x->owner, (struct path_place){ PATH_LATE, edge, 0 }))
			return usual;
		return owns(x->owner, place_of_latency(task, edge)) ? recorded_ns - usual
								    : recorded_ns;
	}
	return recorded_ns;
}

#define POTENTIALS_MAX 10u
#define POTENTIAL_TASKS_MAX 4000000u /* each simulation of more takes half a second and longer */

/* Number of threads that make calls in the window. */
static int count_threads(const struct blame *b)
{
	const struct causes *c = b->causes;
	_cleanup_free_ uint8_t *seen = calloc(c->lanes.count + 1, 1);
	uint64_t end_ns = b->out->start_ns + b->out->window_ns;

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];

		if (task->kind == TASK_CALL && !seen[task->lane] && task->start_ns < end_ns &&
		    task->end_ns > b->out->start_ns)
			b->out->threads += seen[task->lane] = 1;
	}
	return 0;
}

/* Whether several threads of a selected process make calls side by side. */
static bool is_beside(const struct blame *b, const uint8_t *beside)
{
	bool any = false;

	for (size_t p = 0; p < trace_process_count(b->report->trace); p++)
		any |= b->report->selection.processes[p] && beside[p];
	return any && b->out->threads > 1;
}

/* Of the first owners. */
static int simulate_owners(const struct blame *b, const uint32_t *turns, const uint8_t *beside)
{
	struct critical_path *out = b->out;
	struct removal x = { .blame = b };
	struct simulation s = {
		.causes = b->causes, .cost = cost_without, .user = &x, .turns = turns
	};
	uint64_t end_ns = out->start_ns + out->window_ns,
		 same_ns = simulate(s, out->start_ns, end_ns), last_ns = out->start_ns;

	for (size_t i = 0; i < causes_task_count(b->causes); i++)
		if (b->causes->tasks.data[i].start_ns >= out->start_ns &&
		    b->causes->tasks.data[i].end_ns <= end_ns)
			last_ns = MAX(last_ns, b->causes->tasks.data[i].end_ns);
	if (same_ns == UINT64_MAX || count_threads(b) < 0)
		return -ENOMEM;
	out->identity_ns = MAX(same_ns, last_ns) - MIN(same_ns, last_ns);
	out->beside = is_beside(b, beside);
	if (out->beside || causes_task_count(b->causes) > POTENTIAL_TASKS_MAX)
		return 0;
	for (size_t i = 0; i < MIN(out->owner_count, POTENTIALS_MAX); i++) {
		uint64_t without_ns;

		x.owner = &out->owners[i];
		if (x.owner->place.class == PATH_UNKNOWN)
			continue;
		without_ns = simulate(s, out->start_ns, end_ns);
		if (without_ns == UINT64_MAX)
			return -ENOMEM;
		out->owners[i].potential_ns = same_ns - MIN(without_ns, same_ns);
	}
	return 0;
}

static int find_potentials(const struct blame *b)
{
	_cleanup_free_ uint8_t *beside = calloc(trace_process_count(b->report->trace) + 1, 1);
	_cleanup_free_ uint32_t *turns = beside ? causes_turns(b->causes, beside) : NULL;

	return turns ? simulate_owners(b, turns, beside) : -ENOMEM;
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
	if (code >= 0 && out->window_ns)
		code = find_potentials(&b);
	return code;
}

const struct analysis analysis_critical_path = {
	.size = sizeof(struct critical_path),
	.needs = { { TABLE_kernel, COLUMN_BITS(kernel, config) },
		   { TABLE_kernel_config, 0 },
		   { TABLE_memcpy, COLUMN_BITS(memcpy, kind) } },
	.run = run,
	.owned = { OWNS(struct critical_path, owners), OWNS(struct critical_path, edges) },
};
