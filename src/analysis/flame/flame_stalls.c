/*
 * flame_stalls.c: adds kernel samples to a flame graph: below the stacks that launched the kernel,
 * by line and by the state of its warps.
 *
 * A sample belongs to a kernel, not to a launch. If several stacks launched a kernel, its samples
 * are distributed by their shares of its GPU time, separately for each instruction and reason, so
 * that all sums are preserved. To spread the rounding remainders over the stacks, each distribution
 * starts at the next number of a sequence that fills [0, 1) evenly.
 */
#include <errno.h>
#include <string.h>

#include "analysis/flame/flame_state.h"
#include "analysis/groups.h"
#include "analysis/stalls.h"
#include "base/path.h"
#include "base/search.h"
#include "names/demangle.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* golden ratio times 2^64, modulo 2^64 */

/* A stack that launched a kernel. */
struct launcher {
	uint32_t node; /* FLAME_NONE: a filter excludes its launches */
	uint64_t ns;
	uint64_t until_ns; /* sum of ns up to and including this launcher */
};

/* A kernel of a process on a device. */
struct sampled_kernel {
	GROUPS(struct launcher) launchers; /* key: node */
};

struct adding {
	struct flame_builder *builder;
	struct stalls stalls;
	struct interner keys; /* process, device and name; ids are items of kernels */
	VEC(struct sampled_kernel) kernels;
	VEC(uint32_t) frames; /* of an instruction */
	uint64_t turns; /* number of distributions so far */
};

/* Id of a kernel with samples, -1 if it has none, or -ENOMEM. add: add the kernel. */
static int64_t find_kernel(struct adding *a, uint32_t process, uint32_t device, const char *name,
			   bool add)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;

	strbuf_addf(&key, "%u %u %s", process, device, name);
	if (key.failed)
		return -ENOMEM;
	return add ? interner_add(&a->keys, key.data, key.length, NULL)
		   : interner_find(&a->keys, key.data, key.length);
}

static int find_sampled(struct adding *a)
{
	for (size_t i = 0; i < a->stalls.instructions.count; i++) {
		const struct stall_place *p = &a->stalls.instructions.items[i];
		int64_t id = find_kernel(a, p->function->process, p->function->device,
					 p->kernel_name, true);

		if (id < 0 || ((size_t)id == a->kernels.count &&
			       vec_push(&a->kernels, (struct sampled_kernel){ 0 }) < 0))
			return -ENOMEM;
	}
	return 0;
}

/* Adds the time of a launch to its stack. */
static int add_launch(struct adding *a, const struct event_columns *c, uint32_t process,
		      uint64_t row, bool selected)
{
	struct flame_builder *b = a->builder;
	uint32_t call = calls_launch(&b->calls, GPU_WORK_kernel, row), node = FLAME_NONE;
	struct flame_event event = flame_event_of(b, process, call);
	uint32_t config = kernel_columns(b->trace)->config[row];
	int64_t id =
		config >= trace_rows(b->trace, TABLE_kernel_config)
			? -1
			: find_kernel(a, process, c->device[row],
				      trace_string(b->trace,
						   kernel_config_columns(b->trace)->name[config]),
				      false);
	struct launcher *launcher;

	if (id < 0)
		return id == -ENOMEM ? -ENOMEM : 0;
	if (selected && scope_path_selected(b->scopes, event.scope)) {
		event.device = c->device[row];
		event.stream = c->stream[row];
		node = flame_base(b, FLAME_STALLS, &event);
		node = flame_launch(b, FLAME_STALLS, c, process, row, node, call);
		if (node == FLAME_NONE)
			return -ENOMEM;
	}
	launcher = groups_at(&a->kernels.data[id].launchers, node, .node = node);
	if (!launcher)
		return -ENOMEM;
	launcher->ns += c->end_ns[row] - c->start_ns[row];
	return 0;
}

static int add_launches(struct adding *a)
{
	struct flame_builder *b = a->builder;
	const struct flame_options *o = b->options;
	struct event_columns c = events_of(b->trace, TABLE_kernel);

	for (struct row_walk w = all_rows(b->trace, TABLE_kernel); row_walk_next(&w);)
		if (event_is_timed(&c, w.row) && c.start_ns[w.row] >= o->since_ns &&
		    c.start_ns[w.row] < o->until_ns &&
		    add_launch(a, &c, w.process, w.row,
			       flame_selects(b, TABLE_kernel, w.row, true, c.start_ns[w.row])) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < a->kernels.count; i++) {
		struct sampled_kernel *k = &a->kernels.data[i];
		uint64_t sum = 0;

		for (size_t n = 0; n < k->launchers.items.count; n++) {
			struct launcher *l = &k->launchers.items.data[n];

			if (__builtin_add_overflow(sum, l->ns, &sum))
				sum = UINT64_MAX;
			l->until_ns = sum;
		}
	}
	return 0;
}

/*
 * Frame "kernel.cu:16" for the kernel itself, "gather (kernel.cu:7)" for other functions;
 * FLAME_NONE: neither function nor line is known.
 */
static int64_t frame_of(struct adding *a, const struct source_frame *f, const char *kernel)
{
	struct stacks *s = &a->builder->flame->stacks;
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, function = STRBUF_INIT;
	bool other = f->function && strcmp(f->function, kernel) != 0;

	kernel_name_text(f->function ? f->function : kernel, s->full_names, &function);
	if (other)
		strbuf_adds(&name, strbuf_text(&function));
	if (f->file)
		strbuf_addf(&name, other ? " (%s:%u)" : "%s:%u", base_name(f->file), f->line);
	if (name.failed || function.failed)
		return -ENOMEM;
	return name.length
		       ? stacks_add_line(s, FRAME_CODE, strbuf_text(&name), strbuf_text(&function),
					 f->file ? f->file : "", f->line)
		       : FLAME_NONE;
}

