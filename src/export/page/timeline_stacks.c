/*
 * timeline_stacks.c: call stacks of the timeline page, and its flame charts of CPU samples.
 *
 * A sample represents the time of its weight before it. Frames that consecutive samples of a thread
 * have in common are one slice, unless the thread paused for more than half of the weight. Only the
 * end of a run of samples ends its frames, so each row is written in the order of its slices.
 */
#include <errno.h>
#include <string.h>

#include "export/page/timeline.h"

/* Of a flame chart; below it, the last row shows the innermost frame. */
#define CHART_ROWS 24u
enum { LANE_OFF_CPU, LANE_FRAMES };

/* --- nodes --- */

static int64_t add_node(struct timeline *t, uint64_t parent, uint32_t frame, uint32_t line)
{
	const char *name = export_frame_name(&t->stacks, frame, line);
	struct timeline_node node = { (uint32_t)parent, frame, line, .class = -1 };
	struct json j = JSON_INIT(&t->text);
	int64_t id;

	strbuf_clear(&t->text);
	json_array(&j);
	json_u64(&j, parent);
	json_string(&j, name);
	json_end(&j);
	if (t->text.failed)
		return -ENOMEM;
	id = interner_add(&t->nodes, strbuf_text(&t->text), t->text.length, NULL);
	if (id < 0 || id >= UINT32_MAX - 1)
		return -ENOMEM;
	node.depth = parent ? t->node_list.data[parent - 1].depth + 1 : 0;
	node.shown = node.depth < CHART_ROWS - 1 ? (uint32_t)id + 1
						 : t->node_list.data[parent - 1].shown;
	if ((uint64_t)id == t->node_list.count && vec_push(&t->node_list, node) < 0)
		return -ENOMEM;
	return id + 1;
}

/* Adds the frames of an expansion, outermost first, below a node. Returns the innermost one. */
static int64_t add_frames(struct timeline *t, int64_t node, uint32_t expansion)
{
	const struct stacks *s = &t->stacks.stacks;
	struct stack_expansion e = s->expansions.data[expansion];

	for (uint32_t i = 0; i < e.count; i++) {
		uint32_t frame = s->expanded.data[e.first + i];

		for (uint32_t line = MAX(s->frames.data[frame].line_count, 1u);
		     line-- > 0 && node >= 0;)
			node = add_node(t, (uint64_t)node, frame, line);
	}
	return node;
}

/*
 * Returns the node of a row of table stack_node. Rows share their outer rows, whose nodes are
 * known. Frames of the interpreter that only lead to a Python frame are left out.
 */
static int64_t row_node(struct timeline *t, uint32_t process, uint32_t row, enum stack_end end)
{
	struct stacks *s = &t->stacks.stacks;
	bool python = false, found = false;
	uint64_t known = 0;
	int64_t node = 0;

	for (t->climb.count = 0; row != TRACE_NO_ROW;) {
		int64_t id = stacks_expand(s, process, row);
		uint64_t key = (uint64_t)end << 33 | (uint64_t)python << 32 | row;

		if (id < 0)
			return -ENOMEM;
		found = map_get(&t->row_nodes, key, &known);
		if (found)
			break;
		if (vec_push(&t->climb, ((struct timeline_climb){
						key, (uint32_t)id,
						python && s->expansions.data[id].runs_python })) <
		    0)
			return -ENOMEM;
		python |= s->expansions.data[id].python;
		if (stacks_parent(s, process, row, &row) < 0)
			return -ENOMEM;
	}
	if (found)
		node = (int64_t)known;
	else if (end != stack_end_complete)
		node = add_node(t, 0, t->stacks.notes[MIN(end, stack_end_guessed) - 1], 0);
	while (t->climb.count && node >= 0) {
		struct timeline_climb c = t->climb.data[--t->climb.count];

		node = c.hidden ? node : add_frames(t, node, c.expansion);
		if (node >= 0 && map_put(&t->row_nodes, c.key, (uint64_t)node) < 0)
			return -ENOMEM;
	}
	return node;
}

