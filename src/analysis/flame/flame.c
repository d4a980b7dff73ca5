#include "analysis/flame/flame.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

#include "analysis/flame/flame_state.h"
#include "base/human.h"

static const struct kind {
	const char *title, *frame, *one, *many;
} kinds[FLAME_KINDS] = {
	[FLAME_CPU] = { "CPU time", "[CPU]", "sample", "samples" },
	[FLAME_GPU] = { "GPU time", "[GPU]", "operation", "operations" },
	[FLAME_WAIT] = { "time waiting for the GPU", "[wait]", "call", "calls" },
	[FLAME_LAUNCHES] = { "time launching", "[launches]", "launch", "launches" },
	[FLAME_OFF_CPU] = { "time off the CPU", "[off-CPU]", "pause", "pauses" },
	[FLAME_STALLS] = { "samples of kernels", "[stalls]", "sample", "samples" },
	[FLAME_MEMORY] = { "memory at its peak", "[memory]", "block", "blocks" },
};

const char *flame_kind_title(enum flame_kind kind)
{
	return kinds[kind].title;
}

const char *flame_kind_frame(enum flame_kind kind)
{
	return kinds[kind].frame;
}

const char *flame_kind_item(enum flame_kind kind, uint64_t count)
{
	return count == 1 ? kinds[kind].one : kinds[kind].many;
}

enum flame_unit flame_kind_unit(enum flame_kind kind)
{
	return kind == FLAME_STALLS ? FLAME_SAMPLES : kind == FLAME_MEMORY ? FLAME_BYTES : FLAME_NS;
}

const char *flame_kind_unit_name(enum flame_kind kind)
{
	static const char *const names[] = { "ns", "samples", "bytes" };

	return names[flame_kind_unit(kind)];
}

const char *flame_kind_attribution(enum flame_kind kind)
{
	return kind == FLAME_STALLS
		       ? "samples of a kernel are distributed over the stacks that launched it, by "
			 "their GPU time in it"
		       : NULL;
}

void flame_amount(struct strbuf *out, enum flame_kind kind, uint64_t ns)
{
	switch (flame_kind_unit(kind)) {
	case FLAME_NS:
		human_duration(out, ns);
		break;
	case FLAME_SAMPLES:
		human_count(out, ns);
		break;
	case FLAME_BYTES:
		human_bytes(out, ns);
		break;
	}
}

void flame_whole(struct strbuf *out, enum flame_kind kind, const struct flame_node *n)
{
	flame_amount(out, kind, n->total_ns);
	strbuf_addf(out, kind == FLAME_STALLS ? " %s" : " of %s in ", flame_kind_title(kind));
	if (kind == FLAME_STALLS)
		return;
	human_count(out, n->total_count);
	strbuf_addf(out, " %s", flame_kind_item(kind, n->total_count));
}

const char *flame_level_name(enum flame_level level)
{
	static const char *const names[FLAME_LEVELS] = { "process", "thread", "device", "stream",
							 "scope" };

	return names[level];
}

const char *frame_class_name(enum frame_class class)
{
	static const char *const names[FRAME_CLASSES] = {
		[FRAME_NATIVE] = "native",      [FRAME_INLINED] = "inlined",
		[FRAME_PYTHON] = "Python",      [FRAME_SYSTEM] = "operating system",
		[FRAME_CALL] = "CUDA call",     [FRAME_KERNEL] = "GPU kernel",
		[FRAME_COPY] = "copy",          [FRAME_SET] = "memory set",
		[FRAME_GRAPH] = "CUDA graph",   [FRAME_LEVEL] = "group",
		[FRAME_NOTE] = "note",          [FRAME_CODE] = "line of a kernel",
		[FRAME_STALL] = "stall reason",
	};

	return names[class];
}

/* Whether more than one process used GPUs. */
static bool has_several(const struct trace *t)
{
	unsigned count = 0;

	for (size_t p = 0; p < trace_process_count(t) && count < 2; p++) {
		bool any = false;

		for (size_t i = 0; i < GPU_WORK_KINDS; i++)
			any |= trace_first_row(t, schema_gpu_work[i]->id, p) <
			       trace_first_row(t, schema_gpu_work[i]->id, p + 1);
		count += any;
	}
	return count > 1;
}

