/*
 * flame_gpu.c: adds GPU work to a flame graph: below the stack that launched it, the work is the
 * leaf.
 */
#include <errno.h>

#include "analysis/flame/flame_build.h"
#include "analysis/gpu_walk.h"
#include "symbol/demangle.h"

/* One table of GPU work. */
struct work {
	struct event_columns columns;
	enum gpu_work kind;
	uint32_t *frames; /* of kernels: by row of kernel_config, plus one for unknown rows */
	struct map other_frames; /* of other work: `distinction` -> frame */
};

int flame_load_work(struct flame_builder *b, struct error *e)
{
	struct trace *t = b->trace;
	unsigned roles = 1u << ROLE_LABEL | (b->captures_ready ? ROLES_GRAPH : 0);
	int r = gpu_walk_load(t, e);

	for (size_t i = 0; i < GPU_WORK_KINDS && r >= 0; i++)
		r = events_load(t, schema_gpu_work[i]->id, roles, e);
	if (r >= 0)
		r = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	if (r >= 0)
		r = trace_load(t, TABLE_memcpy,
			       COLUMN_BITS(memcpy, kind, source_kind, destination_kind), e);
	if (r >= 0)
		r = trace_load(t, TABLE_graph_launch, COLUMN_BITS(graph_launch, graph), e);
	return r;
}

int64_t flame_kernel_frame(struct stacks *s, const char *name)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT, full = STRBUF_INIT;

	demangle(name, &full);
	if (s->detail == STACK_XPU_PERF)
		strbuf_addf(&shown, "[GPU_Kernel]%s", name);
	else
		kernel_name_text(name, s->full_names, &shown);
	if (shown.failed || full.failed)
		return -ENOMEM;
	return stacks_add_frame(s, FRAME_KERNEL, strbuf_text(&shown), strbuf_text(&full), name);
}

static uint32_t kernel_frame(struct flame_builder *b, struct work *w, uint64_t row)
{
	const uint32_t *names = kernel_config_columns(b->trace)->name;
	uint64_t configs = trace_rows(b->trace, TABLE_kernel_config);
	uint64_t config = MIN(kernel_columns(b->trace)->config[row], configs);
	uint32_t *frame = &w->frames[config];

	if (*frame == FLAME_NONE) {
		int64_t id = config == configs
				     ? stacks_add_frame(&b->flame->stacks, FRAME_KERNEL,
							"[unknown kernel]", NULL, NULL)
				     : flame_kernel_frame(&b->flame->stacks,
							  trace_string(b->trace, names[config]));

		if (id < 0)
			return FLAME_NONE;
		*frame = (uint32_t)id;
	}
	return *frame;
}

static const char *value_name(enum table_id table, int column, uint8_t value)
{
	const char *name = schema_value_name(&schema_table(table)->columns[column], value);

	return name ? name : "unknown";
}

/* Number by which pieces of work other than kernels are distinguished. */
static uint32_t distinction(const struct trace *t, const struct work *w, uint64_t row)
{
	const struct memcpy_columns *copies = memcpy_columns(t);

	if (w->kind == GPU_WORK_memcpy)
		return (uint32_t)copies->kind[row] << 16 | (uint32_t)copies->source_kind[row] << 8 |
		       copies->destination_kind[row];
	if (w->kind == GPU_WORK_graph_launch)
		return graph_launch_columns(t)->graph[row];
	return event_label_key(t, w->columns.table, row);
}

/* Makes the frame for rows with the same `distinction` as this one. */
static int64_t make_other(struct flame_builder *b, const struct work *w, uint64_t row)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	const struct memcpy_columns *copies = memcpy_columns(b->trace);
	enum frame_class class = FRAME_KERNEL;

	switch (w->kind) {
	case GPU_WORK_memcpy:
		class = FRAME_COPY;
		strbuf_addf(&name, "copy %s (%s to %s)",
			    value_name(TABLE_memcpy, COLUMN_memcpy_kind, copies->kind[row]),
			    value_name(TABLE_memcpy, COLUMN_memcpy_source_kind,
				       copies->source_kind[row]),
			    value_name(TABLE_memcpy, COLUMN_memcpy_destination_kind,
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
	if (name.failed)
		return -ENOMEM;
	return stacks_add_frame(&b->flame->stacks, class, strbuf_text(&name), NULL, NULL);
}

static uint32_t leaf_frame(struct flame_builder *b, struct work *w, uint64_t row)
{
	uint32_t what;
	uint64_t *frame;
	int64_t id;

	if (w->kind == GPU_WORK_kernel)
		return kernel_frame(b, w, row);
	what = distinction(b->trace, w, row);
	frame = map_at(&w->other_frames, what, FLAME_NONE);
	if (!frame)
		return FLAME_NONE;
	if (*frame == FLAME_NONE) {
		id = make_other(b, w, row);
		if (id < 0)
			return FLAME_NONE;
		*frame = (uint64_t)id;
	}
	return (uint32_t)*frame;
}

/* Node of the graph, below the stack that captured the graph node, or FLAME_NOT_CAPTURED. */
static uint32_t captured(struct flame_builder *b, enum flame_kind kind,
			 const struct event_columns *c, size_t process, uint64_t row, uint32_t base)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t stack, node;
	int64_t frame;

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
	frame = name.failed ? -ENOMEM
			    : stacks_add_frame(&b->flame->stacks, FRAME_GRAPH, strbuf_text(&name),
					       NULL, NULL);
	return frame < 0 ? FLAME_NONE : flame_tree_child(&b->flame->tree, node, (uint32_t)frame);
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
	if (leaf == FLAME_NONE || node == FLAME_NONE)
		return -ENOMEM;
	node = flame_launch(b, FLAME_GPU, &w->columns, process, row, node, call);
	if (node != FLAME_NONE)
		node = flame_tree_child(&b->flame->tree, node, leaf);
	return flame_add_time(b, FLAME_GPU, node, ns);
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

	for (size_t p = 0; p < trace_process_count(b->trace); p++) {
		uint64_t row = trace_first_row(b->trace, c->table, p);
		uint64_t end = trace_first_row(b->trace, c->table, p + 1);

		for (; row < end; row++) {
			bool timed = event_is_timed(c, row);

			if (!flame_selects(b, c->table, row, timed, c->start_ns[row]) ||
			    !in_scope(b, w, row))
				continue;
			if (!timed)
				b->flame->sections[FLAME_GPU].untimed++;
			else if (add_row(b, w, p, row) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

int flame_add_gpu(struct flame_builder *b, struct error *e)
{
	uint64_t configs;
	int r = flame_load_work(b, e);

	if (r < 0)
		return r;
	configs = trace_rows(b->trace, TABLE_kernel_config);
	for (enum gpu_work kind = 0; kind < GPU_WORK_KINDS && r >= 0; kind++) {
		struct work w = { .columns = events_of(b->trace, schema_gpu_work[kind]->id),
				  .kind = kind };

		if (b->options->only_kernels && kind != GPU_WORK_kernel)
			continue;
		if (kind == GPU_WORK_kernel) {
			w.frames = malloc((configs + 1) * sizeof(*w.frames));
			for (uint64_t k = 0; w.frames && k <= configs; k++)
				w.frames[k] = FLAME_NONE;
			r = w.frames ? 0 : -ENOMEM;
		}
		if (r >= 0)
			r = add_table(b, &w);
		free(w.frames);
		map_release(&w.other_frames);
	}
	return r;
}
