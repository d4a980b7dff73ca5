/*
 * flame_samples.c: adds CPU samples and times off the CPU to a flame graph.
 */
#include <errno.h>

#include "analysis/cpu_moments.h"
#include "analysis/flame/flame_state.h"

struct adding {
	struct flame_builder *builder;
	enum flame_kind kind;
	struct nvtx_cursor ranges;
	uint32_t state_frames[OFF_CPU_STATES];
};

/* Adds the state of a thread that is off the CPU, below its stack. */
static uint32_t add_state(struct adding *a, unsigned state, uint32_t node)
{
	struct flame *f = a->builder->flame;

	if (!a->state_frames[state]) {
		int64_t id =
			stacks_add_frame(&f->stacks, FRAME_NOTE, off_cpu_note(state), NULL, NULL);

		if (id < 0)
			return FLAME_NONE;
		a->state_frames[state] = (uint32_t)id;
	}
	return flame_tree_child(&f->tree, node, a->state_frames[state]);
}

static int add_moment(struct adding *a, const struct cpu_moment *m)
{
	struct flame_builder *b = a->builder;
	struct flame_event event = {
		.process = flame_process(b, m->process),
		.thread = m->thread,
		.device = UINT32_MAX,
		.stream = UINT32_MAX,
		.scope = SCOPE_NONE,
	};
	uint32_t node, range;

	if (b->ranges_ready) {
		if (nvtx_cursor_at(&a->ranges, event.process, event.thread, m->start_ns, &range) <
		    0)
			return -ENOMEM;
		event.scope = nvtx_path(&b->ranges, range);
	}
	if (!scope_path_selected(b->scopes, event.scope))
		return 0;
	node = flame_sample(b, flame_base(b, a->kind, &event), m->process, m->stack, event.thread,
			    &b->flame->sections[a->kind].stackless);
	if (a->kind == FLAME_OFF_CPU)
		node = add_state(a, m->state, node);
	return flame_add_time(b, a->kind, node, m->weight_ns);
}

int flame_add_samples(struct flame_builder *b, enum flame_kind kind, struct error *e)
{
	enum table_id table = kind == FLAME_CPU ? TABLE_cpu_sample : TABLE_off_cpu;
	struct adding a = { .builder = b, .kind = kind, .ranges.ranges = &b->ranges };
	int rc = trace_load(b->trace, table, 0, e);

	for (struct row_walk w = all_rows(b->trace, table); rc >= 0 && row_walk_next(&w);) {
		struct cpu_moment m = cpu_moment_of(b->trace, table, w.process, w.row);

		if (flame_selects(b, table, w.row, true, m.start_ns))
			rc = add_moment(&a, &m);
	}
	map_release(&a.ranges.last);
	return rc;
}