static int load(struct flame_builder *b, struct error *e)
{
	const struct flame_options *o = b->options;
	int rc = calls_load(b->trace, &b->calls, e);

	if (rc >= 0)
		rc = trace_load(b->trace, TABLE_api_call, COLUMN_BIT(api_call, stack), e);
	if (rc >= 0)
		rc = trace_load(b->trace, TABLE_thread, 0, e);
	if (rc >= 0)
		rc = gpus_init(&b->gpus, b->trace, e);
	b->gpus_ready = rc >= 0;
	if (rc >= 0 && (o->levels & 1 << FLAME_BY_SCOPE || o->scope)) {
		rc = nvtx_ranges_init(&b->ranges, b->trace, SCOPES_ALL, true, e);
		b->ranges_ready = rc >= 0;
	}
	if (rc >= 0 && o->scope) {
		b->scopes = scope_paths_match(&b->ranges, b->trace, o->scope);
		rc = b->scopes ? 0 : error_set(e, -ENOMEM, "out of memory");
	}
	if (rc >= 0 && o->captures) {
		rc = graph_stacks_init(&b->captures, b->trace, e);
		b->captures_ready = rc >= 0;
	}
	if (rc < 0)
		return rc;
	b->several = has_several(b->trace);
	b->stack_ids = trace_u32(b->trace, TABLE_api_call, COLUMN_api_call_stack);
	b->stack_valid = trace_valid(b->trace, TABLE_api_call, COLUMN_api_call_stack);
	return 0;
}

#define DEEPER_FRAMES "[deeper frames]"

static int prepare(struct flame_builder *b)
{
	static const char *const ends[ARRAY_SIZE(b->ends)] = { NULL, "[partial stack]",
							       "[truncated stack]", DEEPER_FRAMES,
							       "[guessed stack]" };
	struct stacks *s = &b->flame->stacks;

	for (size_t i = 1; i < ARRAY_SIZE(ends); i++) {
		int64_t frame = stacks_add_frame(s, FRAME_NOTE, ends[i], NULL, NULL);

		if (frame < 0)
			return -ENOMEM;
		b->ends[i] = (uint32_t)frame;
	}
	for (size_t i = 0; i < FLAME_KINDS; i++) {
		int64_t frame = stacks_add_frame(s, FRAME_NOTE, kinds[i].frame, NULL, NULL);

		if (frame < 0)
			return -ENOMEM;
		b->flame->sections[i].frame = (uint32_t)frame;
		b->flame->sections[i].node = FLAME_NONE;
	}
	return thread_names_init(&b->threads, b->trace);
}

static void builder_release(struct flame_builder *b)
{
	if (b->gpus_ready)
		gpus_release(&b->gpus);
	if (b->ranges_ready)
		nvtx_ranges_release(&b->ranges);
	free(b->scopes);
	if (b->captures_ready)
		graph_stacks_release(&b->captures);
	free(b->places);
	map_release(&b->function_frames);
	map_release(&b->prefixes);
	for (size_t i = 0; i < FLAME_LEVELS; i++)
		map_release(&b->levels[i]);
	thread_names_release(&b->threads);
	map_release(&b->thread_frames);
	vec_release(&b->climb);
}

static int add_up(struct flame_builder *b, struct error *e)
{
	const unsigned places = 1 << FLAME_BY_DEVICE | 1 << FLAME_BY_STREAM;
	const unsigned calls = 1 << FLAME_WAIT | 1 << FLAME_LAUNCHES;
	unsigned requested = b->options->kinds;
	int rc = load(b, e);

	if (rc >= 0)
		rc = prepare(b);
	if (rc >= 0 && b->options->levels & places && requested & calls)
		rc = flame_places_init(b, e);
	if (rc >= 0 && requested & 1 << FLAME_GPU)
		rc = flame_add_gpu(b, e);
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && rc >= 0; kind++) {
		if (!(requested & 1u << kind))
			continue;
		if (calls & 1u << kind)
			rc = flame_add_calls(b, kind);
		else if (flame_kind_is_sampled(kind))
			rc = flame_add_samples(b, kind, e);
		else if (kind == FLAME_STALLS)
			rc = flame_add_stalls(b, e);
		else if (kind == FLAME_MEMORY)
			rc = flame_add_memory(b, e);
	}
	return rc;
}

unsigned flame_kinds_recorded(const struct trace *t)
{
	unsigned recorded = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		recorded |= trace_rows(t, schema_gpu_work[i]->id) ? 1 << FLAME_GPU : 0;
	if (trace_rows(t, TABLE_api_call))
		recorded |= 1 << FLAME_WAIT | 1 << FLAME_LAUNCHES;
	if (trace_rows(t, TABLE_cpu_sample))
		recorded |= 1 << FLAME_CPU;
	if (trace_rows(t, TABLE_off_cpu))
		recorded |= 1 << FLAME_OFF_CPU;
	if (trace_rows(t, TABLE_pc_sample))
		recorded |= 1 << FLAME_STALLS;
	if (trace_rows(t, TABLE_allocation))
		recorded |= 1 << FLAME_MEMORY;
	return recorded;
}

int flame_init(struct flame *f, struct trace *t, const struct flame_options *options,
	       struct error *e)
{
	struct flame_builder b = { .flame = f, .trace = t, .options = options };
	struct error detail = { 0 };
	int rc;

