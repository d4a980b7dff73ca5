/* flame_gpu.c: the work of GPUs in a flame graph: below the stack that asked for it, with itself as the leaf. */
#include <errno.h>

#include "analysis/flame/flame_build.h"
#include "analysis/gpu_walk.h"
#include "symbol/demangle.h"
#include "symbol/kernel_name.h"

/* The columns of one of gpu_tables. */
struct work {
	enum table_id table;
	size_t index; /* in gpu_tables */
	const uint64_t *starts, *ends;
	const uint8_t *starts_valid, *ends_valid;
	const uint32_t *devices, *streams;
	const uint64_t *nodes; /* of graphs; NULL: not wanted */
	const uint8_t *nodes_valid, *graphs_valid;
	const uint32_t *graphs;
	uint32_t *frames; /* kernels: by row of kernel_config, and one more for unknown ones */
	struct map other_frames; /* of what else: what tells them apart -> frame */
};

static int load_nodes(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_kernel,
			   COLUMN_BIT(kernel, graph_node) | COLUMN_BIT(kernel, graph), e);

	if (r >= 0)
		r = trace_load(t, TABLE_memcpy,
			       COLUMN_BIT(memcpy, graph_node) | COLUMN_BIT(memcpy, graph), e);
	if (r >= 0)
		r = trace_load(t, TABLE_memset,
			       COLUMN_BIT(memset, graph_node) | COLUMN_BIT(memset, graph), e);
	return r;
}

static int load(struct trace *t, bool captures, struct error *e)
{
	int r = gpu_walk_load(t, e);

	if (r >= 0 && captures)
		r = load_nodes(t, e);

	if (r >= 0)
		r = trace_load(t, TABLE_kernel, COLUMN_BIT(kernel, config), e);
	if (r >= 0)
		r = trace_load(t, TABLE_kernel_config, COLUMN_BIT(kernel_config, name), e);
	if (r >= 0)
		r = trace_load(t, TABLE_memcpy,
			       COLUMN_BIT(memcpy, kind) | COLUMN_BIT(memcpy, source_kind) |
				       COLUMN_BIT(memcpy, destination_kind),
			       e);
	if (r >= 0)
		r = trace_load(t, TABLE_memset, COLUMN_BIT(memset, memory_kind), e);
	if (r >= 0)
		r = trace_load(t, TABLE_graph_launch, COLUMN_BIT(graph_launch, graph), e);
	return r;
}

static int64_t make_kernel(struct stacks *s, const char *name)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT, full = STRBUF_INIT;

	demangle(name, &full);
	if (s->detail == STACK_XPU_PERF)
		strbuf_addf(&shown, "[GPU_Kernel]%s", name);
	else if (s->full_names)
		demangle(name, &shown);
	else
		kernel_name_short(name, &shown);
	if (shown.failed || full.failed)
		return -ENOMEM;
	return stacks_add_frame(s, FRAME_KERNEL, strbuf_text(&shown), strbuf_text(&full), name);
}