/* Fills a->frames with the kernel and its lines, outermost first. */
static int find_frames(struct adding *a, const struct stall_place *p)
{
	int64_t frame = flame_kernel_frame(a->builder, p->kernel_name);
	int rc = frame == FLAME_NONE ? -ENOMEM : 0;

	a->frames.count = 0;
	if (rc == 0)
		rc = vec_push(&a->frames, (uint32_t)frame);
	for (size_t i = 0; i < p->frame_count && rc == 0; i++) {
		frame = frame_of(a, &p->frames[i], p->kernel_name);
		if (frame != FLAME_NONE)
			rc = frame < 0 ? -ENOMEM : vec_push(&a->frames, (uint32_t)frame);
	}
	return rc;
}

/* Adds samples of an instruction with one reason below the node of a stack. */
static int add_reason(struct adding *a, uint32_t node, const struct stall_reason *what,
		      uint64_t samples)
{
	struct flame *f = a->builder->flame;
	struct flame_section *section = &f->sections[FLAME_STALLS];
	const char *below = flame_name(f, node);
	int64_t reason = stacks_add_frame(&f->stacks, FRAME_STALL, what->words, NULL, NULL);

	for (size_t i = 0; i < a->frames.count; i++)
		node = flame_tree_child(&f->tree, node, a->frames.data[i]);
	if (reason >= 0)
		node = flame_tree_child(&f->tree, node, (uint32_t)reason);
	if (node == FLAME_NONE || reason < 0)
		return -ENOMEM;
	flame_tree_add(&f->tree, node, samples, samples);
	section->total_ns += samples;
	section->count += samples;
	section->unmatched += strcmp(below, FLAME_NO_LAUNCH) ? 0 : samples;
	return 0;
}

static int add_unmatched(struct adding *a, const struct stall_place *p, const struct stall_count *c)
{
	struct flame_builder *b = a->builder;
	struct flame_event event = flame_event_of(b, p->function->process, TRACE_NO_ROW);
	uint32_t node;

	if (b->options->select || b->scopes)
		return 0; /* it is unknown whether the filter selects them */
	event.device = p->function->device;
	node = flame_unmatched(b, flame_base(b, FLAME_STALLS, &event));
	return node == FLAME_NONE ? -ENOMEM : add_reason(a, node, &c->what, c->samples);
}

/* Number of samples that this launcher and those before it get together. */
static uint64_t share_until(const struct launcher *l, uint64_t samples, uint64_t whole_ns,
			    uint64_t start_ns)
{
	return (uint64_t)(((unsigned __int128)samples * l->until_ns + start_ns) / whole_ns);
}

static int distribute(struct adding *a, const struct stall_place *p, const struct stall_count *c)
{
	int64_t id =
		find_kernel(a, p->function->process, p->function->device, p->kernel_name, false);
	const struct sampled_kernel *k = id < 0 ? NULL : &a->kernels.data[id];
	const struct launcher *l = k ? k->launchers.items.data : NULL;
	size_t count = k ? k->launchers.items.count : 0;
	uint64_t whole_ns = count ? l[count - 1].until_ns : 0, start_ns, done = 0, until;

	if (!k)
		return -ENOMEM;
	if (!whole_ns)
		return add_unmatched(a, p, c);
	start_ns = (uint64_t)((unsigned __int128)whole_ns * (GOLDEN * a->turns++) >> 64);
	while (done < c->samples) {
		size_t at = sorted_prefix(
			count, i, share_until(&l[i], c->samples, whole_ns, start_ns) <= done);

		until = share_until(&l[at], c->samples, whole_ns, start_ns);
		if (l[at].node != FLAME_NONE &&
		    add_reason(a, l[at].node, &c->what, until - done) < 0)
			return -ENOMEM;
		done = until;
	}
	return 0;
}

static int add_samples(struct adding *a)
{
	for (size_t i = 0; i < a->stalls.instructions.count; i++) {
		const struct stall_place *p = &a->stalls.instructions.items[i];

		if (find_frames(a, p) < 0)
			return -ENOMEM;
		for (size_t k = 0; k < p->reason_count; k++)
			if (distribute(a, p, &p->reasons[k]) < 0)
				return -ENOMEM;
	}
	return 0;
}

static int load(struct flame_builder *b, struct selection *s, struct error *e)
{
	static const enum table_id tables[] = { TABLE_cubin, TABLE_pc_reading, TABLE_pc_sample };
	struct filter filter = FILTER_ALL;
	int rc = flame_load_work(b, e);

	for (size_t i = 0; i < ARRAY_SIZE(tables) && rc >= 0; i++)
		rc = trace_load(b->trace, tables[i], 0, e);
	filter.since_ns = b->options->since_ns;
	filter.until_ns = b->options->until_ns;
	return rc < 0 ? rc : selection_init(s, b->trace, &filter, NULL, e);
}

int flame_add_stalls(struct flame_builder *b, struct error *e)
{
	struct adding a = { .builder = b };
	struct selection selection;
	int rc = load(b, &selection, e);

	if (rc < 0)
		return rc;
	interner_init(&a.keys);
	rc = stalls_init(&a.stalls, &selection, STALLS_BY_DEVICE);
	if (rc == 0)
		rc = find_sampled(&a);
	if (rc == 0)
		rc = add_launches(&a);
	if (rc == 0)
		rc = add_samples(&a);
	for (size_t i = 0; i < a.kernels.count; i++)
		groups_release(&a.kernels.data[i].launchers);
	vec_release(&a.kernels);
	vec_release(&a.frames);
	interner_release(&a.keys);
	stalls_release(&a.stalls);
	selection_release(&selection);
	return rc;
}