	*f = (struct flame){ .kinds = options->kinds };
	rc = flame_tree_init(&f->tree);
	if (rc < 0)
		return error_set(e, rc, "out of memory");
	rc = stacks_init(&f->stacks, t, options->detail, options->full_names, &detail);
	if (rc < 0) {
		flame_tree_release(&f->tree);
	} else {
		f->stacks.no_lines = options->no_lines;
		rc = add_up(&b, &detail);
		builder_release(&b);
		if (rc < 0)
			flame_release(f);
	}
	if (rc < 0)
		return error_set(e, rc, "%s", detail.code ? detail.text : error_code_text(rc));
	return 0;
}

void flame_release(struct flame *f)
{
	flame_tree_release(&f->tree);
	stacks_release(&f->stacks);
	*f = (struct flame){ 0 };
}

/* The frame of f that is displayed like a frame of `other`; added if necessary. */
static int64_t same_frame(struct flame *f, const struct flame *other, uint32_t frame)
{
	const struct stack_frame *x = &other->stacks.frames.data[frame];

	return stacks_add_frame(&f->stacks, (enum frame_class)x->class,
				stacks_text(&other->stacks, x->name),
				stacks_text(&other->stacks, x->full_name),
				stacks_text(&other->stacks, x->system_name));
}

int flame_compare(struct flame *f, const struct flame *before)
{
	size_t frames = before->stacks.frames.count, nodes = before->tree.nodes.count;
	_cleanup_free_ uint32_t *frame_of = malloc((frames + 1) * sizeof(*frame_of));
	_cleanup_free_ uint32_t *node_of = malloc((nodes + 1) * sizeof(*node_of));

	if (!frame_of || !node_of)
		return -ENOMEM;
	for (size_t i = 0; i < frames; i++) {
		int64_t frame = same_frame(f, before, (uint32_t)i);

		if (frame < 0)
			return -ENOMEM;
		frame_of[i] = (uint32_t)frame;
	}
	node_of[FLAME_ROOT] = FLAME_ROOT;
	for (size_t i = 1; i < nodes; i++) {
		const struct flame_node *n = &before->tree.nodes.data[i];

		node_of[i] = flame_tree_child(&f->tree, node_of[n->parent], frame_of[n->frame]);
		if (node_of[i] == FLAME_NONE)
			return -ENOMEM;
		f->tree.nodes.data[node_of[i]].before_self_ns += n->self_ns;
	}
	for (size_t i = 0; i < FLAME_KINDS; i++)
		f->sections[i].before_total_ns = before->sections[i].total_ns;
	f->diff = true;
	return 0;
}

/* Sets *matches to one byte per frame: whether it matches; NULL without a pattern. */
static int match_frames(const struct stacks *s, const char *pattern, uint8_t **matches,
			struct error *e)
{
	char why[200];
	regex_t regex;
	int rc;

	*matches = NULL;
	if (!pattern)
		return 0;
	rc = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (rc) {
		regerror(rc, &regex, why, sizeof(why));
		return error_set(e, E_USAGE, "'%s' is not a regular expression: %s", pattern, why);
	}
	*matches = calloc(s->frames.count + 1, 1);
	for (size_t i = 0; *matches && i < s->frames.count; i++) {
		const struct stack_frame *frame = &s->frames.data[i];

		(*matches)[i] = !regexec(&regex, stacks_text(s, frame->name), 0, NULL, 0) ||
				(frame->full_name != frame->name &&
				 !regexec(&regex, stacks_text(s, frame->full_name), 0, NULL, 0));
	}
	regfree(&regex);
	return *matches ? 0 : error_set(e, -ENOMEM, "out of memory");
}

int flame_filter(struct flame *f, const char *focus, const char *ignore, struct error *e)
{
	_cleanup_free_ uint8_t *focused = NULL, *ignored = NULL;
	int rc = match_frames(&f->stacks, focus, &focused, e);

	if (rc >= 0)
		rc = match_frames(&f->stacks, ignore, &ignored, e);
	if (rc < 0)
		return rc;
	return flame_tree_filter(&f->tree, focused, ignored) < 0
		       ? error_set(e, -ENOMEM, "out of memory")
		       : 0;
}

int flame_finish(struct flame *f, bool inverted)
{
	int64_t deeper = stacks_add_frame(&f->stacks, FRAME_NOTE, DEEPER_FRAMES, NULL, NULL);
	int rc = deeper < 0 ? -ENOMEM : 0;

	if (rc >= 0 && inverted)
		rc = flame_tree_invert(&f->tree, &f->stacks, (uint32_t)deeper);
	if (rc >= 0)
		rc = flame_tree_finish(&f->tree, &f->stacks);
	if (rc < 0)
		return rc;
	f->inverted = inverted;
	for (uint32_t i = 1; i < f->tree.nodes.count; i = f->tree.nodes.data[i].end)
		for (size_t k = 0; k < FLAME_KINDS; k++)
			if (f->tree.nodes.data[i].frame == f->sections[k].frame)
				f->sections[k].node = i;
	return 0;
}