static uint32_t kernel_frame(struct flame_builder *b, struct work *w, uint64_t row)
{
	const uint32_t *names = trace_u32(b->trace, TABLE_kernel_config, COLUMN_kernel_config_name);
	uint64_t configs = trace_rows(b->trace, TABLE_kernel_config);
	uint64_t config =
		MIN(trace_u32(b->trace, TABLE_kernel, COLUMN_kernel_config)[row], configs);
	uint32_t *frame = &w->frames[config];

	if (*frame == FLAME_NONE) {
		int64_t id = config == configs ? stacks_add_frame(&b->flame->stacks, FRAME_KERNEL,
								  "[unknown kernel]", NULL, NULL)
					       : make_kernel(&b->flame->stacks,
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

/* What tells two pieces of work other than kernels apart, as a number. */
static uint32_t distinction(const struct flame_builder *b, const struct work *w, uint64_t row)
{
	const struct trace *t = b->trace;

	if (w->table == TABLE_memcpy)
		return (uint32_t)trace_u8(t, w->table, COLUMN_memcpy_kind)[row] << 16 |
		       (uint32_t)trace_u8(t, w->table, COLUMN_memcpy_source_kind)[row] << 8 |
		       trace_u8(t, w->table, COLUMN_memcpy_destination_kind)[row];
	if (w->table == TABLE_memset)
		return trace_u8(t, w->table, COLUMN_memset_memory_kind)[row];
	return trace_u32(t, w->table, COLUMN_graph_launch_graph)[row];
}

static int64_t make_other(struct flame_builder *b, const struct work *w, uint32_t what)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	enum frame_class class = FRAME_GRAPH;

	if (w->table == TABLE_memcpy) {
		class = FRAME_COPY;
		strbuf_addf(&name, "copy %s (%s to %s)",
			    value_name(w->table, COLUMN_memcpy_kind, (uint8_t)(what >> 16)),
			    value_name(w->table, COLUMN_memcpy_source_kind, (uint8_t)(what >> 8)),
			    value_name(w->table, COLUMN_memcpy_destination_kind, (uint8_t)what));
	} else if (w->table == TABLE_memset) {
		class = FRAME_SET;
		strbuf_addf(&name, "set (%s)",
			    value_name(w->table, COLUMN_memset_memory_kind, (uint8_t)what));
	} else {
		strbuf_addf(&name, "graph %u", what);
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

	if (w->table == TABLE_kernel)
		return kernel_frame(b, w, row);
	what = distinction(b, w, row);
	frame = map_at(&w->other_frames, what, FLAME_NONE);
	if (!frame)
		return FLAME_NONE;
	if (*frame == FLAME_NONE) {
		id = make_other(b, w, what);
		if (id < 0)
			return FLAME_NONE;
		*frame = (uint64_t)id;
	}
	return (uint32_t)*frame;
}

/* A frame for the graph below the stack that captured its node, or FLAME_NOT_CAPTURED. */
static uint32_t captured(struct flame_builder *b, const struct work *w, size_t process,
			 uint64_t row, uint32_t base)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t stack, node;
	int64_t frame;

	if (!w->nodes || (w->nodes_valid && !w->nodes_valid[row]))
		return FLAME_NOT_CAPTURED;
	stack = graph_stacks_find(&b->captures, process, w->nodes[row]);
	node = stack ? flame_capture(b, base, process, stack) : FLAME_NOT_CAPTURED;
	if (node == FLAME_NOT_CAPTURED)
		b->flame->sections[FLAME_GPU].uncaptured++;
	if (node == FLAME_NOT_CAPTURED || node == FLAME_NONE)
		return node;
	if (!w->graphs_valid || w->graphs_valid[row])
		strbuf_addf(&name, "[in graph %u]", w->graphs[row]);
	else
		strbuf_adds(&name, "[in a graph]");
	frame = name.failed ? -ENOMEM
			    : stacks_add_frame(&b->flame->stacks, FRAME_GRAPH, strbuf_text(&name),
					       NULL, NULL);
	return frame < 0 ? FLAME_NONE : flame_tree_child(&b->flame->tree, node, (uint32_t)frame);
}

/* Below the stack that asked for the work. */
static uint32_t asked_for(struct flame_builder *b, const struct work *w, size_t process,
			  uint64_t row, uint32_t base, uint32_t call)
{
	struct flame_section *section = &b->flame->sections[FLAME_GPU];
	uint32_t node = captured(b, w, process, row, base);
	int64_t none;

	if (node != FLAME_NOT_CAPTURED)
		return node;
	if (call != TRACE_NO_ROW)
		return flame_call(b, base, process, call);
	none = stacks_add_frame(&b->flame->stacks, FRAME_NOTE, "[no launch]", NULL, NULL);
	section->unmatched++;
	section->unmatched_ns += w->ends[row] - w->starts[row];
	return none < 0 ? FLAME_NONE : flame_tree_child(&b->flame->tree, base, (uint32_t)none);
}

static int add_row(struct flame_builder *b, struct work *w, size_t process, uint64_t row)
{
	uint32_t call = calls_launch(&b->calls, w->index, row), leaf = leaf_frame(b, w, row), node;
	struct flame_event event = flame_event_of(b, process, call);
	uint64_t ns = w->ends[row] - w->starts[row];

	event.device = w->devices[row];
	event.stream = w->streams[row];
	node = flame_base(b, FLAME_GPU, &event);
	if (leaf == FLAME_NONE || node == FLAME_NONE)
		return -ENOMEM;
	node = asked_for(b, w, process, row, node, call);
	if (node != FLAME_NONE)
		node = flame_tree_child(&b->flame->tree, node, leaf);
	return flame_book(b, FLAME_GPU, node, ns);
}

static int add_table(struct flame_builder *b, struct work *w)
{
	for (size_t p = 0; p < trace_process_count(b->trace); p++) {
		uint64_t row = trace_first_row(b->trace, w->table, p);
		uint64_t end = trace_first_row(b->trace, w->table, p + 1);

		for (; row < end; row++) {
			bool timed = (!w->starts_valid || w->starts_valid[row]) &&
				     (!w->ends_valid || w->ends_valid[row]) &&
				     w->ends[row] >= w->starts[row];

			if (!flame_wants(b, w->table, row, timed, w->starts[row]))
				continue;
			if (!timed)
				b->flame->sections[FLAME_GPU].untimed++;
			else if (add_row(b, w, p, row) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static struct work work_of(const struct trace *t, size_t index, bool captures)
{
	static const struct {
		int node, graph;
	} nodes[GPU_TABLES] = {
		{ COLUMN_kernel_graph_node, COLUMN_kernel_graph },
		{ COLUMN_memcpy_graph_node, COLUMN_memcpy_graph },
		{ COLUMN_memset_graph_node, COLUMN_memset_graph },
	};
	const struct gpu_columns *c = &gpu_columns[index];
	enum table_id table = gpu_tables[index];
	struct work w = {
		.table = table,
		.index = index,
		.starts = trace_u64(t, table, c->start),
		.ends = trace_u64(t, table, c->end),
		.starts_valid = trace_valid(t, table, c->start),
		.ends_valid = trace_valid(t, table, c->end),
		.devices = trace_u32(t, table, c->device),
		.streams = trace_u32(t, table, c->stream),
	};

	if (captures && table != TABLE_graph_launch) {
		w.nodes = trace_u64(t, table, nodes[index].node);
		w.nodes_valid = trace_valid(t, table, nodes[index].node);
		w.graphs = trace_u32(t, table, nodes[index].graph);
		w.graphs_valid = trace_valid(t, table, nodes[index].graph);
	}
	return w;
}

int flame_add_gpu(struct flame_builder *b, struct error *e)
{
	uint64_t configs;
	int r = load(b->trace, b->captures_ready, e);

	if (r < 0)
		return r;
	configs = trace_rows(b->trace, TABLE_kernel_config);
	for (size_t i = 0; i < GPU_TABLES && r >= 0; i++) {
		struct work w = work_of(b->trace, i, b->captures_ready);

		if (b->options->only_kernels && w.table != TABLE_kernel)
			continue;
		if (w.table == TABLE_kernel) {
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
