/*
 * flame_samples.c: adds CPU samples and times off the CPU to a flame graph.
 */
#include <errno.h>

#include "analysis/flame/flame_build.h"

/* The columns of cpu_sample or off_cpu. */
struct samples {
	enum flame_kind kind;
	enum table_id table;
	const uint64_t *times;
	const uint64_t *weights; /* cpu_sample: ns */
	const uint64_t *ends; /* off_cpu */
	const uint8_t *states; /* off_cpu */
	const uint32_t *threads, *stacks;
	const uint8_t *stacks_valid;
	uint32_t state_frames[5]; /* of enum off_cpu_state */
};

static const char *const state_names[5] = {
	[off_cpu_state_unknown] = "[not running]",
	[off_cpu_state_sleeping] = "[sleeping]",
	[off_cpu_state_uninterruptible] = "[uninterruptible]",
	[off_cpu_state_runnable] = "[waiting for a processor]",
	[off_cpu_state_stopped] = "[stopped]",
};

static struct samples cpu_samples(const struct trace *t)
{
	return (struct samples){
		.kind = FLAME_CPU,
		.table = TABLE_cpu_sample,
		.times = trace_u64(t, TABLE_cpu_sample, COLUMN_cpu_sample_time_ns),
		.weights = trace_u64(t, TABLE_cpu_sample, COLUMN_cpu_sample_weight_ns),
		.threads = trace_u32(t, TABLE_cpu_sample, COLUMN_cpu_sample_thread),
		.stacks = trace_u32(t, TABLE_cpu_sample, COLUMN_cpu_sample_stack),
		.stacks_valid = trace_valid(t, TABLE_cpu_sample, COLUMN_cpu_sample_stack),
	};
}

static struct samples off_cpu_times(const struct trace *t)
{
	return (struct samples){
		.kind = FLAME_OFF_CPU,
		.table = TABLE_off_cpu,
		.times = trace_u64(t, TABLE_off_cpu, COLUMN_off_cpu_start_ns),
		.ends = trace_u64(t, TABLE_off_cpu, COLUMN_off_cpu_end_ns),
		.states = trace_u8(t, TABLE_off_cpu, COLUMN_off_cpu_state),
		.threads = trace_u32(t, TABLE_off_cpu, COLUMN_off_cpu_thread),
		.stacks = trace_u32(t, TABLE_off_cpu, COLUMN_off_cpu_stack),
		.stacks_valid = trace_valid(t, TABLE_off_cpu, COLUMN_off_cpu_stack),
	};
}

static uint64_t weight_of(const struct samples *s, uint64_t row)
{
	if (s->weights)
		return s->weights[row];
	return s->ends[row] > s->times[row] ? s->ends[row] - s->times[row] : 0;
}

/* Adds the state of a thread that is off the CPU, below its stack. */
static uint32_t add_state(struct flame_builder *b, struct samples *s, uint64_t row, uint32_t node)
{
	unsigned state = s->states[row] < ARRAY_SIZE(state_names) ? s->states[row] : 0;

	if (!s->state_frames[state]) {
		int64_t id = stacks_add_frame(&b->flame->stacks, FRAME_NOTE, state_names[state],
					      NULL, NULL);

		if (id < 0)
			return FLAME_NONE;
		s->state_frames[state] = (uint32_t)id;
	}
	return flame_tree_child(&b->flame->tree, node, s->state_frames[state]);
}

static int add_row(struct flame_builder *b, struct samples *s, size_t process,
		   struct nvtx_cursor *ranges, uint64_t row)
{
	struct flame_event event = {
		.process = flame_process(b, process),
		.thread = s->threads[row],
		.device = UINT32_MAX,
		.stream = UINT32_MAX,
		.scope = SCOPE_NONE,
	};
	uint64_t ns = weight_of(s, row);
	bool has_stack = !s->stacks_valid || s->stacks_valid[row];
	uint32_t node, range;

	if (b->ranges_ready) {
		if (nvtx_cursor_at(ranges, event.process, event.thread, s->times[row], &range) < 0)
			return -ENOMEM;
		event.scope = nvtx_path(&b->ranges, range);
	}
	if (!scope_path_selected(b->scopes, event.scope))
		return 0;
	node = flame_sample(b, flame_base(b, s->kind, &event), process,
			    has_stack ? s->stacks[row] : 0, event.thread,
			    &b->flame->sections[s->kind].stackless);
	if (s->states)
		node = add_state(b, s, row, node);
	return flame_add_time(b, s->kind, node, ns);
}

int flame_add_samples(struct flame_builder *b, enum flame_kind kind, struct error *e)
{
	enum table_id table = kind == FLAME_CPU ? TABLE_cpu_sample : TABLE_off_cpu;
	struct nvtx_cursor ranges = { .ranges = &b->ranges };
	struct samples s;
	int r = trace_load(b->trace, table, 0, e);

	if (r < 0)
		return r;
	s = kind == FLAME_CPU ? cpu_samples(b->trace) : off_cpu_times(b->trace);
	for (struct row_walk w = all_rows(b->trace, table); r >= 0 && row_walk_next(&w);)
		if (flame_selects(b, table, w.row, true, s.times[w.row]))
			r = add_row(b, &s, w.process, &ranges, w.row);
	map_release(&ranges.last);
	return r;
}
