/*
 * flame_gpu.c: adds GPU work to a flame graph: below the stack that launched it, the work is the
 * leaf.
 */
#include <errno.h>

#include "analysis/flame/flame_state.h"
#include "analysis/gpu_walk.h"
#include "schema/event_words.h"
#include "names/demangle.h"

/* One table of GPU work. */
struct work {
	struct event_columns columns;
	enum gpu_work kind;
	struct map frames; /* `distinction` -> frame */
};

int flame_load_work(struct flame_builder *b, struct error *e)
{
	struct trace *t = b->trace;
	unsigned roles = 1u << ROLE_LABEL | (b->captures_ready ? ROLES_GRAPH : 0);
	int rc = gpu_walk_load(t, e);

	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		rc = events_load(t, schema_gpu_work[i]->id, roles, e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_memcpy,
				COLUMN_BITS(memcpy, kind, source_kind, destination_kind), e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_graph_launch, COLUMN_BITS(graph_launch, graph), e);
	return rc;
}

uint32_t flame_kernel_frame(struct flame_builder *b, const char *name)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT, full = STRBUF_INIT;
	struct stacks *s = &b->flame->stacks;
	int64_t id;

	demangle(name, &full);
	if (s->detail == STACK_XPU_PERF)
		strbuf_addf(&shown, "[GPU_Kernel]%s", name);
	else
		kernel_name_text(name, s->full_names, &shown);
	if (shown.failed || full.failed)
		return FLAME_NONE;
	id = stacks_add_frame(s, FRAME_KERNEL, strbuf_text(&shown), strbuf_text(&full), name);
	return id < 0 ? FLAME_NONE : (uint32_t)id;
}

/* Number by which pieces of work are distinguished. */
static uint32_t distinction(const struct trace *t, const struct work *w, uint64_t row)
{
	const struct memcpy_columns *copies = memcpy_columns(t);

	if (w->kind == GPU_WORK_kernel)
		return kernel_columns(t)->config[row];
	if (w->kind == GPU_WORK_memcpy)
		return (uint32_t)copies->kind[row] << 16 | (uint32_t)copies->source_kind[row] << 8 |
		       copies->destination_kind[row];
	if (w->kind == GPU_WORK_graph_launch)
		return graph_launch_columns(t)->graph[row];
	return event_label_key(t, w->columns.table, row);
}

/* Makes the frame for rows with the same `distinction` as this one. */
static uint32_t make_leaf(struct flame_builder *b, const struct work *w, uint64_t row)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	const struct memcpy_columns *copies = memcpy_columns(b->trace);
	enum frame_class class = FRAME_KERNEL;
	uint32_t config;

	switch (w->kind) {
	case GPU_WORK_kernel:
		config = kernel_columns(b->trace)->config[row];
		if (config < trace_rows(b->trace, TABLE_kernel_config))
			return flame_kernel_frame(
				b, trace_string(b->trace,
						kernel_config_columns(b->trace)->name[config]));
		strbuf_adds(&name, "[unknown kernel]");
		break;
	case GPU_WORK_memcpy:
		class = FRAME_COPY;
		strbuf_addf(&name, "copy %s (%s to %s)",
			    event_value_name(TABLE_memcpy, COLUMN_memcpy_kind, copies->kind[row]),
			    event_value_name(TABLE_memcpy, COLUMN_memcpy_source_kind,
					     copies->source_kind[row]),
			    event_value_name(TABLE_memcpy, COLUMN_memcpy_destination_kind,
					     copies->destination_kind[row]));
		break;
	case GPU_WORK_memset:
		class = FRAME_SET;
		strbuf_addf(&name, "set (%s)", event_label(b->trace, TABLE_memset, row));
		break;
	case GPU_WORK_graph_launch:
		class = FRAME_GRAPH;
		strbuf_addf(&name, "graph %u", graph_launch_columns(b->trace)->graph[row]);
		break;
	default:
		strbuf_adds(&name, event_label(b->trace, w->columns.table, row));
		break;
	}
	return flame_text_frame(b, class, &name, NULL);
}

static uint32_t leaf_frame(struct flame_builder *b, struct work *w, uint64_t row)
{
	uint64_t *frame = map_at(&w->frames, distinction(b->trace, w, row), FLAME_NONE);

	if (frame && *frame == FLAME_NONE)
		*frame = make_leaf(b, w, row);
	return frame ? (uint32_t)*frame : FLAME_NONE;
}