int64_t timeline_call_node(struct timeline *t, const struct export_event *event)
{
	struct stacks *s = &t->stacks.stacks;
	uint32_t id = export_call_stack(&t->view, event->row), row;
	enum stack_end end = stack_end_complete;
	int64_t expansion;

	if (!id)
		return 0;
	if (stacks_find(s, event->process, id, &row, &end) < 0)
		return -ENOMEM;
	while (row != TRACE_NO_ROW) {
		expansion = stacks_expand(s, event->process, row);
		if (expansion < 0)
			return -ENOMEM;
		if (!s->expansions.data[expansion].vendor)
			return row_node(t, event->process, row, end);
		if (stacks_parent(s, event->process, row, &row) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Returns the node of a sample's stack, or of a note that there is none; or -ENOMEM. */
static int64_t sample_node(struct timeline *t, const struct cpu_moment *moment)
{
	uint32_t row = TRACE_NO_ROW;
	enum stack_end end = stack_end_complete;
	int64_t node = 0;

	if (moment->stack &&
	    stacks_find(&t->stacks.stacks, moment->process, moment->stack, &row, &end) < 0)
		return -ENOMEM;
	if (row != TRACE_NO_ROW)
		node = row_node(t, moment->process, row, end);
	return node ? node : add_node(t, 0, t->stacks.notes[STACK_NOTE_NONE], 0);
}

/* --- CPU samples --- */

static int64_t frame_class(struct timeline *t, uint32_t node)
{
	struct timeline_node *n = &t->node_list.data[node - 1];
	const char *name = export_frame_name(&t->stacks, n->frame, n->line);
	struct json j;

	if (n->class >= 0)
		return n->class;
	j = timeline_class(t, EVENT_CPU_SAMPLE, name, strlen(name));
	json_key_u64(&j, "stack", node);
	n->class = timeline_class_end(t, &j);
	return n->class;
}

/* Ends the open frames below the outermost `keep`. Returns 0 or -ENOMEM. */
static int close_frames(struct timeline *t, struct timeline_track *track, size_t keep)
{
	while (track->open.count > keep) {
		struct timeline_frame *f = &track->open.data[--track->open.count];

		if (timeline_put(t, track, LANE_FRAMES, track->open.count, f->start_ns,
				 track->sampled_ns, frame_class(t, f->node)) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

/* Sets path[] to the nodes that a chart shows of a stack, outermost first; returns their number. */
static size_t chart_path(const struct timeline *t, uint32_t innermost, uint32_t path[CHART_ROWS])
{
	const struct timeline_node *nodes = t->node_list.data;
	size_t count = MIN(nodes[innermost - 1].depth + 1, CHART_ROWS);
	uint32_t node = nodes[innermost - 1].shown;

	path[count - 1] = innermost;
	for (size_t i = nodes[node - 1].depth + 1; i-- > 0; node = nodes[node - 1].parent)
		path[i] = node;
	return count;
}

int timeline_cpu_sample(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	struct cpu_moment sample =
		cpu_moment_of(t->view.trace, TABLE_cpu_sample, event->process, event->row);
	struct timeline_track *track =
		timeline_track(t, TIMELINE_CPU, event->process, 0, sample.thread, SIZE_MAX);
	int64_t node = sample_node(t, &sample);
	uint64_t start_ns = event->start_ns - MIN(sample.weight_ns, event->start_ns);
	uint32_t path[CHART_ROWS];
	size_t count, common = 0;

	if (!track || node <= 0)
		return -ENOMEM;
	count = chart_path(t, (uint32_t)node, path);
	if (track->open.count && start_ns <= track->sampled_ns + sample.weight_ns / 2) {
		start_ns = track->sampled_ns;
		while (common < MIN(track->open.count, count) &&
		       track->open.data[common].node == path[common])
			common++;
	}
	if (close_frames(t, track, common) < 0)
		return -ENOMEM;
	for (size_t i = common; i < count; i++)
		if (vec_push(&track->open, ((struct timeline_frame){ path[i], start_ns })) < 0)
			return -ENOMEM;
	track->sampled_ns = event->start_ns;
	return 0;
}

int timeline_off_cpu(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	struct cpu_moment moment =
		cpu_moment_of(t->view.trace, TABLE_off_cpu, event->process, event->row);
	struct timeline_track *track =
		timeline_track(t, TIMELINE_CPU, event->process, 0, moment.thread, SIZE_MAX);
	int64_t node = sample_node(t, &moment);
	const char *state = off_cpu_note(moment.state);
	struct json j;

	if (!track || node < 0)
		return -ENOMEM;
	j = timeline_class(t, EVENT_OFF_CPU, state, strlen(state));
	json_key_i64(&j, "stack", node);
	return timeline_put(t, track, LANE_OFF_CPU, 0, moment.start_ns, moment.end_ns,
			    timeline_class_end(t, &j));
}

int timeline_samples_finish(struct timeline *t)
{
	for (size_t i = 0; i < t->tracks.items.count; i++)
		if (close_frames(t, (struct timeline_track *)t->tracks.items.data[i], 0) < 0)
			return -ENOMEM;
	return 0;
}