/* Node of the graph, below the stack that captured the graph node, or FLAME_NOT_CAPTURED. */
static uint32_t captured(struct flame_builder *b, enum flame_kind kind,
			 const struct event_columns *c, size_t process, uint64_t row, uint32_t base)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t stack, node;

	if (!b->captures_ready || !c->graph_node || !column_has(c->graph_node_valid, row))
		return FLAME_NOT_CAPTURED;
	stack = graph_stacks_find(&b->captures, process, c->graph_node[row]);
	node = stack ? flame_capture(b, base, process, stack) : FLAME_NOT_CAPTURED;
	if (node == FLAME_NOT_CAPTURED)
		b->flame->sections[kind].uncaptured++;
	if (node == FLAME_NOT_CAPTURED || node == FLAME_NONE)
		return node;
	if (column_has(c->graph_valid, row))
		strbuf_addf(&name, "[in graph %u]", c->graph[row]);
	else
		strbuf_adds(&name, "[in a graph]");
	return flame_tree_child(&b->flame->tree, node,
				flame_text_frame(b, FRAME_GRAPH, &name, NULL));
}

uint32_t flame_unmatched(struct flame_builder *b, uint32_t base)
{
	int64_t none = stacks_add_frame(&b->flame->stacks, FRAME_NOTE, FLAME_NO_LAUNCH, NULL, NULL);

	return none < 0 ? FLAME_NONE : flame_tree_child(&b->flame->tree, base, (uint32_t)none);
}

uint32_t flame_launch(struct flame_builder *b, enum flame_kind kind, const struct event_columns *c,
		      size_t process, uint64_t row, uint32_t base, uint32_t call)
{
	struct flame_section *section = &b->flame->sections[kind];
	uint32_t node = captured(b, kind, c, process, row, base);

	if (node != FLAME_NOT_CAPTURED)
		return node;
	if (call != TRACE_NO_ROW)
		return flame_call(b, base, process, call);
	if (kind == FLAME_GPU) {
		section->unmatched++;
		section->unmatched_ns += c->end_ns[row] - c->start_ns[row];
	}
	return flame_unmatched(b, base);
}

static int add_row(struct flame_builder *b, struct work *w, size_t process, uint64_t row)
{
	uint32_t call = calls_launch(&b->calls, w->kind, row), leaf = leaf_frame(b, w, row), node;
	struct flame_event event = flame_event_of(b, process, call);
	uint64_t ns = w->columns.end_ns[row] - w->columns.start_ns[row];

	event.device = w->columns.device[row];
	event.stream = w->columns.stream[row];
	node = flame_base(b, FLAME_GPU, &event);
	node = flame_launch(b, FLAME_GPU, &w->columns, process, row, node, call);
	return flame_add_time(b, FLAME_GPU, flame_tree_child(&b->flame->tree, node, leaf), ns);
}

static bool in_scope(const struct flame_builder *b, const struct work *w, uint64_t row)
{
	return !b->scopes ||
	       scope_path_selected(
		       b->scopes,
		       nvtx_path_of_call(&b->ranges, calls_launch(&b->calls, w->kind, row)));
}

static int add_table(struct flame_builder *b, struct work *w)
{
	const struct event_columns *c = &w->columns;

	for (struct row_walk r = all_rows(b->trace, c->table); row_walk_next(&r);) {
		bool timed = event_is_timed(c, r.row);

		if (!flame_selects(b, c->table, r.row, timed, c->start_ns[r.row]) ||
		    !in_scope(b, w, r.row))
			continue;
		if (!timed)
			b->flame->sections[FLAME_GPU].untimed++;
		else if (add_row(b, w, r.process, r.row) < 0)
			return -ENOMEM;
	}
	return 0;
}

int flame_add_gpu(struct flame_builder *b, struct error *e)
{
	int rc = flame_load_work(b, e);

	for (enum gpu_work kind = 0; kind < GPU_WORK_KINDS && rc >= 0; kind++) {
		struct work w = { .columns = events_of(b->trace, schema_gpu_work[kind]->id),
				  .kind = kind };

		if (b->options->only_kernels && kind != GPU_WORK_kernel)
			continue;
		rc = add_table(b, &w);
		map_release(&w.frames);
	}
	return rc;
}
